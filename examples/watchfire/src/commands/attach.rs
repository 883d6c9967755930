//! `watchfire attach`: the terminal of an agent that the daemon runs, in the person's own.
//!
//! What is shown is painted from the screen that the daemon keeps, so the agent's queries never reach the person's terminal, and no
//! answer of that terminal is taken for a key.

mod scroll;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use watchfire_client::daemon_proto::{
    AgentStatus, ProjectId, ScreenBuffer, ScreenFormat, SessionEnd, StartAgentRequest, SubscribeScreenRequest,
};
use watchfire_client::work_proto::{AttachInput, EndedChatsRequest};
use watchfire_client::{ApiError, Client, Daemon, Followed, ProjectLog, environment, meta};
use watchfire_core::model::TaskNumber;
use watchfire_core::observe::Target;
use watchfire_core::schedule::{Change, ChatPlace, Subject};
use watchfire_core::terminal::{Modes, Size, Snapshot};
use watchfire_core::{Error, ErrorKind};
use watchfire_term::{diff, wire};

use self::scroll::Back;
use super::agent::of_chat;
use super::chat::ChatArgs;
use super::chat::ended;
use super::keys::{Ctrl, Key, Keys, PASTE, PASTED};
use crate::away::{self, BACK};
use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::terminal::Keyboard;
use crate::{compose, terminal};

/// Exit code of a client whose session was cut off, and of one that could not attach.
const CUT_OFF: u8 = 254;
const NOT_ATTACHED: u8 = 255;
/// Upper bound for keys that wait for an agent, and for those of one message.
const TYPED: usize = 1 << 20;
const AT_ONCE: usize = 64 << 10;
/// Time limit for the keys before the one that detaches, and for the lines that the person scrolls to.
const SOON: Duration = Duration::from_secs(1);
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
            context.out.line("detached; the agent goes on");
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
        End::Detached => context.out.line("detached; the chat goes on: watchfire attach"),
        End::Ended | End::Over(_) => {
            let notices = tokio::time::timeout(BACK, left(log)).await.unwrap_or_default();
            notices.iter().for_each(|notice| context.out.line(notice));
            context.out.line("chat ended");
        }
        End::Gone(failure) => return Err(failure),
    }
    Ok(Exit::Good)
}

