//! Prints help texts: as wide as the terminal, and at most 100 columns.

use std::io::{IsTerminal as _, stdout};

use crate::fit::fitted;
use crate::terminal;

/// Longest line of help, however wide the terminal is: longer ones are hard to read.
const WIDEST: usize = 100;

/// Prints a help text.
pub(crate) fn print(help: &str) {
    crate::out::Out::new(false).raw(&wrapped(help, stdout().is_terminal()));
}

/// Breaks the lines of a help text.
pub(crate) fn wrapped(help: &str, on_terminal: bool) -> String {
    let columns = if on_terminal { usize::from(terminal::size().cols()) } else { WIDEST };
    fitted(help, columns.min(WIDEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn every_help_fits_a_terminal() {
        fn look(command: &mut clap::Command) {
            for columns in [60, 80, 100] {
                let help = fitted(&command.render_long_help().to_string(), columns);
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
