//! Looks for the programs of the project's own commands before any agent is paid.

use std::ffi::OsStr;
use std::process::Stdio;

use super::commands::SHELL;
use crate::model::Project;
use crate::{Error, ErrorKind, Result};

/// Checks that the programs of the commands `setup` and `verify` are on this `PATH`, as far as that can be known before they
/// run: a command that begins with a path or an expansion is not looked at, and behind a command of `setup` nothing is, because
/// it may install what follows. Blocks.
///
/// # Errors
/// `program_missing`, with the program and the key of `project.yaml`.
pub fn check_commands(project: &Project, path: Option<&OsStr>) -> Result<()> {
    let (field, lines) = match project.setup.split_first() {
        Some((first, _)) => ("setup", std::slice::from_ref(first)),
        None => ("verify", &*project.verify),
    };
    for program in lines.iter().filter_map(|line| first_word(line)) {
        if !is_known(program, path)? {
            return Err(Error::new(ErrorKind::ProgramMissing, "a command of the project is not installed")
                .with("program", program)
                .with("file", "project.yaml")
                .with("field", field)
                .with("hint", "install it, or change the command: no work could be merged with it"));
        }
    }
    Ok(())
}

/// Returns the first word of a command line, if it can only be the name of a program, a builtin or a keyword.
fn first_word(line: &str) -> Option<&str> {
    let word = line.split_whitespace().next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    word.chars().all(is_plain).then_some(word)
}

/// Asks the shell that runs the commands. It starts nothing.
fn is_known(program: &str, path: Option<&OsStr>) -> Result<bool> {
    let mut asking = std::process::Command::new(SHELL);
    asking.args(["-c", "command -v -- \"$1\"", "sh", program]).env_clear();
    asking.envs(path.map(|path| ("PATH", path)));
    asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = asking.status().map_err(|error| Error::io("asking the shell for a program", error))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProjectId;

    #[test]
    fn a_program_that_is_not_there_is_known_before_it_runs() {
        let check = |setup: &[&str], verify: &[&str]| {
            let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
            let mut project = Project::new(ProjectId::random(), "p");
            (project.setup, project.verify) = (owned(setup), owned(verify));
            check_commands(&project, Some(OsStr::new("/usr/bin:/bin"))).map_err(|error| {
                (error.detail("program").unwrap().to_owned(), error.detail("field").unwrap().to_owned())
            })
        };
        let missing = |field: &str| Err(("no-such-program".to_owned(), field.to_owned()));
        assert_eq!(check(&[], &["true", "no-such-program --all"]), missing("verify"));
        assert_eq!(check(&["no-such-program"], &[]), missing("setup"));
        // Builtins, keywords, and what only the shell can tell.
        let fine = [
            "cd x && y",
            "if true; then x; fi",
            "! x",
            "./made-later",
            "A=1 x",
            "$X",
            "\"x\"",
            "",
            "test -e x",
        ];
        assert_eq!(check(&[], &fine), Ok(()));
        assert_eq!(
            check(&["echo", "no-such-program"], &["no-such-program"]),
            Ok(()),
            "the setup may install it"
        );
    }
}