/// Returns the notices up to the end of a chat, to be printed once the terminal is the person's again.
async fn left(mut log: ProjectLog) -> Vec<String> {
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

/// Waits until the person leaves. What is typed meanwhile is for the agent, once it is there again.
async fn detached(shown: &mut Shown, keys: &mut Keyboard) {
    while let Some(typed) = keys.recv().await {
        let before = shown.keys.before_detach(&typed);
        shown.keep(before);
        if before.len() < typed.len() {
            return;
        }
    }
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
        let mut keys =
            Keyboard::open().map_err(|error| refused(Error::io("reading the terminal", error).into()))?;
        // First: a signal must not leave the terminal raw.
        let interrupts = Interrupts::listen().map_err(|error| refused(error.into()))?;
        let _changed = terminal::raw().map_err(|error| refused(error.into()))?;
        let mut shown = Shown::begin();
        loop {
            let followed = tokio::select! {
                followed = self.follow((home, &daemon), &mut shown, &mut keys) => followed,
                // The agent goes on, as after the detach key.
                () = interrupts.first() => return Ok(End::Detached),
            };
            let error = match followed {
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
                () = detached(&mut shown, &mut keys) => return Ok(End::Detached),
                () = interrupts.first() => return Ok(End::Detached),
            }
        }
    }

    /// Shows the screen and passes keys on, until one side ends it.
    async fn follow(&self, (home, daemon): (&Path, &Daemon), shown: &mut Shown, keys: &mut Keyboard) -> Left {
        let Ok(mut resized) = signal(SignalKind::window_change()) else { return Left::End(End::Detached) };
        let request = SubscribeScreenRequest {
            project_id: self.project.clone(),
            session_id: self.session.clone(),
            format: ScreenFormat::Changes.into(),
            meta: Some(meta("cli")),
        };
        let attached = tokio::select! {
            attached = watchfire_client::attach(home, &request) => attached,
            () = detached(shown, keys) => return Left::End(End::Detached),
        };
        let (mut screens, mut typing) = match attached {
            Ok(attached) => attached,
            Err(error) => return Left::Error(error),
        };
        // Whole again with the first message.
        shown.forget();
        if shown.size.is_ours() {
            self.fit(shown);
        }
        loop {
            while !self.read_only && shown.has_keys() && !typing.is_behind() {
                typing.send(&self.next(shown));
            }
            tokio::select! {
                () = typing.flush(), if typing.is_behind() => {}
                buffer = screens.next() => match buffer {
                    Ok(Some(ScreenBuffer { end: Some(end), .. })) => return Left::End(End::Over(end)),
                    Ok(Some(buffer)) => {
                        (shown.lost, shown.stopped, shown.seen) = (None, false, true);
                        shown.show(&buffer);
                    }
                    Ok(None) => return Left::End(End::Detached),
                    Err(error) => return Left::Error(error),
                },
                _ = resized.recv() => {
                    let is_ours = shown.size.is_ours();
                    if is_ours {
                        self.fit(shown);
                    }
                    match shown.back {
                        Some(back) => self.scroll(daemon, shown, Some(back)).await,
                        // The terminal may have moved what it shows.
                        None if !is_ours => shown.paint(),
                        None => {}
                    }
                }
                typed = keys.recv() => {
                    let Some(typed) = typed else { return Left::End(End::Detached) };
                    let before = shown.keys.before_detach(&typed);
                    let detaches = before.len() < typed.len();
                    if !detaches && self.scrolls(daemon, shown, before).await {
                        continue;
                    }
                    let (through, ends) = match shown.ours.take_in(before, Instant::now()) {
                        Key::Through(bytes) => (bytes, false),
                        Key::End => (Vec::new(), true),
                    };
                    if !through.is_empty() && !self.read_only {
                        // Who types has the size, too: another viewer may have changed it.
                        let fits = shown.screen.as_ref().is_none_or(|screen| screen.size == terminal::size());
                        if !fits || !shown.size.is_ours() {
                            self.fit(shown);
                        }
                        shown.keep(&through);
                    }
                    if ends && self.is_chat && !self.read_only {
                        let chat = ProjectId {
                            meta: None,
                            project_id: self.project.clone(),
                            session_id: self.session.clone(),
                        };
                        let mut agents = daemon.agents();
                        // It waits for the end. Without the daemon there is nothing to end here.
                        return Left::End(tokio::select! {
                            _ = agents.stop_agent(chat) => End::Ended,
                            () = detached(shown, keys) => End::Detached,
                        });
                    }
                    if detaches || ends {
                        let rest = async {
                            while !self.read_only && shown.has_keys() {
                                typing.flush().await;
                                typing.send(&self.next(shown));
                            }
                            typing.finish(screens).await;
                        };
                        let _ = tokio::time::timeout(SOON, rest).await;
                        return Left::End(End::Detached);
                    }
                }
            }
        }
    }

    /// Takes the keys of a person who scrolls, or begins to. Returns false for keys of the agent.
    async fn scrolls(&self, daemon: &Daemon, shown: &mut Shown, typed: &[u8]) -> bool {
        let Some(screen) = shown.screen.as_ref().filter(|_| !shown.keys.pasting) else { return false };
        if shown.back.is_none() && !scroll::begins(typed, screen) {
            return false;
        }
        let mut back = Some(shown.back.unwrap_or_else(|| Back::at_end(screen)));
        for to in scroll::moves(typed) {
            // What follows the key that returns was not meant for the agent.
            back = back.and_then(|back| back.go(to, screen, terminal::size()));
        }
        self.scroll(daemon, shown, back).await;
        true
    }

    /// Shows the lines at a place that the person has scrolled to, or the screen again.
    async fn scroll(&self, daemon: &Daemon, shown: &mut Shown, back: Option<Back>) {
        let Some(screen) = &shown.screen else { return };
        let painted = match back {
            Some(back) => {
                let painted = back.paint(daemon, (&self.project, &self.session), screen, terminal::size());
                tokio::time::timeout(SOON, painted).await.ok().and_then(|painted| painted.ok())
            }
            None => None,
        };
        match (back, painted) {
            (Some(back), Some(painted)) => shown.scroll_to(back, &painted),
            // Without the daemon, the end of the stream says so.
            _ => shown.paint(),
        }
    }

    /// Gives the agent the size of this terminal, before what is typed. The newest viewer has it, and then the one that types.
    fn fit(&self, shown: &mut Shown) {
        if !self.read_only {
            shown.size = Given { size: Some(terminal::size()), ..Given::default() };
            shown.fits = true;
        }
    }

    /// Returns the next message to the agent: its size, and keys.
    fn next(&self, shown: &mut Shown) -> AttachInput {
        let size = std::mem::take(&mut shown.fits).then(terminal::size);
        AttachInput {
            rows: size.map_or(0, |size| size.rows().into()),
            cols: size.map_or(0, |size| size.cols().into()),
            data: shown.typed.drain(..shown.typed.len().min(AT_ONCE)).collect(),
        }
    }
}

