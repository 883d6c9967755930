//! `watchfire attach`: the terminal of an agent that the daemon runs, in the person's own.
//!
//! The daemon has the terminal in the meantime: it draws there, and reads the keys. It paints the screen that it keeps, so the agent's
//! queries never reach the person's terminal, and no answer of that terminal is taken for a key.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use watchfire_api::attach::decode_error;
use watchfire_api::keys::Detaching;
use watchfire_client::daemon_proto::{AgentStatus, ProjectId, SessionEnd, StartAgentRequest};
use watchfire_client::work_proto::{AttachEnd, AttachRequest, EndedChatsRequest};
use watchfire_client::{ApiError, Attached, Client, Daemon, Followed, ProjectLog, environment, meta};
use watchfire_core::model::TaskNumber;
use watchfire_core::observe::Target;
use watchfire_core::schedule::{Change, ChatPlace, Subject};
use watchfire_core::{Error, ErrorKind};
use watchfire_tui::ascii;

use super::agent::of_chat;
use super::chat::ChatArgs;
use super::chat::ended;
use crate::away::{self, BACK};
use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::terminal::Keyboard;
use crate::{compose, terminal};

/// Exit code of a client whose session was cut off, and of one that could not attach.
const CUT_OFF: u8 = 254;
const NOT_ATTACHED: u8 = 255;
/// Upper bound for keys that wait for a daemon.
const TYPED: usize = 1 << 20;
/// Time that the daemon has to let go of the terminal.
const SOON: Duration = Duration::from_secs(1);
/// Pause between two looks whether the daemon reads what is typed.
const LOOK: Duration = Duration::from_secs(1);
/// Pause between two looks for a daemon that comes back.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
#[command(after_help = "\
Everything you type goes to the agent. Ctrl+] detaches; the agent goes on. Ctrl+C twice within a second detaches too, and ends a
chat. PageUp shows what has left the screen: PageUp, PageDown, arrows, Home and End move there, and q, Escape or the end returns.

Exit codes: 0 you detached; the agent's own at its end; 254 the daemon has gone; 255 it could not attach.

Examples:
  watchfire attach            the agent of this project that started last
  watchfire attach 3          the agent of task 3
  watchfire attach --read-only")]
pub(crate) struct AttachArgs {
    /// A task's number, or the name of an agent
    #[arg(value_name = "N|NAME")]
    which: Option<String>,
    /// Only look: neither keys nor the size of this terminal reach the agent
    #[arg(long)]
    read_only: bool,
}

pub(crate) async fn run(context: &Context, args: AttachArgs) -> Result<Exit> {
    let (viewer, home, daemon) = ready(context, args).await.map_err(refused)?;
    match viewer.show(&home, daemon).await? {
        End::Detached => {
            farewell(context, "detached; the agent goes on");
            Ok(Exit::Good)
        }
        End::Ended => {
            context.out.line("chat ended");
            Ok(Exit::Good)
        }
        End::Over(SessionEnd { exit_code, outcome }) => {
            context.out.line(format!("the agent has ended: {outcome}"));
            Ok(Exit::Of(u8::try_from(exit_code).unwrap_or(NOT_ATTACHED)))
        }
        End::Gone(failure) => Err(failure),
    }
}

/// Prints the last words, unless the terminal was closed, which is a way to detach.
fn farewell(context: &Context, words: &str) {
    if terminal::is_interactive() {
        context.out.line(words);
    }
}

/// Finds the agent, and the daemon that runs it.
async fn ready(context: &Context, args: AttachArgs) -> Result<(Viewer, PathBuf, Daemon)> {
    if context.out.json || !terminal::is_interactive() {
        return Err(Failure::usage("attach needs a terminal", "run it where you can type and see"));
    }
    let project = context.project().await?;
    let (home, id) = (project.home.path().to_path_buf(), project.id.to_string());
    drop(project);
    let daemon = super::daemon::running(&home).await?;
    begun(&home, &id, args.which.as_deref()).await?;
    let agent = find(&daemon, &id, args.which.as_deref()).await?;
    let is_chat = agent.mode == "chat";
    let viewer = Viewer { project: id, session: agent.session_id, is_chat, read_only: args.read_only };
    Ok((viewer, home, daemon))
}

