//! The program: turns keys, time and the daemon's news into messages, and carries out commands.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream, MouseEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;

use crate::api::{Api, Chats, Connect, ForSession};
use crate::keymap::Keymap;
use crate::message::{Command, Message};
use crate::model::Model;
use crate::terminal::{Asked, Screen, failed};
use crate::theme::Depth;
use crate::update::{definition, update};

/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(16);
/// The same after a key: its answer waits for no picture of what an agent prints.
const KEY_FRAME: Duration = Duration::from_millis(4);
/// The same for changes without a key, over a line that may be slow: pictures that wait in it would delay the answer
/// to a key.
const REMOTE_FRAME: Duration = Duration::from_millis(100);
/// Time between two steps of the spinner.
const TICK: Duration = Duration::from_millis(250);
/// Time between two looks at whether the terminal is still there.
const LOOK: Duration = Duration::from_secs(2);
/// Place of the signal of Ctrl+C among those that end the program.
const INTERRUPT: usize = 0;
/// Time for which a size has to hold before the agent's terminal gets it.
const SETTLE: Duration = Duration::from_millis(100);

/// Options of [`run`].
#[non_exhaustive]
pub struct Options {
    /// Id of the project.
    pub project: String,
    /// Finds the daemon, or starts it.
    pub connect: Connect,
    /// Start a chat if nothing runs, and after each chain.
    pub chat: bool,
    /// The colours that the terminal has.
    pub depth: Depth,
    /// The terminal shows ASCII alone.
    pub ascii: bool,
    /// The terminal has a dark background. `None`: it is asked.
    pub dark: Option<bool>,
    /// Ring a bell, and let the terminal show a notification, when work needs the person.
    pub bell: bool,
    /// The terminal is on another machine.
    pub remote: bool,
    /// The person's own keys.
    pub keymap: Keymap,
}

