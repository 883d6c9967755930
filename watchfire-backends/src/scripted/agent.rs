//! The program of the scripted agent: runs a script in the current folder.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process, setsid};
use watchfire_core::backend::{Message, Part, Role};
use watchfire_core::endpoint::{self, Answer, client};
use watchfire_core::model::Question;

use super::backend::default_job;
use super::client::Client;
use super::script::{Action, Script};
use super::signals::{self, Watch};
use super::{ACP, SCRIPT, SIGNAL_DIR, TASK_FILE, TRANSCRIPT, screen, task_file};

/// First argument of the processes that outlive the agent on demand: `orphan FILE MILLIS STAGE`.
const ORPHAN: &str = "orphan";
/// Longest wait for an answer.
const LONGEST: Duration = Duration::from_secs(3600);

/// Runs the agent with the arguments after its own name, and returns its exit code.
///
/// The script is the file in `WATCHFIRE_SCRIPT`. Without one the agent does the default job on the task file in
/// `WATCHFIRE_TASK_FILE`, and without that it chats.
#[must_use]
pub fn run(args: &[OsString]) -> i32 {
    if args.first().is_some_and(|arg| arg == ORPHAN) {
        return orphan(args);
    }
    match session(args) {
        Ok(code) => code,
        Err(error) => {
            let _ = screen::say(&format!("scripted agent: {error}"));
            1
        }
    }
}

fn session(args: &[OsString]) -> io::Result<i32> {
    // First of all: until then a Ctrl+C would end the program instead of an action.
    let watch = Watch::start()?;
    let task = env::var_os(TASK_FILE).map(PathBuf::from);
    let script = match (env::var_os(SCRIPT), &task) {
        (Some(path), _) => Script::parse(&fs::read_to_string(path)?).map_err(io::Error::other)?,
        (None, Some(task)) => {
            let number = task.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
            Script::parse(&default_job(&number, "")).map_err(io::Error::other)?
        }
        (None, None) => Script(vec![Action::Chat]),
    };
    let client = if args.first().is_some_and(|arg| arg == ACP) { Some(Client::new()?) } else { None };
    let agent = Agent { watch, task, own_args: args.len(), client };
    agent.status("working")?;
    // In the protocol the script is the answer to the first prompt.
    let first = agent.first_text()?;
    let mut reason = "end_turn";
    for action in &script.0 {
        if let Some(code) = agent.act(action)? {
            return Ok(i32::from(code));
        }
        // Asked before `answer` forgets the interrupt: the protocol wants a cancelled turn to end as
        // `cancelled`.
        if agent.watch.interrupted()() {
            reason = "cancelled";
        }
        if action.waits() {
            agent.watch.answer();
        }
    }
    agent.rest(first, reason)
}

struct Agent {
    watch: Watch,
    task: Option<PathBuf>,
    /// Number of our own arguments. Those before them make the helper run this role, and start us again.
    own_args: usize,
    /// Set if the agent has no terminal but speaks the Agent Client Protocol.
    client: Option<Client>,
}

