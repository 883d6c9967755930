//! Runs the git program for things that a person would type: its version, and a picture of the history.

use std::path::Path;
use std::time::Duration;

use watchfire_core::process::{CommandSpec, RunLimits, resolve_program, run_blocking};
use watchfire_core::{Error, ErrorKind, Result};

/// Runs git in `folder` and returns its output. Of all configuration, git sees only the repository's own.
pub(crate) fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let spec = CommandSpec::new(resolve_program(Path::new("git"))?)
        .with_args(args.iter().copied())
        .with_cwd(folder)
        .with_env("PATH", path)
        // The person's aliases, signing and hooks must not change the output or the demo's commits.
        .with_env("GIT_CONFIG_GLOBAL", "/dev/null")
        .with_env("GIT_CONFIG_NOSYSTEM", "1")
        // A question for a password would never be answered.
        .with_env("GIT_TERMINAL_PROMPT", "0")
        // English, whatever the person's language.
        .with_env("LC_ALL", "C.UTF-8");
    let done = run_blocking(&spec, RunLimits::default().with_timeout(Duration::from_secs(30)))?;
    if done.success() {
        return Ok(done.stdout.text());
    }
    Err(Error::new(ErrorKind::Io, "git failed")
        .with("command", format_args!("git {}", args.join(" ")))
        .with("said", done.stderr.text().trim()))
}

/// Fails where git is not installed, without which nothing can be done in a project.
pub(crate) fn require() -> Result<()> {
    let missing = |error| {
        Error::new(ErrorKind::ProgramMissing, "Git is required. Install git and try again.")
            .with("hint", "it must be in a folder of PATH")
            .with_source(error)
    };
    resolve_program(Path::new("git")).map(drop).map_err(missing)
}

/// Returns git's version, such as `2.43.0`.
pub(crate) fn version() -> Result<String> {
    // Not in the current folder, which may be gone.
    let text = git(Path::new("/"), &["--version"])?;
    Ok(text.trim().trim_start_matches("git version ").to_owned())
}
