//! Conformance suite for backends. Feature `testing`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::ready;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};

use super::{
    Backend, Dialogue, Grant, Launch, Move, Observation, ProgramSearch, PromptDelivery, SessionContext,
    Transport,
};
use crate::conformance::{Case, Judged, NotPassed, Outcome, cases};
use crate::model::{BackendName, Mode, Phase, SessionId, Task, TaskId, TaskNumber};
use crate::{Error, ErrorKind, Result};

/// Value of every secret in the context. Must not appear in arguments, errors or debug output.
const SECRET: &str = "wf-secret-7391-do-not-show";
/// End of the system prompt. Must reach the agent if the backend claims to pass the prompt on; at the end, so that a
/// truncated prompt is found too.
const MARK: &str = "wf-system-prompt-mark-4802";
/// Variables that hold the secrets of known agents.
const SECRET_NAMES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "GEMINI_API_KEY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
];
/// Maximum length of all arguments together, for prompts of any length. Longer text belongs in a file.
const ARGUMENTS: usize = 16 * 1024;

/// Makes a conversation, the same one each time.
pub type MakeDialogue = dyn Fn() -> Box<dyn Dialogue>;

// The contexts cover every mode and phase, with and without a task, with a short and a very long prompt, secrets in the
// environment, and a home folder of the user. No case starts a program.
cases! {
    pub dyn Backend:
    names_are_valid_and_stay,
    programs_are_found_or_missing,
    launches_keep_to_the_home,
    delivery_can_be_done,
    garbage_is_survived,
    what_is_left_behind_is_said,
}

/// The cases of a [`Dialogue`].
pub const DIALOGUE: &[Case<MakeDialogue>] = &[Case::new("garbage_is_answered_in_bounds", |make| {
    Box::pin(ready(garbage_is_answered_in_bounds(make)))
})];

fn names_are_valid_and_stay(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.identity())
}

fn programs_are_found_or_missing(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.programs())
}

fn launches_keep_to_the_home(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.launches())
}

fn delivery_can_be_done(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.delivery())
}

fn garbage_is_survived(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.garbage())
}

fn what_is_left_behind_is_said(backend: &dyn Backend) -> Outcome {
    judge(backend, |suite| suite.leftovers())
}

/// Lists what a check has found.
fn judge<J: Judged>(backend: &dyn Backend, check: impl FnOnce(&mut Suite<'_>) -> J) -> Outcome {
    let scratch = ScratchFolder::new().map_err(|error| NotPassed::Failed(error.report()))?;
    let mut suite = Suite { backend, scratch: &scratch, findings: Vec::new() };
    check(&mut suite).judged()?;
    told(&suite.findings)
}

fn told(findings: &[String]) -> Outcome {
    if findings.is_empty() { Ok(()) } else { Err(NotPassed::Failed(findings.join("; "))) }
}

/// Gives a conversation malformed and hostile lines.
fn garbage_is_answered_in_bounds(make: &MakeDialogue) -> Outcome {
    let mut findings = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds && !findings.contains(&what) {
            findings.push(what);
        }
    };
    let begin = || {
        // A fresh conversation for each line, so that a finding names the line that caused it.
        let mut dialogue = make();
        let moves = dialogue.open();
        (dialogue, moves)
    };
    // An agent that waits for the first word would otherwise wait for ever.
    must(!begin().1.is_empty() || begin().0.is_ready(), "it neither opens nor is ready".into());
    // Each line alone, and all in sequence: state left by one line must not break the handling of the next.
    let (mut all, mut again) = (begin().0, begin().0);
    for line in garbage() {
        let heard = catch_unwind(AssertUnwindSafe(|| {
            // Interrupted after every line, because a person can do that at any moment.
            let alone = begin().0.hear(&line);
            (alone, all.hear(&line) == again.hear(&line), all.interrupt())
        }));
        let Ok((alone, same, _)) = heard else {
            must(false, format!("it panics on {line:?}"));
            // A panic may have left both conversations half-changed.
            (all, again) = (begin().0, begin().0);
            continue;
        };
        must(same, format!("it changes its mind on {line:?}"));
        for next in alone {
            if let Move::Write(answer) = next {
                // The session adds the line end; one inside would make two messages.
                must(!answer.contains('\n'), format!("it answers {line:?} with more than one line"));
                // An agent could otherwise make us write without bound.
                must(answer.len() <= line.len() + 4096, format!("its answer to {line:?} is far too long"));
            }
        }
    }
    told(&findings)
}

struct Suite<'a> {
    backend: &'a dyn Backend,
    scratch: &'a ScratchFolder,
    findings: Vec<String>,
}

