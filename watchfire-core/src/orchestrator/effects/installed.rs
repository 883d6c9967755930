//! Looks for the programs of the project's own commands before any agent is paid.

use std::ffi::OsStr;
use std::process::Stdio;

use super::commands::SHELL;
use crate::model::Project;
use crate::{Error, ErrorKind, Result};

/// Checks that the program of the project's first command is on this `PATH`: the first of `setup`, or of `verify` where there is no
/// `setup`. The first command may install the programs of those that follow, and a command that begins with a path or an expansion is known only when it runs; so is
/// anything on a `PATH` that depends on the folder. Blocks.
///
/// # Errors
/// `program_missing`, with the program and the key of `project.yaml`.
pub fn check_commands(project: &Project, path: Option<&OsStr>) -> Result<()> {
    let commands = [("setup", &project.setup), ("verify", &project.verify)];
    let first = commands.into_iter().find_map(|(field, lines)| Some((field, lines.first()?)));
    let Some((field, program)) = first.and_then(|(field, line)| Some((field, first_word(line)?))) else {
        return Ok(());
    };
    let is_fixed = path.is_none_or(|path| std::env::split_paths(path).all(|folder| folder.is_absolute()));
    if !is_fixed || is_known(program, path)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::ProgramMissing, "a command of the project is not installed")
        .with("program", program)
        .with("file", "project.yaml")
        .with("field", field)
        .with("hint", "install it, or change the command: no work could be merged with it"))
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
        let on = |path: &str, setup: &[&str], verify: &[&str]| {
            let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
            let mut project = Project::new(ProjectId::random(), "p");
            (project.setup, project.verify) = (owned(setup), owned(verify));
            check_commands(&project, Some(OsStr::new(path))).map_err(|error| {
                (error.detail("program").unwrap().to_owned(), error.detail("field").unwrap().to_owned())
            })
        };
        let check = |setup: &[&str], verify: &[&str]| on("/usr/bin:/bin", setup, verify);
        let missing = |field: &str| Err(("no-such-program".to_owned(), field.to_owned()));
        assert_eq!(check(&[], &["no-such-program --all", "true"]), missing("verify"));
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
        for line in fine {
            assert_eq!(check(&[], &[line]), Ok(()), "{line}");
        }
        for (setup, verify) in [
            (&["echo", "no-such-program"][..], &["no-such-program"][..]),
            (&[], &["true", "no-such-program"]),
        ] {
            assert_eq!(check(setup, verify), Ok(()), "the one before may install it");
        }
        assert_eq!(
            on("node_modules/.bin:/usr/bin:/bin", &[], &["no-such-program"]),
            Ok(()),
            "it may be there"
        );
    }
}