impl Options {
    /// Returns the options for a project, with all colours, for the background that the terminal has.
    #[must_use]
    pub fn new(project: String, connect: Connect) -> Self {
        Self {
            project,
            connect,
            chat: false,
            depth: Depth::default(),
            ascii: false,
            dark: None,
            bell: true,
            remote: false,
            keymap: Keymap::default(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("project", &self.project).finish_non_exhaustive()
    }
}

/// Reason why [`run`] ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Ended {
    /// The person left, or a signal came.
    Left,
    /// The chat that starts by itself has no agent, in words.
    NoAgent(String),
}

/// Runs until the person leaves, a signal ends it, or the chat that [`Options::chat`] asks for has no agent. The terminal is
/// put back in any case.
///
/// # Errors
/// Errors of the terminal. Also after a panic, whose message is then on the terminal.
pub async fn run(options: Options) -> std::io::Result<Ended> {
    let chats = Chats { first: options.chat, after_chains: options.chat };
    let mut followed = Following::begin(options.project.clone(), &options.connect, chats);
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .into_iter()
        .map(signal)
        .collect::<std::io::Result<Vec<_>>>()?;
    let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut model = Model::new(crossterm::terminal::size()?);
    // Before anything else reads the terminal: an answer that comes to somebody else is a key.
    let asked = Asked::terminal(options.dark);
    (model.depth, model.ascii) = (options.depth, options.ascii);
    (model.dark, model.keymap) = (asked.dark, options.keymap.clone());
    let mut screen = Screen::take(asked.spells)?;
    let mut events = EventStream::new();
    let alive = Arc::new(());
    let mut gone = gone(&alive);
    let began = Instant::now();
    let (mut drawn, mut is_new, mut is_typed) = (None::<Instant>, true, false);
    // The next screen shows what a key did in the agent's terminal.
    let mut awaits_echo = false;
    let mut resize: Option<(Instant, String, Command)> = None;
    let ended = loop {
        let frame = match (is_typed, options.remote) {
            (true, _) => KEY_FRAME,
            (false, true) => REMOTE_FRAME,
            (false, false) => FRAME,
        };
        if is_new && drawn.is_none_or(|drawn| drawn.elapsed() >= frame) {
            if let Err(error) = screen.draw(&model) {
                break Err(error);
            }
            (drawn, is_new, is_typed) = (Some(Instant::now()), false, false);
        }
        let wait_frame = drawn.map_or(frame, |drawn| frame.saturating_sub(drawn.elapsed()));
        let wait_resize = resize.as_ref().map(|(at, ..)| at.saturating_duration_since(Instant::now()));
        let moves = model.is_busy() || model.flash.is_some();
        let signalled = std::future::poll_fn(|context| {
            match ends.iter_mut().any(|end| end.poll_recv(context).is_ready()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        });
        let mut is_stopped = false;
        let message = tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => of_event(event),
                Some(Err(error)) => break Err(error),
                // The terminal is gone.
                None => break Ok(Ended::Left),
            },
            message = followed.told.recv() => message,
            () = tokio::time::sleep(TICK), if moves => Some(Message::Tick(millis(began))),
            () = tokio::time::sleep(wait_frame), if is_new => continue,
            () = tokio::time::sleep(wait_resize.unwrap_or_default()), if wait_resize.is_some() => {
                if let Some((_, session, command)) = resize.take() {
                    followed.carry_out(session, command);
                }
                continue;
            }
            _ = stops.recv() => {
                is_stopped = true;
                None
            }
            () = signalled => break Ok(Ended::Left),
            _ = &mut gone => break Ok(Ended::Left),
            () = failed() => break Err(std::io::Error::other("a part of the program failed")),
        };
        if is_stopped {
            let (taken, stopped) = lend((screen, events), asked, &mut model, stop()).await?;
            ((screen, events), is_new) = (taken, true);
            stopped?;
        }
        let Some(message) = message else { continue };
        // Words are shown for a time that counts from now.
        model.now = millis(began);
        // A mouse that only moves changes nothing that is seen.
        is_new |= !matches!(&message, Message::Mouse(mouse) if mouse.kind == MouseEventKind::Moved);
        is_typed |= match message {
            Message::Key(_) | Message::Paste(_) | Message::Mouse(_) => true,
            Message::Screen { .. } => std::mem::take(&mut awaits_echo),
            _ => false,
        };
        let mut commands = taken_in(&mut model, message);
        // What waits is taken in before the next picture.
        while let Ok(message) = followed.told.try_recv() {
            commands.extend(taken_in(&mut model, message));
        }
        let mut leaves = None;
        for (session, command) in commands {
            match command {
                Command::Quit => leaves = Some(Ended::Left),
                Command::GiveUp(words) => leaves = Some(Ended::NoAgent(words)),
                Command::SendInput(_) => {
                    awaits_echo = true;
                    followed.carry_out(session, command);
                }
                Command::OpenProject { project, task } => {
                    // Nothing of the other one must arrive here.
                    followed = Following::begin(project, &options.connect, Chats { first: false, ..chats });
                    model = Model {
                        depth: model.depth,
                        ascii: model.ascii,
                        dark: model.dark,
                        keymap: model.keymap,
                        follows: model.follows,
                        split: model.split,
                        now: model.now,
                        selected: task,
                        ..Model::new(model.size)
                    };
                    resize = None;
                    // The others are of the project before.
                    break;
                }
                // A terminal without a clipboard ignores it.
                Command::Copy(selected) => screen.copy(&model, selected)?,
                Command::Alert(words) if options.bell => Screen::alert(&words)?,
                Command::Alert(_) => {}
                Command::Resize { .. } => {
                    resize = Some((Instant::now() + SETTLE, session, command));
                }
                Command::Edit(text) => {
                    let (taken, edited) = lend((screen, events), asked, &mut model, edit(&text)).await?;
                    (screen, events) = taken;
                    // One that was meant for the editor.
                    ends[INTERRUPT] = signal(SignalKind::interrupt())?;
                    match edited {
                        Ok(new) if new != model.project.definition => {
                            model.unsaved = Some(new.clone());
                            followed.carry_out(session, definition(&model, new));
                        }
                        Ok(_) => model.unsaved = None,
                        Err(error) => {
                            let words = format!("the editor cannot be used: {error}");
                            drop(update(&mut model, Message::Failed(words)));
                            // Its command for the size was dropped.
                            model.given = (0, 0);
                        }
                    }
                }
                command => followed.carry_out(session, command),
            }
        }
        if let Some(ended) = leaves {
            break Ok(ended);
        }
    };
    drop(screen);
    ended
}