/// Looks for our key in typed bytes.
#[derive(Debug, Default)]
struct Typed {
    /// Inside of a paste everything is text.
    pasting: bool,
}

impl Typed {
    /// Returns the bytes of one read that come before the key that detaches, or all.
    fn before_detach<'a>(&mut self, typed: &'a [u8]) -> &'a [u8] {
        for at in 0..typed.len() {
            let rest = &typed[at..];
            if self.pasting {
                self.pasting = !rest.starts_with(PASTED);
            } else if rest.starts_with(PASTE) {
                self.pasting = true;
            } else if Ctrl::read(rest).is_some_and(|key| key.key == ']' && !key.released) {
                return &typed[..at];
            }
        }
        typed
    }
}

/// The size that this viewer has given the agent. It stays this viewer's until the agent has another one, which another viewer has
/// given it.
#[derive(Debug, Default)]
struct Given {
    size: Option<Size>,
    /// Set once the agent's screen had the size: one of before may still be on its way.
    seen: bool,
    /// Set once its screen had another size after that.
    lost: bool,
}

impl Given {
    fn see(&mut self, size: Size) {
        let is_same = self.size == Some(size);
        self.lost |= self.seen && !is_same;
        self.seen |= is_same;
    }

    fn is_ours(&self) -> bool {
        !self.lost
    }
}

/// The screen as this terminal shows it.
struct Shown {
    screen: Option<Snapshot>,
    /// The place that the person has scrolled to, shown in place of the screen.
    back: Option<Back>,
    size: Given,
    /// Modes that this terminal has.
    modes: Modes,
    keys: Typed,
    /// Finds the second Ctrl+C.
    ours: Keys,
    /// Set once the screen was shown.
    seen: bool,
    /// Time at which the daemon was lost, until something is shown again.
    lost: Option<Instant>,
    /// Set if it was lost because it was asked to end.
    stopped: bool,
    /// Keys that the agent has not got yet.
    typed: Vec<u8>,
    /// Set while the agent has not got the size of this terminal.
    fits: bool,
}

impl Shown {
    /// Enters the alternate screen and turns wrapping off, so that a terminal smaller than the agent's screen shows a part.
    fn begin() -> Self {
        write("\x1b[?1049h\x1b[?7l");
        Self {
            screen: None,
            back: None,
            size: Given::default(),
            modes: Modes::default(),
            keys: Typed::default(),
            ours: Keys::default(),
            seen: false,
            lost: None,
            stopped: false,
            typed: Vec::new(),
            fits: false,
        }
    }

    /// Returns true while there is something for the agent.
    fn has_keys(&self) -> bool {
        self.fits || !self.typed.is_empty()
    }

    /// Keeps keys for the agent.
    fn keep(&mut self, typed: &[u8]) {
        if self.typed.len() + typed.len() > TYPED {
            return self.say("the agent reads nothing; what you type now is lost");
        }
        self.typed.extend_from_slice(typed);
    }

    fn forget(&mut self) {
        (self.screen, self.back) = (None, None);
    }

    /// Paints the screen anew.
    fn paint(&mut self) {
        self.back = None;
        if let Some(screen) = &self.screen {
            let modes = diff::modes(self.modes, screen.modes);
            self.modes = screen.modes;
            write(&format!("\x1b[?2026h{modes}{}\x1b[?2026l", whole(screen)));
        }
    }

