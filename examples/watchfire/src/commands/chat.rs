//! `watchfire chat`: connects the person's terminal to the agent's.

pub(super) mod ended;

use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use watchfire_core::model::BackendName;
use watchfire_core::orchestrator::{ChatRequest, LogStream, Seen};
use watchfire_core::schedule::{Change, ChatPlace, Notice};
use watchfire_core::session::{AttachRequest, Exit as Exited, Session};
use watchfire_core::{Error, ErrorKind};

use super::attach;
use crate::args::SessionArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::serving::serve;
use crate::terminal::Keyboard;
use crate::{compose, git, terminal, text, worker};
use watchfire_api::keys::{Key, Keys};

/// Time from the end of an agent's output to its exit.
const LAST: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "\
Everything you type goes to the agent. Ctrl+C twice within a second ends the chat; to send it twice, type Ctrl+] before the
second: the key after it goes through as it is. Where a daemon runs, it runs the chat, and Ctrl+] leaves it: the chat goes on.

A chat works on your own files. With --worktree it has a folder and a branch of its own, watchfire/chat, and does
not see your ignored files. Use it for longer work alongside your own. What it leaves is committed at its end, and the next such chat goes on there until
you have merged it.

With --resume the agent goes on with the conversation of a chat that has ended, where its program can: any of the last twenty,
killed ones too.

Examples:
  watchfire chat
  watchfire chat --worktree
  watchfire chat --agent scripted
  watchfire chat --resume")]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(super) session: SessionArgs,
    /// Work in a folder and on a branch of its own
    #[arg(long)]
    worktree: bool,
    /// Begin the folder again; work in it that is not merged is kept under a rescue ref
    #[arg(long, requires = "worktree")]
    fresh: bool,
    /// Go on with a chat that has ended: its number, or the beginning of its id; asks without either
    #[arg(
        long,
        value_name = "CHAT",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["worktree", "agent"]
    )]
    pub(super) resume: Option<String>,
    /// Run the agent in this program, even where a daemon runs
    #[arg(long)]
    embedded: bool,
}

impl ChatArgs {
    pub(super) fn in_root(session: SessionArgs, embedded: bool) -> Self {
        Self { session, worktree: false, fresh: false, resume: None, embedded }
    }

    pub(super) fn place(&self) -> ChatPlace {
        match (self.worktree, self.fresh) {
            (false, _) => ChatPlace::Root,
            (true, false) => ChatPlace::Worktree,
            (true, true) => ChatPlace::FreshWorktree,
        }
    }
}