impl Agent {
    /// Carries out one action. Returns the exit code if the program is to end.
    fn act(&self, action: &Action) -> io::Result<Option<u8>> {
        let stop = self.watch.interrupted();
        match action {
            Action::Answer { question, path } => {
                let inbox = outbox()?.with_file_name("inbox");
                let mut answer = None;
                let answered = || {
                    answer = Answer::read(&inbox, question).map_err(io::Error::other).transpose();
                    answer.is_some() || stop()
                };
                until(Instant::now() + LONGEST, answered);
                if let Some(Answer { text, .. }) = answer.transpose()? {
                    self.hear(&text)?;
                    self.show(&format!("answer {question}: {text}"))?;
                    if let Some(path) = path {
                        parents(path)?;
                        fs::write(path, text).map_err(|error| named(error, path))?;
                    }
                }
            }
            Action::Append { path, text } => {
                parents(path)?;
                fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())?;
                self.note("append", path)?;
            }
            Action::Chat => return self.chat().map(Some),
            Action::Cleared { kind } => self.status(&format!("cleared {kind}"))?,
            Action::Commit { message } => {
                git(&["add", "--all"])?;
                git(&["commit", "--quiet", "--message", message])?;
                self.speak(&format!("committed: {}", message.lines().next().unwrap_or_default()))?;
            }
            Action::Crash { signal } => crash(*signal)?,
            Action::Delete { path } => {
                fs::remove_file(path).map_err(|error| named(error, path))?;
                self.note("delete", path)?;
            }
            Action::Done => {
                task_file::finish(self.task()?, None)?;
                self.speak("done")?;
            }
            Action::Exit { code } => return Ok(Some(*code)),
            Action::Fail { reason } => {
                task_file::finish(self.task()?, Some(reason))?;
                self.speak(&format!("failed: {reason}"))?;
            }
            Action::Flood { bytes } => flood(*bytes)?,
            Action::Git { args } => git(args)?,
            Action::Half => task_file::halve(self.task()?)?,
            Action::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Action::Ignore { signals } => signals.iter().try_for_each(|signal| signals::ignore(*signal))?,
            Action::Issue { kind, text } => self.status(&format!("blocked {kind} {text}"))?,
            Action::Key => {
                self.status("waiting")?;
                let key = screen::key()?;
                screen::say(&format!("key: {}", key.escape_ascii()))?;
                self.status("working")?;
            }
            Action::Line => {
                self.status("waiting")?;
                let line = match &self.client {
                    Some(client) => client.answer(),
                    None => screen::line()?,
                };
                self.hear(line.as_deref().unwrap_or_default())?;
                self.show(&format!("line: {}", line.as_deref().unwrap_or("<end of input>")))?;
                self.status("working")?;
            }
            Action::Malformed => task_file::spoil(self.task()?)?,
            Action::Orphan { path, lives } => self.orphan(path, *lives)?,
            // In the protocol the standard output carries messages: a frame or a title would break it.
            Action::Paint { text } if self.client.is_some() => self.show(text)?,
            Action::Paint { text } => screen::paint(text)?,
            Action::Question { id, text } => {
                let asked = endpoint::Signal::Questions(vec![Question::new(id, text)]);
                client::send(&outbox()?, &endpoint::SpoolMessage::Signal(asked)).map_err(io::Error::other)?;
                self.speak(&format!("question {id}: {text}"))?;
            }
            Action::Questions { text } => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                let questions = lines.enumerate().map(|(n, line)| Question::new((n + 1).to_string(), line));
                let signal = endpoint::Signal::Questions(questions.collect()).to_json().to_string();
                let folder = PathBuf::from(env::var_os(SIGNAL_DIR).ok_or_else(|| missing(SIGNAL_DIR))?);
                // Renamed into place, so that the session never reads half of it.
                fs::write(folder.join("signal.json.new"), signal)?;
                fs::rename(folder.join("signal.json.new"), folder.join("signal.json"))?;
                self.speak(text)?;
            }
            Action::Raw { text } => {
                let mut out = io::stdout().lock();
                writeln!(out, "{text}")?;
                out.flush()?;
            }
            Action::Replace { path, old, new } => {
                let text = fs::read_to_string(path).map_err(|error| named(error, path))?;
                // Replacing nothing would hide that an earlier action of the script failed.
                if !text.contains(old.as_str()) {
                    return Err(io::Error::other(format!("{} does not contain {old:?}", path.display())));
                }
                fs::write(path, text.replacen(old.as_str(), new, 1)).map_err(|error| named(error, path))?;
                self.note("edit", path)?;
            }
            Action::Run { command } => check("sh", Command::new("sh").arg("-c").arg(command))?,
            Action::Say { text } => self.speak(text)?,
            Action::Signal { name } => {
                let dir = env::var_os(SIGNAL_DIR).ok_or_else(|| missing(SIGNAL_DIR))?;
                fs::write(Path::new(&dir).join(format!("{name}.yaml")), b"")?;
                self.speak(&format!("signalled {name}"))?;
            }
            Action::Sleep { time } => {
                let end = Instant::now() + *time;
                until(end, stop);
            }
            Action::Title { text } if self.client.is_some() => self.show(text)?,
            Action::Title { text } => screen::title(text)?,
            Action::Try(action) => match self.act(action) {
                Err(error) => self.speak(&format!("refused: {error}"))?,
                other => return other,
            },
            Action::Wait { path, within } => {
                if !until(Instant::now() + *within, || path.exists() || stop()) {
                    return Err(io::Error::other(format!("{} did not appear", path.display())));
                }
            }
            Action::Work { time, label } if self.client.is_some() => {
                self.show(label)?;
                until(Instant::now() + *time, stop);
            }
            Action::Work { time, label } => {
                screen::progress(*time, label, stop)?;
            }
            Action::Write { path, text } => {
                parents(path)?;
                fs::write(path, text).map_err(|error| named(error, path))?;
                self.note("write", path)?;
            }
        }
        Ok(None)
    }

    /// Waits for the first prompt of the protocol, and returns the id with which its turn is ended. Returns `None` on
    /// a terminal.
    fn first_text(&self) -> io::Result<Option<serde_json::Value>> {
        let text = self.client.as_ref().map_or(Ok(None), Client::text)?;
        text.map(|(id, text)| self.hear(&text).map(|()| id)).transpose()
    }

    /// Waits for input after the script, as a real agent does, on a terminal or in the protocol. Without either the
    /// program ends.
    fn rest(&self, first: Option<serde_json::Value>, reason: &str) -> io::Result<i32> {
        if let Some(client) = &self.client {
            if let Some(id) = first {
                client.end_turn(&id, reason)?;
            }
            while let Some((id, text)) = client.text()? {
                self.hear(&text)?;
                self.speak(&format!("you said: {text}"))?;
                client.end_turn(&id, "end_turn")?;
            }
            return Ok(0);
        }
        if rustix::termios::isatty(io::stdin()) { self.chat().map(i32::from) } else { Ok(0) }
    }

    /// Echoes lines until the end of the input or `/quit`.
    fn chat(&self) -> io::Result<u8> {
        loop {
            self.status("waiting")?;
            print!("> ");
            io::stdout().flush()?;
            let Some(line) = screen::line()? else { return Ok(0) };
            if line.trim() == "/quit" {
                return Ok(0);
            }
            if line.trim().is_empty() {
                continue;
            }
            self.status("working")?;
            self.hear(&line)?;
            self.speak(&format!("you said: {line}"))?;
        }
    }

    fn task(&self) -> io::Result<&Path> {
        self.task.as_deref().ok_or_else(|| missing(TASK_FILE))
    }

    fn status(&self, word: &str) -> io::Result<()> {
        match &self.client {
            // The protocol has no status of its own: the turn says it.
            Some(_) => Ok(()),
            None => screen::title(&format!("scripted: {word}")),
        }
    }

    fn show(&self, text: &str) -> io::Result<()> {
        match &self.client {
            Some(client) => client.say(text),
            None => screen::say(text),
        }
    }

    fn speak(&self, text: &str) -> io::Result<()> {
        self.show(text)?;
        record(Role::Assistant, Part::text(text))
    }

    fn hear(&self, text: &str) -> io::Result<()> {
        record(Role::User, Part::text(text))
    }

    fn note(&self, tool: &str, path: &Path) -> io::Result<()> {
        match &self.client {
            Some(client) => client.note(tool, &path.display().to_string())?,
            None => screen::say(&format!("\x1b[2m{tool} {}\x1b[0m", path.display()))?,
        }
        record(Role::Assistant, Part::tool_call(tool, path.display().to_string()))
    }

    /// Starts a process that outlives this program, in its own session and without a parent. The process writes its
    /// pid to `path`.
    fn orphan(&self, path: &Path, lives: Duration) -> io::Result<()> {
        // An old file would pass for the new process below.
        let _ = fs::remove_file(path);
        let args: Vec<_> = env::args_os().collect();
        let ours = args.get(1..args.len().saturating_sub(self.own_args)).unwrap_or_default();
        let mut child = Command::new(this_program()?)
            .args(ours)
            .args([ORPHAN.as_ref(), path.as_os_str()])
            .args([lives.as_millis().to_string().as_str(), "first"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // No open terminal: the end of the agent's output must not wait for the process.
            .stderr(Stdio::null())
            .spawn()?;
        child.wait()?;
        if until(Instant::now() + Duration::from_secs(10), || path.exists()) {
            return self.show(&format!("left a process: {}", fs::read_to_string(path)?.trim()));
        }
        Err(io::Error::other("the process to leave behind did not start"))
    }
}

/// Runs one of the two processes of a double fork, which are two starts of this program.
fn orphan(args: &[OsString]) -> i32 {
    let [_, path, millis, stage] = args else { return 1 };
    let done = if stage == "first" {
        let all: Vec<_> = env::args_os().collect();
        let same = all.get(1..all.len().saturating_sub(1)).unwrap_or_default();
        // A session of its own: neither a hangup nor a signal to the agent's group reaches the process.
        setsid().map_err(io::Error::from).and_then(|_| this_program()).and_then(|exe| {
            Command::new(exe)
                .args(same)
                .arg("second")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map(|_| ())
        })
    } else {
        let millis = millis.to_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        // Renamed into place: a reader that waits for the file must find the whole pid.
        let sibling = Path::new(path).with_extension("tmp");
        let written = fs::write(&sibling, format!("{}\n", std::process::id()))
            .and_then(|()| fs::rename(&sibling, path));
        std::thread::sleep(Duration::from_millis(millis));
        written
    };
    i32::from(done.is_err())
}

/// Returns the path of the running program. In a sandbox only `/proc` may lead to it.
fn this_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.into()) } else { env::current_exe() }
}