    /// Shows painted lines in place of the screen. Keys are ours meanwhile, in their plain form.
    fn scroll_to(&mut self, back: Back, painted: &str) {
        self.back = Some(back);
        let modes = diff::modes(self.modes, Modes::default());
        self.modes = Modes::default();
        write(&format!("\x1b[?2026h{modes}{painted}\x1b[?2026l"));
    }

    /// Returns the failure of a session that cannot be shown any more.
    fn cut_off(&self, failure: Failure) -> Failure {
        match refused(failure) {
            Failure::Attach { error, .. } if self.seen => Failure::Attach { error, code: CUT_OFF },
            failure => failure,
        }
    }

    /// Shows a line for the person at the bottom, until the next whole screen.
    fn say(&self, words: &str) {
        let bar = scroll::bar(terminal::size(), &format!("{words} (Ctrl+] leaves)"));
        write(&format!("\x1b7{bar}\x1b8"));
    }

    fn show(&mut self, buffer: &ScreenBuffer) {
        let next = match &self.screen {
            Some(screen) => wire::decode_change(screen, &buffer.cells),
            None => wire::decode(&buffer.cells),
        };
        // Of a release that this one does not know. The next whole screen is shown.
        let Ok(next) = next else { return self.forget() };
        self.size.see(next.size);
        if self.back.is_some() {
            // The person reads what has left the screen. The present is shown afterwards.
            self.screen = Some(next);
            return;
        }
        let is_same_size = self.screen.as_ref().is_some_and(|screen| screen.size == next.size);
        let painted = match &self.screen {
            // Rows move within the screen of the agent, which may be smaller than this terminal.
            Some(screen) if is_same_size => diff::repaint(screen, &next),
            _ => whole(&next),
        };
        let modes = diff::modes(self.modes, next.modes);
        self.modes = next.modes;
        // As one, so that no half of it is seen.
        write(&format!("\x1b[?2026h{modes}{painted}\x1b[?2026l"));
        self.screen = Some(next);
    }
}

/// Returns what paints a whole screen. Rows move within it.
fn whole(screen: &Snapshot) -> String {
    format!("\x1b[1;{}r{}", screen.size.rows(), diff::paint(screen))
}

impl Drop for Shown {
    fn drop(&mut self) {
        let modes = diff::modes(self.modes, Modes::default());
        write(&format!("{modes}\x1b[r\x1b[?7h\x1b[?1049l"));
    }
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // The kernel sends a hang-up when the terminal is gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_ours_until_another_viewer_gives_one() {
        let (ours, other) = (Size::new(100, 30), Size::new(70, 30));
        let mut given = Given { size: Some(ours), ..Given::default() };
        // The screen of before, which was on its way.
        given.see(other);
        assert!(given.is_ours());
        given.see(ours);
        assert!(given.is_ours());
        given.see(other);
        assert!(!given.is_ours());
        given.see(ours);
        assert!(!given.is_ours(), "the other one has the same size now");
    }

    #[test]
    fn our_key_counts_anywhere_but_in_a_paste() {
        let through = |typed: &[u8]| Typed::default().before_detach(typed).to_vec();
        assert_eq!(through(b"abc"), b"abc");
        assert_eq!(through(b"\x1d"), b"");
        assert_eq!(through(b"ab\x1dcd"), b"ab");
        assert_eq!(through(b"ab\x1b[93;5u"), b"ab");
        assert_eq!(through(b"ab\x1b[1098::93;5:1u"), b"ab");
        assert_eq!(through(b"\x1b[200~a\x1db\x1b[201~c\x1dd"), b"\x1b[200~a\x1db\x1b[201~c");
        // A paste may come in several reads.
        let mut keys = Typed::default();
        assert_eq!(keys.before_detach(b"\x1b[200~a"), b"\x1b[200~a");
        assert_eq!(keys.before_detach(b"\x1d"), b"\x1d");
        assert_eq!(keys.before_detach(b"\x1b[201~"), b"\x1b[201~");
        assert_eq!(keys.before_detach(b"\x1d"), b"");
    }
}