pub(crate) async fn run(context: &Context, args: ChatArgs) -> Result<Exit> {
    if context.out.json || !terminal::is_interactive() {
        return Err(Failure::usage("a chat needs a terminal", "run it where you can type and see"));
    }
    let place = context.project().await?;
    git::require()?;
    let (home, root) = (place.home.path().to_path_buf(), place.root.clone());
    if let Some(daemon) = worker::wanted_daemon(&home, args.embedded).await? {
        return attach::chat(context, daemon, &place, &args).await;
    }
    // The orchestrator opens the store itself.
    drop(place);
    // The agent draws for the size that the person sees.
    let mut request = ChatRequest::new().with_size(terminal::size()).with_place(args.place());
    request.options.agent = args.session.agent.as_deref().map(str::parse::<BackendName>).transpose()?;
    request.options.sandbox = compose::sandbox_choice(&args.session)?;

    let orchestrator = compose::orchestrator(&home).await?.start().await?;
    // Before an agent is started: from here on a signal ends the agent before us.
    let interrupts = Interrupts::listen()?;
    let mut noticing = None;
    let ended: Result<Option<Exited>> = async {
        let project = orchestrator.open(&root).await?;
        let opened = project.subscribe(None).await?.snapshot.opened;
        let changes = project.subscribe(Some(opened)).await?.changes;
        noticing = Some(tokio::spawn(notices(changes)));
        let _serving = serve(&home, &project);
        if let Some(wanted) = &args.resume {
            let chosen = tokio::select! {
                chosen = ended::choose(project.ended_chats().await?, wanted) => chosen?,
                () = interrupts.first() => return Ok(None),
            };
            request.options.resume = Some(chosen);
        }
        let session = project.chat(request).await?;
        // Only now: while the project is opened, Ctrl+C is still a signal.
        let changed = terminal::raw()?;
        let attached = converse(&session, &interrupts).await;
        if matches!(attached, Ok(true)) {
            // An agent that ends by itself is not stopped.
            let _ = tokio::time::timeout(LAST, session.ended()).await;
        }
        session.stop();
        let ended = session.ended().await;
        drop(changed);
        Ok(attached?.then_some(ended.exit))
    }
    .await;
    orchestrator.shutdown().await;
    // Not before: the screen was the agent's, and the last of its work is carried over at the end.
    if let Some(noticing) = noticing {
        for notice in noticing.await.unwrap_or_default() {
            context.out.line(told(&notice));
        }
    }
    let exit = ended?;
    if interrupts.happened() {
        context.out.line("chat ended");
        return Ok(Exit::Interrupted);
    }
    // The agent's own, as shells have it.
    let code = match exit {
        Some(Exited::Code(code)) => u8::try_from(code).unwrap_or(1),
        Some(Exited::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        _ => 0,
    };
    match exit.filter(|_| code > 0) {
        None => context.out.line("chat ended"),
        Some(exit) => context.out.line(format!("chat ended: the agent ended with {exit}")),
    }
    Ok(if code == 0 { Exit::Good } else { Exit::Of(code) })
}

/// Returns a notice in one line.
pub(super) fn told(notice: &Notice) -> String {
    let about = notice.task.map(|task| format!("#{task} ")).unwrap_or_default();
    text::line(&format!("! {about}{}", notice.message))
}

/// Returns all notices for the person, once the project is closed.
async fn notices(mut changes: LogStream) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let Some(seen) = changes.next().await {
        if let Seen::Record(record) = seen
            && let Change::Notice(notice) = record.change
        {
            notices.push(notice);
        }
    }
    notices
}

/// Passes keys to the agent and its output to the person's terminal, until either side ends the chat. Returns true if the agent did.
async fn converse(session: &Session, interrupts: &Interrupts) -> Result<bool> {
    // The person's terminal gets every byte, and it answers the agent's queries itself: only it knows its
    // colours, its size in pixels and its keys.
    let output = session.attach(&AttachRequest::output().with_answers())?;
    let mut keys = Keyboard::open().map_err(|error| Error::io("reading the terminal", error))?;
    let mut filter = Keys::default();
    let mut resized =
        signal(SignalKind::window_change()).map_err(|e| Error::io("listening for signals", e))?;
    // In a task of its own: a terminal that accepts no output may still send keys.
    let mut showing = tokio::spawn(async {
        // The kernel sends a hang-up when the terminal is gone, and that ends the chat.
        let _ = output.copy_to(&mut tokio::io::stdout()).await;
    });
    let ended = loop {
        tokio::select! {
            // The end of the output is the end of the agent.
            _ = &mut showing => break Ok(true),
            () = interrupts.first() => break Ok(false),
            _ = resized.recv() => {
                if let Err(error) = session.resize(terminal::size()).await {
                    break Err(error);
                }
            }
            typed = keys.recv() => {
                let Some(typed) = typed else { break Ok(false) };
                let Key::Through(bytes) = filter.take_in(&typed, Instant::now()) else { break Ok(false) };
                if !bytes.is_empty()
                    && let Err(error) = session.write(bytes).await
                    // The agent may end between two keys. The end of its output then ends the chat.
                    && error.kind() != ErrorKind::TargetOff
                {
                    break Err(error);
                }
            }
        }
    };
    showing.abort();
    Ok(ended?)
}
