//! One session of a real agent: prepared by its backend, run on a terminal or on pipes, watched as a session would.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pty_process::blocking::Pty;
use watchfire_core::backend::{
    Backend, Dialogue, Fact, Issue, Launch, Message, Move, Observation, ProgramSearch, PromptDelivery,
    SessionContext, Status, Transport,
};
use watchfire_core::endpoint::{self, Spool, SpoolLimits, client};
use watchfire_core::model::{AgentSettings, Mode, Task, TaskNumber};
use watchfire_core::process::helper::Helper;
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_model_server::{ModelServer, Script};
use watchfire_term::Emulator;

use super::agents::Agent;

/// Must reach the model as system or developer text.
pub(crate) const MARK: &str = "WATCHFIRE-SYSTEM-MARK-5521";
pub(crate) const PROMPT: &str = "Implement Task #0001: say hello";
/// What a shell does to complete the task.
pub(crate) const WORK: &str = "echo hello > hello.txt && git add -A && git commit -qm 'Say hello' && sed -i 's/ready/done/' \"$WATCHFIRE_TASK_FILE\"";
const SIZE: Size = Size::new(120, 40);

pub(crate) type Checked<T = ()> = Result<T, String>;

/// Folders, a repository and a model server for one case.
pub(crate) struct Case {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) server: ModelServer,
    pub(crate) context: SessionContext,
    pub(crate) backend: Arc<dyn Backend>,
    runtime: tokio::runtime::Runtime,
    user_before: Vec<PathBuf>,
}

/// A running agent and all that was learnt of it.
pub(crate) struct Session<'a> {
    case: &'a Case,
    child: Child,
    pty: Option<Arc<Pty>>,
    spoken: Option<Spoken>,
    output: Receiver<Vec<u8>>,
    terminal: Emulator,
    lines: Vec<u8>,
    title: String,
    screen: String,
    transcript_read: usize,
    spool: Spool,
    /// What its hooks said, beside what was learnt otherwise.
    pub(crate) hooked: Vec<Fact>,
    /// True while it paints nothing, or has painted for a second.
    rests: bool,
    pub(crate) launch: Launch,
    pub(crate) facts: Vec<Fact>,
    pub(crate) messages: Vec<Message>,
}

/// A conversation with an agent, and what waits to be said in it.
struct Spoken {
    dialogue: Box<dyn Dialogue>,
    input: ChildStdin,
    waiting: VecDeque<String>,
}