/// Returns the failure of a command that could not attach: its exit code cannot be taken for one of the agent.
fn refused(failure: Failure) -> Failure {
    let error = match failure {
        Failure::Remote { error, .. } | Failure::Attach { error, .. } => error,
        Failure::Error(error) | Failure::Command { error, .. } => error.into(),
        Failure::Usage { message, hint } => ApiError::new("usage", message).with_hint(hint),
    };
    Failure::Attach { error, code: NOT_ATTACHED }
}

/// Starts a chat that the daemon runs, and attaches to it.
pub(super) async fn chat(
    context: &Context,
    daemon: Daemon,
    place: &OpenProject,
    args: &ChatArgs,
) -> Result<Exit> {
    let session = &args.session;
    let project_id = place.id.to_string();
    let resume = match &args.resume {
        Some(wanted) => {
            let request = EndedChatsRequest { project_id: project_id.clone() };
            let ended = daemon.work().ended_chats(request).await.map_err(ApiError::from)?.into_inner();
            ended::choose(ended.chats, wanted).await?.to_string()
        }
        None => String::new(),
    };
    // Before it begins, so that nothing that it leaves is missed.
    let (_, log) = daemon.follow(&project_id, None, false).await?;
    let size = terminal::size();
    let request = StartAgentRequest {
        project_id: project_id.clone(),
        mode: "chat".to_owned(),
        agent: session.agent.clone().unwrap_or_default(),
        sandbox: compose::sandbox_name(session),
        rows: size.rows().into(),
        cols: size.cols().into(),
        environment: environment(),
        resume,
        place: match args.place() {
            ChatPlace::Worktree => "worktree",
            ChatPlace::FreshWorktree => "fresh-worktree",
            _ => "",
        }
        .to_owned(),
        ..Default::default()
    };
    let begun =
        daemon.agents().start_agent(request).await.map_err(|error| of_chat(error.into()))?.into_inner();
    let viewer = Viewer { project: project_id, session: begun.session_id, is_chat: true, read_only: false };
    match viewer.show(place.home.path(), daemon).await? {
        End::Detached => farewell(context, "detached; the chat goes on: watchfire attach"),
        End::Ended | End::Over(_) => {
            let notices = tokio::time::timeout(BACK, notices(log)).await.unwrap_or_default();
            notices.iter().for_each(|notice| context.out.line(notice));
            context.out.line("chat ended");
        }
        End::Gone(failure) => return Err(failure),
    }
    Ok(Exit::Good)
}

/// Returns the notices up to the end of a chat, to be printed once the terminal is the person's again.
async fn notices(mut log: ProjectLog) -> Vec<String> {
    let mut notices = Vec::new();
    while let Ok(Some(item)) = log.next().await {
        let Followed::Record(record) = item else { continue };
        match record.change {
            Change::Notice(notice) => notices.push(super::chat::told(&notice)),
            Change::Life(life) if life.subject == Subject::Chat && life.has_ended() => break,
            _ => {}
        }
    }
    notices
}