impl Suite<'_> {
    fn must(&mut self, holds: bool, what: impl Into<String>) {
        if !holds {
            let what = what.into();
            if !self.findings.contains(&what) {
                self.findings.push(what);
            }
        }
    }

    fn identity(&mut self) {
        let name = self.backend.name().to_owned();
        self.must(
            name.parse::<BackendName>().is_ok(),
            format!("its name {name:?} is not a valid backend name"),
        );
        // The name is a key in settings and task files.
        self.must(self.backend.name() == name, "its name changes");
        self.must(!self.backend.display_name().trim().is_empty(), "its display name is empty");
        for alias in self.backend.aliases() {
            self.must(
                alias.parse::<BackendName>().is_ok(),
                format!("its alias {alias:?} is not a valid name"),
            );
        }
    }

    fn programs(&mut self) -> Result<()> {
        let nowhere = self.scratch.folder("nowhere")?;
        // Nothing can be found there, whatever is installed on this machine.
        let search = ProgramSearch::new(Some(nowhere.clone().into_os_string()), Some(nowhere.clone()));
        match self.backend.locate(&search) {
            Ok(located) => {
                self.must(located.program.is_absolute(), "locate gives a path that is not absolute");
                self.must(located.program.is_file(), "locate gives a program that is not there");
            }
            Err(error) => {
                self.must(
                    error.kind() == ErrorKind::ProgramMissing,
                    format!("a missing program is reported as {}, not program_missing", error.code()),
                );
                let hint = self.backend.install_hint().unwrap_or_default();
                self.must(
                    !hint.trim().is_empty(),
                    "its program can be missing, but it gives no install hint",
                );
                self.must(!hint.contains('\n'), "its install hint has more than one line");
            }
        }
        let mut missing = search.clone();
        // An explicit choice must never fall back to another program.
        missing.configured = Some(nowhere.join("no such program"));
        let error = self.backend.locate(&missing).err().map(|error| error.kind());
        self.must(
            error == Some(ErrorKind::ProgramMissing),
            "a configured path without a program is not refused with program_missing",
        );
        let mut present = search;
        present.configured = Some(self.scratch.program()?);
        let located = self.backend.locate(&present).map(|located| located.program);
        self.must(located.ok() == present.configured, "a configured program is not the one that is used");
        Ok(())
    }

    fn launches(&mut self) -> Result<()> {
        let modes = [
            (Mode::Task, None, true),
            (Mode::StartAll, None, true),
            (Mode::Wildfire, Some(Phase::Execute), true),
            (Mode::Wildfire, Some(Phase::Refine), false),
            (Mode::Wildfire, Some(Phase::Generate), false),
            (Mode::Chat, None, false),
            (Mode::GenerateDefinition, None, false),
            (Mode::GenerateTasks, None, false),
        ];
        for (mode, phase, task) in modes {
            // A long prompt is what overflows argument lists and pastes.
            for long in [false, true] {
                let mut context = self.scratch.context(self.backend, mode, long)?;
                context.phase = phase;
                if !task {
                    context.task = None;
                }
                // A chat begins with the person's words.
                if mode == Mode::Chat {
                    context.first_prompt = None;
                }
                let case = format!("mode {mode}, {} prompt", if long { "very long" } else { "short" });
                // Everything but the session's home is the person's.
                let before = self.scratch.listing()?;
                match (self.backend.prepare(&context), self.backend.prepare(&context)) {
                    (Ok(launch), Ok(again)) => {
                        // A restart prepares a session again from the same context, and must reach the same
                        // agent.
                        self.must(same(&launch, &again), "the same context gives different launches");
                        self.launch(&context, &launch);
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        // Task mode is the one that every backend must support; others it may refuse.
                        self.must(mode != Mode::Task, format!("{case}: prepare fails: {}", error.report()));
                        self.must(!error.report().contains(SECRET), "an error of prepare shows a secret");
                    }
                }
                let quiet = before == self.scratch.listing()?;
                self.must(quiet, "prepare changes files outside of the session's home");
            }
        }
        // Only where it is claimed: a backend without it need not understand an id.
        if self.backend.capabilities().resume {
            let mut context = self.scratch.context(self.backend, Mode::Task, false)?;
            // The form of ids that vendors use (UUID v7).
            let id = "0199f2c4-5a6b-7c8d-9e0f-a1b2c3d4e5f6";
            context.resume = Some(id.into());
            match self.backend.prepare(&context) {
                Ok(launch) => {
                    let args = launch.command.args().iter().map(OsString::as_os_str);
                    // Some agents take the id from a variable.
                    let mut words = args.chain(launch.command.env().map(|(_, value)| value));
                    let named = words.any(|text| text.to_string_lossy().contains(id)) || converses(&launch);
                    self.must(named, "it says that it can resume, but the session id is not in the command");
                }
                Err(error) => self.must(false, format!("resuming fails: {}", error.report())),
            }
        }
        Ok(())
    }

    fn launch(&mut self, context: &SessionContext, launch: &Launch) {
        let can = self.backend.capabilities();
        let args = launch.command.args();
        let total: usize = args.iter().map(|arg| arg.len() + 1).sum();
        self.must(
            total <= ARGUMENTS,
            format!("the arguments take {total} bytes; long text belongs in a file"),
        );
        // The kernel takes arguments as C strings, so such a command could not be started.
        self.must(args.iter().all(|arg| !arg.as_bytes().contains(&0)), "an argument has a NUL");
        self.must(
            args.iter().all(|arg| !arg.to_string_lossy().contains(SECRET)),
            "a secret is among the arguments",
        );
        // Launches are logged.
        self.must(!format!("{launch:?}").contains(SECRET), "the Debug output of a launch shows a secret");
        // A name with `=` would set another variable, and one with a NUL cannot be passed at all.
        let valid = |name: &std::ffi::OsStr| {
            !name.is_empty() && !name.as_bytes().iter().any(|byte| matches!(byte, b'=' | 0))
        };
        let names = launch.command.env().map(|(name, _)| name);
        let names = names.chain(launch.secrets.iter().map(|secret| secret.name.as_os_str()));
        self.must(
            names.chain(launch.unset.iter().map(OsString::as_os_str)).all(valid),
            "a variable has an invalid name",
        );

        let mut paths = Vec::new();
        for file in &launch.files {
            let shown = file.path.display();
            self.must(is_below(&file.path), format!("the file {shown} is not below the session's home"));
            // The home is private, but its files may hold keys, and a backup may not keep the folder's mode.
            self.must(file.mode & 0o077 == 0, format!("the file {shown} is readable by others"));
            paths.push(file.path.clone());
        }
        for link in &launch.links {
            self.must(
                is_below(&link.path),
                format!("the link {} is not below the home", link.path.display()),
            );
            self.must(
                // A relative target would depend on where the session's home lies.
                link.target.is_absolute(),
                format!("the link {} has no absolute target", link.path.display()),
            );
            paths.push(link.path.clone());
        }
        paths.sort();
        let count = paths.len();
        paths.dedup();
        // The session creates files only where there is none, so the second one would fail the start.
        self.must(paths.len() == count, "two files of one launch have one path");

        for grant in &launch.grants {
            let path = grant.path();
            self.must(path.is_absolute(), format!("the grant {} is not an absolute path", path.display()));
            // One grant of this size would undo the sandbox.
            let broad = path == Path::new("/") || Some(path) == context.user_home.as_deref();
            self.must(
                !broad || matches!(grant, Grant::Read(_)),
                "a grant opens the whole home or machine to writing",
            );
        }
        if can.system_prompt {
            // In a file, because arguments are short and visible to other users.
            let carried = launch.files.iter().any(|file| String::from_utf8_lossy(&file.bytes).contains(MARK));
            self.must(carried, "it says that it takes a system prompt, but no file carries it");
        }
        if converses(launch) {
            let spoken = self.backend.dialogue(context).is_some();
            self.must(spoken, "its launch wants a conversation that it does not begin");
        }
        if can.hooks && matches!(launch.transport, Transport::Pty { .. }) {
            let carried =
                launch.files.iter().any(|file| String::from_utf8_lossy(&file.bytes).contains(HELPER));
            self.must(carried, "it says that it has hooks, but no file of the launch runs the helper");
        }
        // A resumed session keeps the id that it was given at its first start.
        if can.chooses_session_id && context.resume.is_none() {
            let named = launch
                .vendor_session
                .as_ref()
                .is_some_and(|id| args.iter().any(|arg| arg.to_string_lossy().contains(id.as_str())));
            self.must(named, "it says that it chooses the session id, but the command does not name it");
        }
        if let PromptDelivery::Typed(text) = &launch.prompt
            && !converses(launch)
        {
            let limit = can.paste_limit.unwrap_or(usize::MAX);
            self.must(text.len() <= limit, "a prompt beyond its paste limit is typed; it belongs in a file");
        }
    }

    fn delivery(&mut self) {
        let delivery = self.backend.delivery();
        for text in GARBAGE {
            let framed = delivery.frame(text);
            // The marks of a paste are the only escape sequences that a delivery may add.
            let inner = framed.strip_prefix(b"\x1b[200~").unwrap_or(&framed);
            let inner = inner.strip_suffix(b"\x1b[201~").unwrap_or(inner);
            // ESC can end the paste, a carriage return submits, and 3 is Ctrl+C.
            let harmless = !inner.iter().any(|byte| matches!(byte, 0x1b | b'\r' | 3));
            self.must(harmless, "text can press keys or end its own paste");
        }
        // Every text would wait that long.
        let slow = delivery.settle.max(delivery.settle_multiline).as_secs() >= 10;
        self.must(!slow, "it waits ten seconds or more before the submit key");
        let silent = self.backend.capabilities().interrupt && delivery.interrupt.is_empty();
        self.must(!silent, "it says that it can be interrupted, but no key does it");
    }

    fn garbage(&mut self) {
        for text in &garbage() {
            let observations = [
                Observation::Protocol(text),
                Observation::Hook { event: text, payload: text, session: None },
                // A known event with a payload that is not its own.
                Observation::Hook { event: "Stop", payload: text, session: Some(text) },
                Observation::Transcript(text),
                Observation::Title(text),
                Observation::Screen(text),
            ];
            for observation in observations {
                let twice = catch_unwind(AssertUnwindSafe(|| {
                    self.backend.interpret(&observation) == self.backend.interpret(&observation)
                }));
                self.must(twice.is_ok(), format!("interpret panics on {observation:?}"));
                self.must(twice.unwrap_or(true), format!("interpret changes its mind on {observation:?}"));
            }
            let twice = catch_unwind(AssertUnwindSafe(|| {
                self.backend.normalize(text) == self.backend.normalize(text)
            }));
            self.must(twice.is_ok(), format!("normalize panics on {text:?}"));
            self.must(twice.unwrap_or(true), format!("normalize changes its mind on {text:?}"));
        }
    }

    fn leftovers(&mut self) -> Result<()> {
        let context = self.scratch.context(self.backend, Mode::Task, false)?;
        let before = self.scratch.listing()?;
        // No agent ran, so there is nothing to find.
        let found = self.backend.transcript(&context);
        self.must(found.is_none_or(|found| found.path.exists()), "it names a transcript that is not there");
        // Twice, because recovery repeats a clean-up that was cut off.
        for _ in 0..2 {
            if let Err(error) = self.backend.clean_up(&context) {
                self.must(
                    false,
                    format!("cleaning up after a session that never ran fails: {}", error.report()),
                );
            }
        }
        let quiet = before == self.scratch.listing()?;
        self.must(quiet, "finding the transcript or cleaning up changes files outside of the session's home");
        Ok(())
    }
}