impl Case {
    pub(crate) fn new(
        agent: &Agent,
        backend: Arc<dyn Backend>,
        script: &str,
        settings: impl FnOnce(&str) -> String,
    ) -> Checked<Self> {
        let script: Script = serde_json::from_str(script).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let server = runtime.block_on(ModelServer::start(script, 0)).map_err(|error| error.to_string())?;
        let dir = tempfile::Builder::new()
            .prefix("real-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .map_err(|error| error.to_string())?;
        let at = |name: &str| dir.path().join(name);
        for name in ["home", "home/tmp", "user", "work", "session"] {
            fs::create_dir_all(at(name)).map_err(|error| error.to_string())?;
        }
        git(&at("work"), &["init", "-q", "-b", "main"])?;
        fs::write(at("work/README.md"), "# A project\n").map_err(|error| error.to_string())?;
        git(&at("work"), &["add", "-A"])?;
        git(&at("work"), &["commit", "-qm", "Begin"])?;
        fs::write(at("session/0001.yaml"), "status: ready\n").map_err(|error| error.to_string())?;

        let path = search_path();
        let asked: AgentSettings =
            serde_json::from_str(&settings(&server.url())).map_err(|error| error.to_string())?;
        let found = backend
            .locate(&ProgramSearch::new(Some(path.clone()), Some(at("user"))).with_settings(asked.clone()))
            .map_err(|error| error.report())?;
        let name = backend.name().parse().map_err(|error| format!("{error}"))?;
        let session = watchfire_core::model::SessionId::random();
        let mut context =
            SessionContext::new(session, name, Mode::Task, found.program, at("home"), at("work"));
        context.session_dir = at("session");
        context.user_home = Some(at("user"));
        context.title = "0001 say hello".into();
        context.size = SIZE;
        context.helper = Helper::current().map_err(|error| error.report())?.command_line_inside();
        context.system_prompt = format!("You work on one task. {MARK}\n");
        context.first_prompt = Some(PROMPT.into());
        let number = TaskNumber::try_from(1).map_err(|error| error.to_string())?;
        context.task =
            Some(Task::new("abc12345".parse().map_err(|error| format!("{error}"))?, number, "say hello"));
        context.settings = asked;
        context.environment.insert("PATH".into(), path);
        if let Some((file, content)) = agent.login.map(|login| login(&server.url())) {
            let path = at("user").join(file);
            fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(|error| error.to_string())?;
            fs::write(path, content).map_err(|error| error.to_string())?;
        }
        let user_before = listing(&at("user"));
        Ok(Self { dir, server, context, backend, runtime, user_before })
    }

    pub(crate) fn start(&self) -> Checked<Session<'_>> {
        let launch = self.backend.prepare(&self.context).map_err(|error| error.report())?;
        self.place(&launch)?;
        let environment = self.environment(&launch);
        let program = launch.command.program();
        let talks = matches!(launch.transport, Transport::Dialogue { .. });
        let (mut child, pty, output) = match launch.transport {
            Transport::Pty { size, .. } => {
                let (pty, pts) = pty_process::blocking::open().map_err(|error| error.to_string())?;
                pty.resize(pty_process::Size::new(size.rows(), size.cols()))
                    .map_err(|error| error.to_string())?;
                let child = pty_process::blocking::Command::new(program)
                    .args(launch.command.args())
                    .env_clear()
                    .envs(environment)
                    .current_dir(&self.context.cwd)
                    .spawn(pts)
                    .map_err(|error| error.to_string())?;
                let pty = Arc::new(pty);
                let reader = Arc::clone(&pty);
                (child, Some(pty), pump(move |buffer| (&*reader).read(buffer)))
            }
            _ => {
                let mut child = Command::new(program)
                    .args(launch.command.args())
                    .env_clear()
                    .envs(environment)
                    .current_dir(&self.context.cwd)
                    .stdin(if talks { Stdio::piped() } else { Stdio::null() })
                    .stdout(Stdio::piped())
                    .process_group(0)
                    .spawn()
                    .map_err(|error| error.to_string())?;
                let mut stdout = child.stdout.take().ok_or("no output")?;
                (child, None, pump(move |buffer| stdout.read(buffer)))
            }
        };
        let spoken = self.backend.dialogue(&self.context).zip(child.stdin.take()).filter(|_| talks);
        let spoken = spoken.map(|(dialogue, input)| Spoken { dialogue, input, waiting: VecDeque::new() });
        let mut session = Session {
            case: self,
            child,
            pty,
            spoken,
            output,
            terminal: Emulator::new(SIZE),
            lines: Vec::new(),
            title: String::new(),
            screen: String::new(),
            transcript_read: 0,
            spool: Spool::open(&self.context.session_dir, SpoolLimits::default())
                .map_err(|error| error.report())?,
            hooked: Vec::new(),
            rests: false,
            launch,
            facts: Vec::new(),
            messages: Vec::new(),
        };
        session.step(|dialogue| dialogue.open());
        Ok(session)
    }

