//! `watchfire update`: newer releases, which are the version tags of a git repository that the person names.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use clap::Args;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::json;
use watchfire_core::files::replace;
use watchfire_core::model::{CheckFrequency, Settings};
use watchfire_core::process::{CommandSpec, RunLimits, resolve_program, run_blocking};
use watchfire_core::{Error, ErrorKind, Result as CoreResult};

use crate::args::Command;
use crate::context::{Context, clock, home_path, open_home};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::{terminal, text};

/// Maximum time that a repository has to name its tags.
const ANSWER: Duration = Duration::from_secs(30);
/// Number of bytes of tags that are read: some sixteen thousand.
const OUTPUT: usize = 1 << 20;
/// Variables of git that name a repository.
const LOCAL: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"];
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

#[derive(Args, Debug)]
#[command(after_help = "\
The releases are the tags such as v1.2.3 of the git repository that `updates.source` of your settings names. Without it nothing is
looked up, and nothing is ever sent but git's question for tags. A release is built from its source by cargo.

Examples:
  watchfire settings --global updates.source \\
    https://github.com/watchfire-io/watchfire-rs
  watchfire update --check
  watchfire update")]
pub(crate) struct UpdateArgs {
    /// Only say whether there is a newer release
    #[arg(long)]
    check: bool,
    /// Install it without a question
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(context: &Context, args: UpdateArgs) -> Result<Exit> {
    let home = home_path()?;
    let settings = open_home(home.clone()).await?.settings().await?;
    let Some(source) = source(&settings) else {
        let message =
            "no source of releases is configured: `watchfire settings --global updates.source URL` names one";
        return Err(Error::new(ErrorKind::NotFound, message).into());
    };
    let Some(address) = address(&source) else {
        let hint =
            "an address such as https://host/watchfire.git, git@host:watchfire.git, or an absolute path";
        return Err(Failure::usage("updates.source is no address of a repository", hint));
    };
    if names_login(&source) {
        let hint = "leave it out, and let git ask your credential helper";
        return Err(Failure::usage("updates.source holds a login, which other users could read", hint));
    }
    let newest = look(home.clone(), source.clone()).await?;
    let newer = newest.as_ref().filter(|newest| **newest > ours());
    let asks = newer.is_some() && !args.check;
    let (ours, newest) = (ours().to_string(), newest.as_ref().map(Version::to_string));
    let report = json!({ "release": ours, "newest": newest, "is_newer": newer.is_some() });
    context.out.report(report, |_| match (newer, &newest) {
        (Some(newer), _) => format!("release {newer} is out; this is {ours}\n"),
        (None, Some(newest)) => format!("this is {ours}; the newest release is {newest}\n"),
        (None, None) => format!("this is {ours}; the source has no release yet\n"),
    });
    match newer {
        Some(newer) if asks => install(&home, &address, newer, args.yes).await,
        _ => Ok(Exit::Good),
    }
}

/// Builds and installs a release, after a question unless the person has said yes.
async fn install(home: &Path, address: &str, release: &Version, yes: bool) -> Result<Exit> {
    let tag = format!("v{release}");
    let arguments =
        ["install", "--locked", "--profile", "dist", "--git", address, "--tag", &tag, "watchfire"];
    let line = format!("cargo {}", arguments.join(" "));
    if !yes {
        if !terminal::is_interactive() {
            return Err(Failure::usage("nobody is here to say yes", format!("--yes, or: {line}")));
        }
        if !terminal::ask(&format!("{}\ninstall it now? [y/N] ", text::line(&line))).await? {
            return Ok(Exit::Good);
        }
    }
    let cargo = resolve_program(Path::new("cargo")).map_err(|error| {
        Error::new(ErrorKind::ProgramMissing, "cargo, which builds a release, is missing")
            .with("hint", "install Rust: https://rustup.rs")
            .with_source(error)
    })?;
    // Ctrl+C is for cargo, which tells us how it ended.
    let interrupts = Interrupts::listen()?;
    let mut program = Program::new(&cargo);
    // Not in the person's folder: a `rust-toolchain.toml` of a repository there would choose the program that runs.
    program.current_dir(home);
    // Its output is for the person; ours may be read by a program.
    program.args(arguments).stdin(Stdio::null()).stdout(std::io::stderr());
    let ended = tokio::task::spawn_blocking(move || program.status()).await;
    let ended =
        ended.map_err(|error| Error::new(ErrorKind::Internal, "waiting for cargo").with_source(error))?;
    let ended = ended.map_err(|error| Error::io("starting cargo", error).with_path(&cargo))?;
    if interrupts.happened() {
        return Ok(Exit::Interrupted);
    }
    if !ended.success() {
        let error = Error::new(ErrorKind::Io, format!("cargo ended with {ended}"));
        return Err(error.with("command", line).with("hint", "its own output says why").into());
    }
    if matches!(watchfire_client::DaemonFile::read(home), Ok(Some(_))) {
        eprintln!("a daemon of this release may run: watchfire daemon restart; agents go on meanwhile");
    }
    Ok(Exit::Good)
}

/// Returns true for a command after which a person may be told of a new release.
pub(crate) fn reminds(context: &Context, command: Option<&Command>) -> bool {
    use Command as C;
    let is_apart = matches!(
        command,
        Some(C::Update(_) | C::Demo(_) | C::Schema(_) | C::Completions(_) | C::Manual(_) | C::Version)
    );
    !is_apart && !context.out.json && std::io::stderr().is_terminal()
}

/// Tells of a newer release, if one is known, and has it looked up in the background where that is due.
pub(crate) async fn remind() {
    // What fails here fails in the commands too, and is told by them.
    let Some(home) = home_path().ok().filter(|home| home.is_dir()) else { return };
    let Ok(opened) = open_home(home.clone()).await else { return };
    let Ok(settings) = opened.settings().await else { return };
    let can_be_asked = |source: &String| !names_login(source) && address(source).is_some();
    let Some(source) = source(&settings).filter(can_be_asked) else { return };
    if settings.updates.check_on_startup == Some(false) {
        return;
    }
    let note = Note::read(&home).filter(|note| note.source == source);
    if let Some(newer) =
        note.as_ref().and_then(|note| note.newest.as_ref()).filter(|newest| **newest > ours())
    {
        eprintln!("release {newer} of watchfire is out; this is {}: watchfire update", ours());
    }
    if is_due(note.map(|note| note.checked_at), settings.updates.check_frequency, now()) {
        look_behind();
    }
}

fn is_due(checked_at: Option<i64>, frequency: CheckFrequency, now: i64) -> bool {
    let days = match frequency {
        CheckFrequency::EveryLaunch => 0,
        CheckFrequency::Weekly => 7,
        _ => 1,
    };
    // A clock that was set back makes the last time one to come.
    checked_at.is_none_or(|then| now < then || now - then >= days * DAY_MILLIS)
}

/// Looks in a process of its own, for which nobody waits: what it finds is told by the next command.
fn look_behind() {
    let Ok(me) = std::env::current_exe() else { return };
    let mut program = Program::new(me);
    program.args(["update", "--check"]).process_group(0);
    // Nobody answers its questions.
    program.env("GIT_ASKPASS", "true").env("SSH_ASKPASS_REQUIRE", "never");
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        program.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
    }
    let _ = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

fn source(settings: &Settings) -> Option<String> {
    let source = settings.updates.source.as_deref().unwrap_or_default().trim();
    (!source.is_empty()).then(|| source.to_owned())
}

/// Returns the address of a source as cargo wants it, which knows URLs alone.
fn address(source: &str) -> Option<String> {
    if source.contains("://") {
        return Some(source.to_owned());
    }
    if source.starts_with('/') {
        return Some(format!("file://{source}"));
    }
    // As git has it: a host before the first colon, and no slash in it.
    let (host, path) = source.split_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'))?;
    Some(format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

/// Returns true for an address with a login in it, as in `https://token@host/`. Git gets the source among its arguments, which every
/// user can see.
fn names_login(source: &str) -> bool {
    let (scheme, rest) = source.split_once("://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let user = host.rsplit_once('@').map(|(user, _)| user);
    // A user's name for SSH is no secret.
    user.is_some_and(|user| scheme.starts_with("http") || user.contains(':'))
}

fn ours() -> Version {
    // Cargo accepts no other.
    Version::parse(env!("CARGO_PKG_VERSION")).unwrap_or_else(|_| Version::new(0, 0, 0))
}

fn now() -> i64 {
    clock().now().unix_millis()
}

/// Asks for the newest release and notes it. A failure is noted too, so that it is not repeated at every start.
async fn look(home: PathBuf, source: String) -> CoreResult<Option<Version>> {
    let task = tokio::task::spawn_blocking(move || {
        let before = Note::read(&home).filter(|note| note.source == source).and_then(|note| note.newest);
        let note = |newest: Option<Version>| Note { checked_at: now(), newest, source: source.clone() };
        // First, so that what starts meanwhile does not look too. Where it cannot be written, the next one looks again.
        let _ = note(before).write(&home);
        let newest = newest(&tags(&home, &source)?);
        let _ = note(newest.clone()).write(&home);
        Ok(newest)
    });
    task.await.map_err(|error| Error::new(ErrorKind::Internal, "looking for releases").with_source(error))?
}

/// Returns the tags of a repository, as git prints them. With the person's git and configuration, which know their proxies and logins.
fn tags(home: &Path, source: &str) -> CoreResult<String> {
    // Without those that are set for another repository: git would be in that.
    let is_theirs = |name: &OsStr| !LOCAL.iter().any(|local| name == *local);
    let theirs = std::env::vars_os().filter(|(name, _)| is_theirs(name));
    let spec = CommandSpec::new(resolve_program(Path::new("git"))?)
        .with_args(["ls-remote", "--tags", "--refs", "--quiet", "--", source, "v*"])
        .with_cwd(home)
        .with_envs(theirs)
        .with_env("GIT_TERMINAL_PROMPT", "0")
        .with_env("LC_ALL", "C.UTF-8");
    let done = run_blocking(&spec, RunLimits::default().with_timeout(ANSWER).with_output(OUTPUT))?;
    if done.success() {
        return Ok(done.stdout.text());
    }
    let said = done.stderr.text();
    let because = if done.timed_out { "it took too long" } else { said.trim() };
    Err(Error::new(ErrorKind::Io, "the source of releases does not answer")
        .with("field", "updates.source")
        .with("value", source)
        .with("because", because))
}

/// Returns the newest release among lines of `git ls-remote`. Names that are no versions, and previews, are none.
fn newest(tags: &str) -> Option<Version> {
    let names = tags.lines().filter_map(|line| line.rsplit_once("refs/tags/v"));
    let versions = names.filter_map(|(_, name)| Version::parse(name).ok());
    versions.filter(|version| version.pre.is_empty() && version.build.is_empty()).max()
}

/// The result of the latest look.
#[derive(Debug, Deserialize, Serialize)]
struct Note {
    source: String,
    checked_at: i64,
    newest: Option<Version>,
}

impl Note {
    fn path(home: &Path) -> PathBuf {
        home.join("releases.json")
    }

    fn read(home: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::path(home)).ok()?).ok()
    }

    fn write(&self, home: &Path) -> CoreResult<()> {
        replace(&Self::path(home), json!(self).to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_is_the_highest_version_that_is_no_preview() {
        let tags = "a\trefs/tags/v0.9.0\nb\trefs/tags/v0.10.0\nc\trefs/tags/v1.0.0-rc.1\nd\trefs/tags/latest\n\
                    e\trefs/tags/2.0.0\nf\trefs/tags/v3\ngarbage";
        assert_eq!(newest(tags), Some(Version::new(0, 10, 0)));
        assert_eq!(newest(""), None);
    }

    #[test]
    fn a_login_in_an_address_is_known() {
        let with = ["https://token@host/x", "https://a:b@host/x", "ssh://git:pass@host/x"];
        let without = ["https://host/x@y", "ssh://git@host/x", "git@host:x", "/srv/a@b.git", ""];
        assert!(with.iter().all(|source| names_login(source)));
        assert!(!without.iter().any(|source| names_login(source)));
    }

    #[test]
    fn cargo_gets_an_url() {
        for (source, wanted) in [
            ("https://host/x", Some("https://host/x")),
            ("git@host:o/x.git", Some("ssh://git@host/o/x.git")),
            ("/srv/x", Some("file:///srv/x")),
            ("../x", None),
            ("x", None),
        ] {
            assert_eq!(address(source).as_deref(), wanted);
        }
    }

    #[test]
    fn it_is_looked_as_often_as_the_person_wants() {
        let daily = |then| is_due(then, CheckFrequency::Daily, 10 * DAY_MILLIS);
        assert!(daily(None) && daily(Some(9 * DAY_MILLIS)) && daily(Some(11 * DAY_MILLIS)));
        assert!(!daily(Some(9 * DAY_MILLIS + 1)));
        let then = Some(9 * DAY_MILLIS);
        assert!(is_due(then, CheckFrequency::EveryLaunch, 9 * DAY_MILLIS));
        assert!(!is_due(then, CheckFrequency::Weekly, 15 * DAY_MILLIS));
    }
}
