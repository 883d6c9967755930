//! Wraps help texts: at the width of the terminal, and at most at 100 columns.

use std::io::{IsTerminal as _, stdout};

use crate::{terminal, text};

/// Longest line of help, however wide the terminal is: longer ones are hard to read.
const WIDEST: usize = 100;

/// Prints a help text.
pub(crate) fn print(help: &str) {
    let columns = if stdout().is_terminal() { usize::from(terminal::size().cols()) } else { WIDEST };
    crate::out::Out::new(false).raw(&wrapped(help, columns.min(WIDEST)));
}

fn wrapped(help: &str, columns: usize) -> String {
    help.lines().map(|line| one(line, columns) + "\n").collect()
}

fn one(line: &str, columns: usize) -> String {
    let words = line.trim_start();
    let start = line.len() - words.len();
    // A description stands in a column of its own, behind the name that it describes.
    let column = words.find("  ").map(|end| {
        let gap = words[end..].len() - words[end..].trim_start().len();
        start + text::width(&words[..end]) + gap
    });
    // On a narrow terminal the rest of a line begins further left, or it would have no room.
    let indent = column.filter(|column| column * 2 <= columns).unwrap_or(start + 2);
    text::wrap(line, columns, &" ".repeat(if column.is_none() { start } else { indent }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_stay_in_their_column() {
        let help = "Usage: x\n\n  -a, --all  One two three four\n\nOne two three four five six\n";
        let narrow =
            "Usage: x\n\n  -a, --all  One two three\n             four\n\nOne two three four five\nsix\n";
        assert_eq!(wrapped(help, 26), narrow);
        assert_eq!(wrapped(help, 100), help);
    }

    #[test]
    fn every_help_fits_a_terminal() {
        fn look(command: &mut clap::Command) {
            for columns in [60, 80, 100] {
                let help = wrapped(&command.render_long_help().to_string(), columns);
                let too_long: Vec<_> = help.lines().filter(|line| text::width(line) > columns).collect();
                // A command to copy is one word to us where it is quoted.
                assert!(too_long.iter().all(|line| line.trim().split(' ').count() < 4), "{too_long:#?}");
            }
            command.get_subcommands_mut().for_each(look);
        }
        use clap::CommandFactory as _;
        let mut all = crate::args::Cli::command();
        all.build();
        look(&mut all);
    }
}