/// Takes in a message, and returns the commands that follow from it, with the session whose terminal was shown.
fn taken_in(model: &mut Model, message: Message) -> Vec<ForSession> {
    let commands = update(model, message);
    commands.into_iter().map(|command| (model.terminal.session.clone(), command)).collect()
}

/// A project that is followed, until this is dropped.
struct Following {
    api: Api,
    keys: mpsc::UnboundedSender<ForSession>,
    told: mpsc::UnboundedReceiver<Message>,
    working: [JoinHandle<()>; 2],
}

impl Following {
    fn begin(project: String, connect: &Connect, chats: Chats) -> Self {
        let (messages, told) = mpsc::unbounded_channel();
        let (keys, typed) = mpsc::unbounded_channel();
        let api = Api::new(project, messages);
        let working = [
            tokio::spawn(api.clone().keep(Arc::clone(connect), chats)),
            tokio::spawn(api.clone().send_keys(typed)),
        ];
        Self { api, keys, told, working }
    }

    fn carry_out(&self, session: String, command: Command) {
        self.api.carry_out(session, command, &self.keys);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.working.iter().for_each(JoinHandle::abort);
    }
}

/// Lets somebody else read the keys and have the terminal as it was.
async fn lend<T>(
    taken: (Screen, EventStream),
    asked: Asked,
    model: &mut Model,
    somebody: impl Future<Output = T>,
) -> std::io::Result<((Screen, EventStream), T)> {
    drop(taken);
    let done = somebody.await;
    let taken = (Screen::take(asked.spells)?, EventStream::new());
    let (cols, rows) = crossterm::terminal::size()?;
    drop(update(model, Message::Resize(cols, rows)));
    // Asked for with the next message: the command was dropped.
    model.given = (0, 0);
    Ok((taken, done))
}

/// Stops the program, as the signal would have done, until a shell lets it go on.
async fn stop() -> std::io::Result<()> {
    let mut goes_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    kill_process(getpid(), Signal::STOP)?;
    // The kernel may stop another thread first: this one would take the terminal again meanwhile.
    goes_on.recv().await;
    Ok(())
}

/// Looks on a thread of its own whether the other end of the terminal is closed. The reader of keys does not report this: it
/// goes on, reads nothing, and where that is on our thread, nothing else runs here any more. Ends when `alive` is dropped.
fn gone(alive: &Arc<()>) -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    let alive = Arc::downgrade(alive);
    std::thread::spawn(move || {
        while alive.strong_count() > 0 {
            std::thread::sleep(LOOK);
            if is_gone() {
                let _ = tell.send(());
                std::thread::sleep(LOOK);
                if alive.strong_count() > 0 {
                    std::process::exit(1);
                }
                return;
            }
        }
    });
    told
}

fn is_gone() -> bool {
    let terminal = std::io::stdin();
    let mut asked = [PollFd::new(&terminal, PollFlags::empty())];
    // A hang-up is reported even if no event is asked for.
    poll(&mut asked, Some(&Timespec::default())).is_ok() && asked[0].revents().contains(PollFlags::HUP)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn of_event(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Mouse(mouse) => Some(Message::Mouse(mouse)),
        Event::Resize(cols, rows) => Some(Message::Resize(cols, rows)),
        Event::FocusGained | Event::FocusLost => None,
    }
}

/// Lets the person edit a text in `$VISUAL` or `$EDITOR`, and returns it.
async fn edit(text: &str) -> std::io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("watchfire-").suffix(".md").tempfile()?;
    file.write_all(text.as_bytes())?;
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    // As git does it: the variable may hold options.
    let status = tokio::process::Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "editor"])
        .arg(file.path())
        .status()
        .await?;
    if !status.success() {
        return Err(std::io::Error::other(format!("{editor} ended with {status}")));
    }
    std::fs::read_to_string(file.path())
}