/// Waits for the session of a task that is about to begin.
async fn begun(home: &Path, project: &str, which: Option<&str>) -> Result<()> {
    let Some(Ok(target @ Target::Task { .. })) = which.map(str::parse) else { return Ok(()) };
    match Client::connect(home, Some(project.parse()?)).await?.sessions(Some(&target), false).await {
        // Said in our words.
        Err(error) if error.code != "not_found" => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the agent that is meant.
async fn find(daemon: &Daemon, project: &str, which: Option<&str>) -> Result<AgentStatus> {
    let of = ProjectId { meta: None, project_id: project.to_owned(), session_id: String::new() };
    let status = daemon.agents().get_agent_status(of).await.map_err(ApiError::from)?.into_inner();
    let mut running: Vec<_> = status.all.into_iter().filter(|agent| agent.is_running).collect();
    if let Some(which) = which {
        let number = which.parse::<TaskNumber>().ok().and_then(|it| i32::try_from(it.value()).ok());
        running.retain(|agent| agent.alias == which || number.is_some_and(|it| it == agent.task_number));
    }
    running.pop().ok_or_else(|| {
        let error = Error::new(ErrorKind::TargetOff, "no such agent runs in this project")
            .with("hint", "watchfire agent status lists those that do");
        Failure::from(ApiError::from(error))
    })
}

/// Waits for a daemon that comes back, or starts one.
async fn again(home: &Path, starts: bool) -> Result<Option<Daemon>> {
    let deadline = Instant::now() + BACK;
    while Instant::now() < deadline {
        tokio::time::sleep(AGAIN).await;
        match Daemon::connect(home).await {
            Ok(daemon) => return Ok(Some(daemon)),
            Err(error) if error.is_gone() && starts => return super::daemon::anew(home).await.map(Some),
            Err(_) => {}
        }
    }
    Ok(None)
}

enum End {
    Detached,
    /// The person ended the chat.
    Ended,
    Over(SessionEnd),
    /// The daemon has gone, or the connection to it.
    Gone(Failure),
}

/// The reason why the screen is not followed any more.
enum Left {
    End(End),
    Error(ApiError),
}

/// An attachment of the person's terminal to a session.
struct Viewer {
    project: String,
    session: String,
    is_chat: bool,
    read_only: bool,
}

impl Viewer {
    /// Shows the agent in the person's terminal until one side ends it, also over a restart of the daemon.
    async fn show(&self, home: &Path, mut daemon: Daemon) -> Result<End> {
        let terminal =
            terminal::own().map_err(|error| refused(Error::io("opening the terminal", error).into()))?;
        // First: a signal must not leave the terminal raw.
        let interrupts = Interrupts::listen().map_err(|error| refused(error.into()))?;
        let _changed = terminal::raw_to_lend().map_err(|error| refused(error.into()))?;
        let mut shown = Shown::begin(terminal);
        loop {
            let error = match self.lend((home, &daemon), &mut shown, &interrupts).await {
                Left::End(end) => return Ok(end),
                Left::Error(error) => error,
            };
            // The daemon may be started anew, with the agent still at work, and takes it over in a moment.
            let is_lost = error.is_gone() || shown.lost.is_some();
            if !is_lost || shown.lost.get_or_insert_with(Instant::now).elapsed() > BACK {
                return Ok(End::Gone(shown.cut_off(error.into())));
            }
            // One that was asked to end still takes connections for a moment, and breaks them.
            shown.stopped |= error.is_shutdown();
            let starts = error.is_gone() && !shown.stopped;
            shown.say(if starts { "the daemon has gone; starting it" } else { away::WAITING });
            tokio::select! {
                next = again(home, starts) => match next {
                    Ok(Some(next)) => daemon = next,
                    Ok(None) => return Ok(End::Gone(shown.cut_off(error.into()))),
                    Err(failure) => return Ok(End::Gone(shown.cut_off(failure))),
                },
                () = shown.detached() => return Ok(End::Detached),
                () = interrupts.first() => return Ok(End::Detached),
            }
        }
    }

    /// Lends the terminal to the daemon, until one side ends that. What suspends a command does not suspend this one: its shell would read
    /// the keys beside the daemon.
    async fn lend(
        &self,
        (home, daemon): (&Path, &Daemon),
        shown: &mut Shown,
        interrupts: &Interrupts,
    ) -> Left {
        let suspended = signal(SignalKind::from_raw(Signal::TSTP.as_raw()));
        let (Ok(mut resized), Ok(_suspended)) = (signal(SignalKind::window_change()), suspended) else {
            return Left::End(End::Detached);
        };
        let meta = meta("cli");
        let request = AttachRequest {
            project_id: self.project.clone(),
            session_id: self.session.clone(),
            client_id: meta.client_id,
            version: meta.version,
            read_only: self.read_only,
            is_chat: self.is_chat,
            keeps_size: shown.size_is_lost,
            typed: shown.typed.clone(),
        };
        let attached = tokio::select! {
            attached = Attached::new(home, &request, shown.terminal.as_fd()) => attached,
            () = interrupts.first() => return Left::End(End::Detached),
        };
        let mut attached = match attached {
            Ok(attached) => attached,
            Err(error) => return Left::Error(error),
        };
        shown.typed.clear();
        let mut looks = tokio::time::interval(LOOK);
        let (mut unread, mut keys) = (0, None);
        loop {
            let event = tokio::select! {
                event = attached.next() => event,
                _ = resized.recv() => {
                    attached.resized();
                    continue;
                }
                // The agent goes on, as after the detach key.
                () = interrupts.first() => return left(attached).await,
                _ = looks.tick(), if keys.is_none() => {
                    let before = std::mem::replace(&mut unread, terminal::waiting());
                    // A daemon that does not answer reads nothing. The person can leave all the same.
                    keys = if unread > 0 && unread == before { Keyboard::open().ok() } else { None };
                    continue;
                }
                typed = next(&mut keys) => {
                    let typed = typed.unwrap_or_default();
                    let before = shown.detaching.before(&typed);
                    if before.len() < typed.len() {
                        return left(attached).await;
                    }
                    attached.typed(before);
                    keys = None;
                    continue;
                }
            };
            match event {
                Ok(event) => match event.end {
                    None => {
                        (shown.lost, shown.stopped, shown.seen) = (None, false, true);
                        shown.size_is_lost = !event.size_is_ours;
                    }
                    Some(end) => return self.ended(end, daemon, shown).await,
                },
                Err(error) => return Left::Error(error),
            }
        }
    }

    /// Finds out how it ended, with the terminal in our hands again.
    async fn ended(&self, end: AttachEnd, daemon: &Daemon, shown: &mut Shown) -> Left {
        let AttachEnd { status, outcome, exit_code, ends_chat, typed } = end;
        if !status.is_empty() {
            shown.typed = typed;
            return Left::Error(decode_error(status).into());
        }
        if !outcome.is_empty() {
            return Left::End(End::Over(SessionEnd { exit_code, outcome }));
        }
        if !ends_chat {
            return Left::End(End::Detached);
        }
        let (project_id, session_id) = (self.project.clone(), self.session.clone());
        let chat = ProjectId { meta: None, project_id, session_id };
        let mut agents = daemon.agents();
        // It waits for the end. Without the daemon there is nothing to end here.
        Left::End(tokio::select! {
            _ = agents.stop_agent(chat) => End::Ended,
            () = shown.detached() => End::Detached,
        })
    }
}

/// Takes the terminal back.
async fn left(attached: Attached) -> Left {
    let _ = tokio::time::timeout(SOON, attached.leave()).await;
    Left::End(End::Detached)
}

/// Waits for keys, if they are read here.
async fn next(keys: &mut Option<Keyboard>) -> Option<Vec<u8>> {
    match keys {
        Some(keys) => keys.recv().await,
        None => std::future::pending().await,
    }
}

/// The person's terminal, while it is on the alternate screen.
struct Shown {
    terminal: OwnedFd,
    detaching: Detaching,
    /// Set once the daemon has drawn the agent's screen.
    seen: bool,
    /// Time at which the daemon was lost, until it draws again.
    lost: Option<Instant>,
    /// Set if it was lost because it was asked to end.
    stopped: bool,
    /// Set while the agent has the size of another terminal.
    size_is_lost: bool,
    /// Keys that the agent has not got yet.
    typed: Vec<u8>,
}

impl Shown {
    /// Enters the alternate screen and turns wrapping off, so that a terminal smaller than the agent's screen shows a part.
    fn begin(terminal: OwnedFd) -> Self {
        write("\x1b[?1049h\x1b[?7l");
        Self {
            terminal,
            detaching: Detaching::default(),
            seen: false,
            lost: None,
            stopped: false,
            size_is_lost: false,
            typed: Vec::new(),
        }
    }

    /// Waits for the detach key while no daemon reads the terminal. Other keys are kept for the agent.
    async fn detached(&mut self) {
        let Ok(mut keys) = Keyboard::open() else { return };
        while let Some(typed) = keys.recv().await {
            let before = self.detaching.before(&typed);
            if self.typed.len() + before.len() <= TYPED {
                self.typed.extend_from_slice(before);
            } else {
                self.say("what you type now is lost");
            }
            if before.len() < typed.len() {
                return;
            }
        }
    }

    /// Returns the failure of a session that cannot be shown any more.
    fn cut_off(&self, failure: Failure) -> Failure {
        match refused(failure) {
            Failure::Attach { error, .. } if self.seen => Failure::Attach { error, code: CUT_OFF },
            failure => failure,
        }
    }

    /// Shows a line for the person at the bottom, until the next whole screen. A daemon that was killed may have left half a sequence.
    fn say(&self, words: &str) {
        let words = format!("{words} (Ctrl+] leaves)");
        let words = ascii::shown(&words);
        let row = terminal::size().rows();
        write(&format!("\x18\x1b[?2026l\x1b7\x1b[{row};1H\x1b[0;7m{words}\x1b[K\x1b[m\x1b8"));
    }
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // The kernel sends a hang-up when the terminal is gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
