//! Makes text safe to print, and fits it into columns.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
use watchfire_core::model::Timestamp;
use watchfire_tui::ascii;

/// Returns `text` on one line, without anything that could move the cursor, paint, or turn the reading direction.
pub(crate) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_direction(*c)) {
        // A blank, so that words at both sides stay apart.
        safe.push(if c.is_control() { ' ' } else { c });
    }
    safe.truncate(safe.trim_end().len());
    safe
}

/// Returns several lines, each made safe.
pub(crate) fn lines(text: &str) -> String {
    // Whole escape sequences are removed first; `line` alone would leave their letters.
    watchfire_term::plain::strip(text.as_bytes()).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns true for overrides and isolates of the reading direction, with which a text can pretend to be another.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Returns the number of columns that a text takes, as this locale can show it.
pub(crate) fn width(text: &str) -> usize {
    ascii::shown(text).width()
}

/// Returns the beginning of `text` that fits into `columns`, with `…` if something is missing, or `...` in a locale of ASCII.
pub(crate) fn clip(text: &str, columns: usize) -> String {
    clip_with(&ascii::shown(text), columns, ascii::cut_end(columns))
}

fn clip_with(text: &str, columns: usize, end: &str) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut clipped = String::new();
    let mut used = end.width();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        clipped.push(c);
    }
    clipped + end
}

/// Returns `text` broken between words into lines of at most `columns`, if no word is longer than that. All lines but
/// the first begin with `indent`.
pub(crate) fn wrap(text: &str, columns: usize, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let width = painted_width(word);
        if used > 0 && used + width - (word.len() - word.trim_end().len()) > columns {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.push_str(indent);
            used = indent.width();
        }
        wrapped.push_str(word);
        used += width;
    }
    wrapped
}

/// Returns the number of columns that a text takes, whose colours take none.
pub(crate) fn painted_width(text: &str) -> usize {
    if !text.contains('\x1b') {
        return width(text);
    }
    // Stripping ends at the last blank, which counts.
    let blanks = text.len() - text.trim_end_matches(' ').len();
    width(watchfire_term::plain::strip(text.as_bytes()).trim_end_matches(' ')) + blanks
}

/// Returns `text` filled up with blanks to `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns a time as people write it: `0.4s`, `12s`, `3m 05s`, `2h 07m`.
pub(crate) fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 => format!("{:.1}s", time.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns a number with its noun: `1 task`, `2 tasks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a size, rounded up: `12 bytes`, `3 KiB`, `4 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1024 => count(usize::try_from(number).unwrap_or_default(), "byte"),
        1024..0x10_0000 => format!("{} KiB", number.div_ceil(1024)),
        _ => format!("{} MiB", number.div_ceil(0x10_0000)),
    }
}

/// Returns a time for a list, to the minute, in the time zone of this machine.
pub(crate) fn minute(at: &Timestamp) -> String {
    at.local().chars().take("2026-02-03 16:00".len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_title_reaches_the_terminal_as_a_command() {
        assert_eq!(line("a\x1b[2Jb\nc\u{202e}d\u{9b}1m "), "a [2Jb cd 1m");
        assert_eq!(lines("\x1b[31mred\x1b[0m\r\nb"), "red\nb");
    }

    #[test]
    fn clipping_counts_columns() {
        let clip = |text, columns| clip_with(text, columns, if columns > 0 { "…" } else { "" });
        assert_eq!(clip_with("hello you", 8, "..."), "hello...");
        assert_eq!(clip_with("hello", 2, ".."), "..");
        assert_eq!(clip("hello", 5), "hello");
        assert_eq!(clip("hello", 4), "hel…");
        assert_eq!(clip("漢字漢字", 5), "漢字…");
        assert_eq!(clip("漢字漢字", 4), "漢…");
        assert_eq!(clip("x", 0), "");
        assert_eq!(pad("漢", 4), "漢  ");
    }

    #[test]
    fn wrapping_breaks_between_words() {
        assert_eq!(wrap("one two three", 20, "  "), "one two three");
        assert_eq!(wrap("  - one two three", 9, "    "), "  - one\n    two\n    three");
        assert_eq!(wrap("incompressible words", 5, ""), "incompressible\nwords");
    }

    #[test]
    fn times() {
        let at = |millis| elapsed(Duration::from_millis(millis));
        assert_eq!([at(400), at(12_900), at(185_000), at(7_620_000)], ["0.4s", "12s", "3m 05s", "2h 07m"]);
    }
}