    /// Writes what the launch wants written.
    fn place(&self, launch: &Launch) -> Checked {
        let home = &self.context.home;
        for file in &launch.files {
            let path = home.join(&file.path);
            fs::create_dir_all(path.parent().unwrap_or(home)).map_err(|error| error.to_string())?;
            fs::write(&path, &file.bytes).map_err(|error| error.to_string())?;
            fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))
                .map_err(|error| error.to_string())?;
        }
        for link in &launch.links {
            let path = home.join(&link.path);
            fs::create_dir_all(path.parent().unwrap_or(home)).map_err(|error| error.to_string())?;
            let _ = fs::remove_file(&path);
            symlink(&link.target, path).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn environment(&self, launch: &Launch) -> Vec<(OsString, OsString)> {
        let task = self.dir.path().join("session/0001.yaml");
        let home = self.dir.path().join("user");
        let tmp = self.context.home.join("tmp");
        let mut all: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), search_path()),
            ("HOME".into(), home.into()),
            ("TERM".into(), "xterm-256color".into()),
            ("COLORTERM".into(), "truecolor".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TMPDIR".into(), tmp.into()),
            ("WATCHFIRE_TASK_FILE".into(), task.into()),
            (client::OUTBOX.into(), self.context.session_dir.join("outbox").into()),
        ];
        all.extend(identity().map(|(name, value)| (name.into(), value.into())));
        all.extend(launch.command.env().map(|(name, value)| (name.to_owned(), value.to_owned())));
        all.extend(launch.secrets.iter().map(|secret| (secret.name.clone(), secret.value.clone())));
        all.retain(|(name, _)| !launch.unset.contains(name));
        all
    }

    pub(crate) fn task_done(&self) -> bool {
        fs::read_to_string(self.dir.path().join("session/0001.yaml")).is_ok_and(|text| text.contains("done"))
    }

    /// The work is there, committed, and nothing else has changed.
    pub(crate) fn check_work(&self) -> Checked {
        let work = self.dir.path().join("work");
        must(git(&work, &["log", "-1", "--format=%s"])? == "Say hello\n", "the work is not committed")?;
        let status = git(&work, &["status", "--porcelain"])?;
        must(status.is_empty(), &format!("left in the worktree: {status}"))?;
        let user = listing(&self.dir.path().join("user"));
        must(user == self.user_before, &format!("the user's home changed: {user:?}"))
    }

    /// The system prompt arrived as system or developer text.
    pub(crate) fn check_system_prompt(&self) -> Checked {
        let asks = self.server.asks();
        must(
            asks.iter().any(|ask| ask.system.contains(MARK)),
            "the system prompt did not arrive as system text",
        )
    }

    pub(crate) fn said_by_user(&self, text: &str) -> bool {
        self.server.asks().iter().any(|ask| ask.users.iter().any(|said| said.contains(text)))
    }
}