/// Waits until `condition` holds. Returns false if the time is up first.
fn until(end: Instant, mut condition: impl FnMut() -> bool) -> bool {
    loop {
        if condition() {
            return true;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(Duration::from_millis(15)));
    }
}

fn git<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> io::Result<()> {
    check("git", Command::new("git").args(args))
}

fn check(name: &str, command: &mut Command) -> io::Result<()> {
    // A command that asks something would take the keys that are meant for the agent.
    let status = command.stdin(Stdio::null()).status().map_err(|error| named(error, name.as_ref()))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{name} ended with {status}"))) }
}

fn crash(signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or_else(|| io::Error::other("unknown signal"))?;
    // Twice: Rust's handler for SEGV only restores the default action at first, because it expects the fault
    // to come again.
    for _ in 0..2 {
        kill_process(getpid(), signal)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn flood(bytes: u64) -> io::Result<()> {
    const LINE: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz 1234\r\n";
    let mut out = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let mut left = bytes;
    while left > 0 {
        let part = LINE.get(..usize::try_from(left).unwrap_or(LINE.len()).min(LINE.len())).unwrap_or(LINE);
        out.write_all(part)?;
        left -= part.len() as u64;
    }
    out.flush()
}

fn record(role: Role, part: Part) -> io::Result<()> {
    let Some(path) = env::var_os(TRANSCRIPT) else { return Ok(()) };
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    let mut message = Message::new(role, vec![part]);
    // Texts without an id are pieces of one message.
    message.id = Some(format!("m{}", file.metadata()?.len()));
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    // One write of a whole line: the session follows the file while it grows.
    file.write_all(&line)
}

fn parents(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            fs::create_dir_all(parent).map_err(|error| named(error, parent))
        }
        _ => Ok(()),
    }
}

/// Returns the outbox of the session's spool.
fn outbox() -> io::Result<PathBuf> {
    env::var_os(client::OUTBOX).map(PathBuf::from).ok_or_else(|| missing(client::OUTBOX))
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn missing(variable: &str) -> io::Error {
    io::Error::other(format!("{variable} is not set"))
}