/// Returns true if the agent is reached by a protocol, which carries prompts of any length and the session id to resume.
fn converses(launch: &Launch) -> bool {
    matches!(launch.transport, Transport::Dialogue { .. })
}

/// Returns true if both launches are equal. `Debug` hides contents of files and secrets, so they are compared directly.
fn same(one: &Launch, other: &Launch) -> bool {
    one.files == other.files && one.secrets == other.secrets && format!("{one:?}") == format!("{other:?}")
}

fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    // An absolute path or one with `..` would lead to the person's own files.
    parts.clone().count() > 0 && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Program that hooks run.
const HELPER: &str = "/opt/watchfire/helper";

/// A temporary folder, removed on drop.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new() -> Result<Self> {
        // A random name, because the suites of several backends run at the same time.
        let path = std::env::temp_dir().join(format!("watchfire-conformance-{}", SessionId::random()));
        fs::create_dir(&path)
            .map_err(|error| Error::io("making a scratch folder", error).with_path(&path))?;
        Ok(Self(path))
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(|error| Error::io("making a folder", error).with_path(&path))?;
        Ok(path)
    }

    /// Creates an executable that stands for the agent.
    fn program(&self) -> Result<PathBuf> {
        let path = self.folder("bin")?.join("agent");
        fs::write(&path, "#!/bin/sh\nexit 1\n")
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|error| Error::io("writing a program", error).with_path(&path))?;
        Ok(path)
    }

    fn context(&self, backend: &dyn Backend, mode: Mode, long: bool) -> Result<SessionContext> {
        let name = backend.name().parse().or_else(|_| "unnamed".parse())?;
        let session = "6f2b1c1e-93a4-4a39-8d0e-7f5e7c1a9b21".parse()?;
        let (program, home, cwd) = (self.program()?, self.folder("home")?, self.folder("work space")?);
        let mut context = SessionContext::new(session, name, mode, program, home, cwd);
        context.session_dir = self.folder("session")?;
        context.user_home = Some(self.folder("user")?);
        // Spaces, quotes and dollar signs expose a backend that composes a shell command.
        context.title = "0001 \"quoted\" $title".into();
        let fill = if long {
            "Follow the rules of this project, all of them.\n".repeat(8000)
        } else {
            "Work.\n".into()
        };
        context.system_prompt = format!("{fill}{MARK}\n");
        context.first_prompt =
            Some(if long { fill } else { "Implement Task #0001: say \"hello\" in $HOME".into() });
        let number = TaskNumber::try_from(1)?;
        context.task = Some(Task::new("abc12345".parse::<TaskId>()?, number, "say \"hello\" in $HOME"));
        context.environment = environment();
        context.helper = vec![HELPER.into(), "--watchfire-helper".into()];
        Ok(context)
    }

    /// Lists every file outside the session's home with its size.
    fn listing(&self) -> Result<Vec<(PathBuf, u64)>> {
        let (mut found, mut folders) = (Vec::new(), vec![self.0.clone()]);
        let home = self.0.join("home");
        let failed = |error| Error::io("listing the scratch folder", error);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let meta = entry.metadata().map_err(failed)?;
                if meta.is_dir() && entry.path() != home {
                    folders.push(entry.path());
                }
                found.push((entry.path(), if meta.is_file() { meta.len() } else { 0 }));
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn environment() -> BTreeMap<OsString, OsString> {
    let secrets = SECRET_NAMES.iter().map(|name| ((*name).into(), SECRET.into()));
    secrets.chain([("PATH".into(), "/usr/bin:/bin".into()), ("LANG".into(), "C.UTF-8".into())]).collect()
}

/// Returns texts that have broken parsers, and random recombinations. The generator is seeded, so that a finding
/// can be repeated.
fn garbage() -> Vec<String> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut texts: Vec<String> = GARBAGE.iter().map(|text| (*text).to_owned()).collect();
    for _ in 0..400 {
        let mut step = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % 4096).unwrap_or_default()
        };
        let (one, other) = (GARBAGE[step() % GARBAGE.len()], GARBAGE[step() % GARBAGE.len()]);
        let head: String = one.chars().take(step() % (one.len() + 1)).collect();
        let tail: String = other.chars().skip(step() % (other.len() + 1)).collect();
        texts.push(head + &tail);
    }
    texts
}