impl Session<'_> {
    /// Takes in what the agent does until `condition` holds.
    pub(crate) fn until(
        &mut self,
        what: &str,
        seconds: u64,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> Checked {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut read = Instant::now();
        loop {
            let bytes = self.output.recv_timeout(Duration::from_millis(100)).ok();
            // Some never stop to draw.
            let look = bytes.is_none() || read.elapsed() > Duration::from_secs(1);
            bytes.iter().for_each(|bytes| self.take(bytes));
            self.rests = look;
            if look {
                read = Instant::now();
                self.quiet();
            }
            self.tail();
            self.take_hooks();
            if condition(self) {
                return Ok(());
            }
            let dead = self.child.try_wait().map_err(|error| error.to_string())?;
            if dead.is_some() || Instant::now() > end {
                while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
                    self.take(&bytes);
                }
                self.quiet();
                self.tail();
                self.take_hooks();
                if condition(self) {
                    return Ok(());
                }
                return Err(format!(
                    "{what}: not seen (exit: {dead:?})\nfacts: {:?}\nasked: {} times\ntitle: {}\nhooked: {:?}\nscreen:\n{}\nlines: {}",
                    self.facts,
                    self.case.server.asks().len(),
                    self.title,
                    self.hooked,
                    self.terminal.snapshot().text(),
                    String::from_utf8_lossy(&self.lines)
                ));
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.pty.is_none() {
            self.lines.extend_from_slice(bytes);
            while let Some(end) = self.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.lines.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if self.spoken.is_some() {
                    self.step(|dialogue| dialogue.hear(&line));
                    continue;
                }
                self.learn(Observation::Protocol(&line));
                self.messages.extend(self.case.backend.normalize(&line));
            }
            return;
        }
        self.terminal.feed(bytes);
        let replies = self.terminal.take_replies();
        if !replies.is_empty() {
            self.send(&replies);
        }
        let title = self.terminal.title().unwrap_or_default().to_owned();
        if title != self.title {
            self.title = title.clone();
            self.learn(Observation::Title(&title));
        }
    }

    /// Takes a step of the conversation, and says what waits if it comes to that.
    fn step(&mut self, step: impl FnOnce(&mut dyn Dialogue) -> Vec<Move>) {
        let Some(spoken) = &mut self.spoken else { return };
        let mut moves = step(&mut *spoken.dialogue);
        if spoken.dialogue.is_ready()
            && let Some(text) = spoken.waiting.pop_front()
        {
            moves.extend(spoken.dialogue.say(&text));
        }
        for next in moves {
            match next {
                Move::Write(line) => drop(writeln!(spoken.input, "{line}")),
                Move::Fact(fact) => self.facts.push(fact),
                Move::Message(message) => self.messages.push(message),
                other => eprintln!("{}: {other:?}", self.case.backend.name()),
            }
        }
    }

    /// Stops the running turn.
    pub(crate) fn interrupt(&mut self) {
        if self.spoken.is_some() {
            return self.step(|dialogue| dialogue.interrupt());
        }
        self.send(&self.case.backend.delivery().interrupt);
    }

    /// Nothing came for a moment: reads the screen, if it changed.
    fn quiet(&mut self) {
        let screen = self.terminal.snapshot().text();
        if self.pty.is_some() && screen != self.screen {
            self.learn(Observation::Screen(&screen));
            self.screen = screen;
        }
    }

    /// Reads what is new in the transcript.
    fn tail(&mut self) {
        if self.pty.is_none() && self.spoken.is_none() {
            return;
        }
        let mut context = self.case.context.clone();
        context.vendor_session = self.vendor_session();
        let Some(found) = self.case.backend.transcript(&context) else { return };
        let Ok(text) = fs::read_to_string(found.path) else { return };
        let new = text.get(self.transcript_read..).unwrap_or_default();
        let whole = new.rfind('\n').map_or(0, |end| end + 1);
        self.transcript_read += whole;
        for line in new.get(..whole).unwrap_or_default().lines() {
            if self.spoken.is_some() {
                // As a session does, which knows the rest from the conversation.
                let facts = self.case.backend.interpret(&Observation::Transcript(line));
                self.facts.extend(facts.into_iter().filter(|fact| matches!(fact, Fact::Issue(_))));
                continue;
            }
            self.learn(Observation::Transcript(line));
            self.messages.extend(self.case.backend.normalize(line));
        }
    }

    /// Reads what its hooks sent.
    fn take_hooks(&mut self) {
        for message in self.spool.take().map(|intake| intake.messages).unwrap_or_default() {
            let endpoint::SpoolMessage::Hook { event, payload, .. } = message else { continue };
            let session = self.vendor_session();
            let hook = Observation::hook(&event, &payload, session.as_deref());
            let facts = self.case.backend.interpret(&hook);
            if std::env::var_os("WATCHFIRE_KEEP").is_some() {
                eprintln!("hook {event}: {facts:?}");
            }
            self.hooked.extend(facts);
        }
    }

    /// The vendor's session id: the one that was seen, else the one that was chosen.
    pub(crate) fn vendor_session(&self) -> Option<String> {
        let seen = self.facts.iter().rev().find_map(|fact| match fact {
            Fact::VendorSession(id) => Some(id.clone()),
            _ => None,
        });
        seen.or_else(|| self.launch.vendor_session.clone())
    }

    fn learn(&mut self, observation: Observation<'_>) {
        let facts = self.case.backend.interpret(&observation);
        self.facts.extend(facts);
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        if let Some(pty) = &self.pty {
            let _ = (&**pty).write_all(bytes);
        }
    }

    /// Types and submits text as its delivery says.
    pub(crate) fn say(&mut self, text: &str) {
        if let Some(spoken) = &mut self.spoken {
            spoken.waiting.push_back(text.to_owned());
            return self.step(|_| Vec::new());
        }
        let delivery = self.case.backend.delivery();
        self.send(&delivery.frame(text));
        let settled = Instant::now() + delivery.settle_for(text);
        while let Ok(bytes) = self.output.recv_timeout(settled.saturating_duration_since(Instant::now())) {
            self.take(&bytes);
        }
        self.send(delivery.submit.bytes());
    }

    /// Waits until it is ready, and types the first prompt if that is how it travels.
    pub(crate) fn first_prompt(&mut self) -> Checked {
        if let PromptDelivery::Typed(text) = self.launch.prompt.clone() {
            self.ready()?;
            self.say(&text);
        }
        Ok(())
    }

    pub(crate) fn ready(&mut self) -> Checked {
        use watchfire_core::backend::Readiness;
        match self.launch.readiness.clone() {
            Readiness::Screen { any_of, none_of, .. } => self.until("ready for input", 60, |session| {
                let screen = session.terminal.snapshot().text();
                let shows = |texts: &[String]| texts.iter().any(|text| screen.contains(text));
                // As sessions do: what is typed while it paints can be lost.
                session.rests && shows(&any_of) && !shows(&none_of)
            }),
            _ => Ok(()),
        }
    }

    /// A turn ended: it says so, or it worked and then was idle.
    pub(crate) fn turn_ended(&self) -> bool {
        let at = |wanted: &Fact| self.facts.iter().rposition(|fact| fact == wanted);
        let (busy, idle) = (at(&Fact::Status(Status::Processing)), at(&Fact::Status(Status::Idle)));
        self.facts.contains(&Fact::TurnCompleted) || (busy.is_some() && idle > busy)
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Status(status) => Some(*status),
            _ => None,
        })
    }

    pub(crate) fn issues(&self) -> Vec<&Issue> {
        self.facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Issue(issue) => Some(issue),
                _ => None,
            })
            .collect()
    }

    /// Waits until the program has ended by itself.
    pub(crate) fn exited(&mut self, limit: Duration) -> Checked {
        let end = Instant::now() + limit;
        while self.child.try_wait().map_err(|error| error.to_string())?.is_none() {
            must(Instant::now() < end, "it does not exit")?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn quit(&mut self) -> Checked {
        if self.spoken.take().is_some() {
            // Some do not end with their input, and all may have something to write down.
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            let end = Instant::now() + Duration::from_secs(5);
            while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
                while self.output.recv_timeout(Duration::from_millis(50)).is_ok() {}
            }
            self.end();
            return Ok(());
        }
        let keys = self.case.backend.delivery().quit;
        let end = Instant::now() + Duration::from_secs(20);
        let mut press = Instant::now();
        loop {
            // While a hook of the last turn runs, keys may go to that; a person would press them again.
            if self.pty.is_some() && Instant::now() >= press {
                self.send(&keys);
                press = Instant::now() + Duration::from_secs(4);
            }
            if self.child.try_wait().map_err(|error| error.to_string())?.is_some() {
                while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
                    self.take(&bytes);
                }
                self.quiet();
                self.tail();
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("it does not quit:\n{}", self.terminal.snapshot().text()));
            }
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.take(&bytes);
            }
        }
    }
}

impl Session<'_> {
    fn end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::env::var_os("WATCHFIRE_KEEP").is_some() {
            eprintln!("kept: {}", self.dir.path().display());
            self.dir.disable_cleanup(true);
        }
        let _ = &self.runtime;
    }
}

fn pump(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize> + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The agents to test come first, then what their commands need.
pub(crate) fn search_path() -> OsString {
    let agents = std::env::var_os("WATCHFIRE_AGENTS").unwrap_or_default();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&agents).chain(std::env::split_paths(&rest))).unwrap_or(rest)
}

pub(crate) fn must(holds: bool, otherwise: &str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn identity() -> [(&'static str, &'static str); 6] {
    [
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> Checked<String> {
    let output = Command::new("git").args(args).current_dir(dir).envs(identity()).output();
    let output = output.map_err(|error| error.to_string())?;
    must(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn listing(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.retain(|path| path.file_name() != Some(OsStr::new("")));
    found.sort();
    found
}
