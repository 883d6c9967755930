//! Prints help texts: as wide as the terminal, and at most 100 columns.

use crate::fit::fitted;
use crate::terminal;

/// Longest line of help, however wide the terminal is: longer ones are hard to read.
const WIDEST: usize = 100;

/// Prints a help text.
pub(crate) fn print(help: &str) {
    crate::out::Out::new(false).raw(&wrapped(help));
}

/// Breaks the lines of a help text. In a pipe, too: a terminal is likely to be at its other end.
pub(crate) fn wrapped(help: &str) -> String {
    fitted(&joined(help), terminal::columns().min(WIDEST))
}

/// Joins the lines of each paragraph: their source breaks them for its own readers.
fn joined(help: &str) -> String {
    let begins = |line: &str| line.is_empty() || line.starts_with(' ') || is_heading(line);
    let mut text = String::new();
    let mut lines = help.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let whole = line.trim_end_matches('\n');
        let next = lines.peek().map(|next| next.trim_end_matches('\n'));
        let goes_on = !whole.is_empty() && !whole.starts_with(' ') && !whole.ends_with(':');
        match next {
            Some(next) if goes_on && !begins(next) => text.push_str(&format!("{whole} ")),
            _ => text.push_str(line),
        }
    }
    text
}

/// Returns true for a line such as `Exit codes: 0 all is well`.
fn is_heading(line: &str) -> bool {
    ["Usage:", "Examples:", "Exit codes:"].iter().any(|heading| line.starts_with(heading))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn paragraphs_are_broken_once() {
        let help = "One two\nthree.\n\nExamples:\n  a b\n  c d\n\nFour\nfive\nExit codes: 0 good.\n";
        assert_eq!(
            joined(help),
            "One two three.\n\nExamples:\n  a b\n  c d\n\nFour five\nExit codes: 0 good.\n"
        );
    }

    #[test]
    fn every_help_fits_a_terminal_and_has_examples() {
        fn look(command: &mut clap::Command) {
            // It repeats the others.
            if command.get_name() == "help" {
                return;
            }
            let help = command.render_long_help().to_string();
            assert!(command.is_hide_set() || help.contains("Examples:"), "{}", command.get_name());
            let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
            for line in examples.lines().take_while(|line| !line.is_empty()) {
                let (example, note) = line.trim_start().split_once("  ").unwrap_or((line.trim_start(), ""));
                // What is wrapped breaks when it is typed as shown.
                assert!(text::width(example) <= 78, "{example}");
                // The rest of a note would look like an example.
                let column = line.len() - note.trim_start().len();
                let fits = |line: &str| text::width(line) <= 80;
                let is_note = |rest: &str| rest.find(|c| c != ' ') == Some(column);
                let shown = fitted(line, 80);
                assert!(shown.lines().all(fits) && shown.lines().skip(1).all(is_note), "{shown}");
            }
            for columns in [60, 80, 100] {
                let help = fitted(&joined(&command.render_long_help().to_string()), columns);
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
