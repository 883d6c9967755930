//! `watchfire chat`: the person's terminal, tied to an agent's.

mod mirror;

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use watchfire_core::model::BackendName;
use watchfire_core::orchestrator::ChatRequest;
use watchfire_core::session::Session;
use watchfire_core::{Error, ErrorKind};

use super::keys::{Key, Keys};
use crate::args::SessionArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::{compose, terminal};
use mirror::{Mirror, Screen};

#[derive(Args, Debug)]
#[command(after_help = "\
Everything you type goes to the agent, but Ctrl+C, which ends the chat. To send Ctrl+C itself, type Ctrl+] first: the
key after it goes through as it is.

Examples:
  watchfire chat
  watchfire chat --agent scripted")]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

pub(crate) async fn run(context: &Context, args: ChatArgs) -> Result<Exit> {
    if context.out.json || !terminal::is_interactive() {
        return Err(Failure::usage("a chat needs a terminal", "run it where you can type and see"));
    }
    let project = context.project().await?;
    let (home, root) = (project.home.path().to_path_buf(), project.root.clone());
    drop(project);
    let mut request = ChatRequest::new().with_size(terminal::size());
    request.options.agent = args.session.agent.as_deref().map(str::parse::<BackendName>).transpose()?;
    request.options.sandbox = compose::sandbox_choice(&args.session)?;

    let screen = Arc::new(Screen::default());
    let mirrored = Arc::clone(&screen);
    let orchestrator = compose::orchestrator(&home)
        .await?
        .terminals(move |size| Box::new(Mirror::new(size, Arc::clone(&mirrored))))
        .start()
        .await?;
    let interrupts = Interrupts::listen()?;
    let ended: Result<()> = async {
        let project = orchestrator.open(&root).await?;
        let session = project.chat(request).await?;
        let changed = terminal::raw()?;
        let attached = attach(&session, &screen, &interrupts).await;
        session.stop();
        session.ended().await;
        drop(changed);
        attached
    }
    .await;
    orchestrator.shutdown().await;
    ended?;
    context.out.line("chat ended");
    Ok(Exit::Good)
}

/// Carries keys one way and the screen the other, until the session ends or the person has had enough.
async fn attach(session: &Session, screen: &Screen, interrupts: &Interrupts) -> Result<()> {
    let mut keys = read_keys();
    let mut filter = Keys::default();
    let mut resized =
        signal(SignalKind::window_change()).map_err(|e| Error::io("listening for signals", e))?;
    let ended = session.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            () = interrupts.first() => break,
            () = screen.written() => screen.show(session),
            _ = resized.recv() => session.resize(terminal::size()).await?,
            typed = keys.recv() => {
                let Some(typed) = typed else { break };
                let Key::Through(bytes) = filter.take_in(&typed) else { break };
                if !bytes.is_empty() {
                    match session.write(bytes).await {
                        Err(error) if error.kind() == ErrorKind::TargetOff => break,
                        sent => sent?,
                    }
                }
            }
        }
    }
    screen.show(session);
    Ok(())
}

/// What is typed, as it comes. The thread ends with the program: nothing interrupts a read of a terminal.
fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (send, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            let typed = buffer.get(..read).unwrap_or_default().to_vec();
            if send.blocking_send(typed).is_err() {
                break;
            }
        }
    });
    keys
}