const GARBAGE: &[&str] = &[
    "",
    " ",
    "\u{0}",
    "null",
    "true",
    "-1",
    "\"text\"",
    "[]",
    "{}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"type\":\"assistant\"}",
    "{\"type\":\"assistant\",\"message\":null}",
    "{\"type\":\"assistant\",\"message\":{\"content\":7,\"usage\":[]}}",
    "{\"type\":\"assistant\",\"message\":{\"content\":[null,1,{\"type\":\"text\"},{\"type\":\"tool_use\"}]}}",
    "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":{}}]}}",
    "{\"type\":\"result\",\"is_error\":\"yes\",\"result\":[]}",
    "{\"type\":\"event_msg\",\"payload\":{\"type\":\"task_complete\",\"error\":1}}",
    "{\"type\":\"response_item\",\"payload\":[]}",
    "{\"type\":\"session.error\",\"data\":null}",
    "{\"usage\":{\"input_tokens\":-5,\"output_tokens\":1e400}}",
    "{\"timestamp\":\"yesterday\",\"type\":\"user\",\"message\":{\"content\":\"x\"}}",
    "{\"type\":\"text\",\"part\":{\"type\":\"text\",\"text\":\"half a li",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"one\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1e99,\"message\":[]}}",
    "{\"jsonrpc\":\"2.0\",\"id\":{\"id\":[]},\"method\":\"x\",\"params\":null}",
    "{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775809,\"method\":\"fs/read_text_file\",\"params\":{\"path\":\"/etc/shadow\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/request_permission\",\"params\":{\"options\":{}}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":7,\"update\":{\"sessionUpdate\":\"plan\"}}}",
    "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]",
    "You've hit your limit · resets 99:99pm (Nowhere/Land)",
    "try again at 25:61 PM.",
    "\u{1b}[200~paste\u{1b}[201~",
    "\u{1b}]0;title\u{7}\r\rrm -rf /\r",
    "\u{3}\u{4}\u{1a}",
    "é́\u{200b}\u{202e}\u{feff}🏳️‍🌈",
    "› \n❯ \n> \n╭──╮\n│",
    "⏵⏵ bypass permissions on",
    "API Error: 429 401 500 rate limit overloaded credit",
];
