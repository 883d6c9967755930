//! Writes ASCII alone where the locale has nothing else.

use std::borrow::Cow;
use std::sync::OnceLock;

use ratatui::buffer::{Buffer, Cell};
use unicode_width::UnicodeWidthStr as _;

/// Returns true if the locale of this program has ASCII alone.
#[must_use]
pub fn is_all() -> bool {
    static ASCII: OnceLock<bool> = OnceLock::new();
    *ASCII.get_or_init(|| wants_ascii(|name| std::env::var(name).ok()))
}

/// Returns the text as this locale can show it.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    match is_all() {
        true => Cow::Owned(text.replace('…', "...").chars().map(nearest).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Returns the end of a text that is cut to `columns`, as this locale can show it.
#[must_use]
pub fn cut_end(columns: usize) -> &'static str {
    match (columns, is_all()) {
        (0, _) => "",
        (1, true) => ".",
        (2, true) => "..",
        (_, true) => "...",
        (_, false) => "…",
    }
}

/// Replaces what is not ASCII in a picture. The columns stay.
pub(crate) fn fit(picture: &mut Buffer) {
    let width = usize::from(picture.area.width).max(1);
    picture.content.chunks_mut(width).for_each(spell_out);
    for cell in picture.content.iter_mut().filter(|cell| !cell.symbol().is_ascii()) {
        let symbol = cell.symbol();
        let near = symbol.chars().next().map_or(' ', nearest);
        let symbol: String = std::iter::repeat_n(near, symbol.width().max(1)).collect();
        cell.set_symbol(&symbol);
    }
}

/// Writes each `…` of a row as three dots: into the blanks behind it, or over the end of its word.
fn spell_out(row: &mut [Cell]) {
    let is_blank = |cell: &Cell| cell.symbol() == " ";
    for at in 0..row.len() {
        if row.get(at).is_none_or(|cell| cell.symbol() != "…") {
            continue;
        }
        // Of three blanks one stays, so that the dots do not touch what follows.
        let has_room = row.get(at + 1..at + 4).is_some_and(|behind| behind.iter().all(is_blank));
        let start = if has_room { Some(at) } else { at.checked_sub(2) };
        let Some(dots) = start.and_then(|start| row.get_mut(start..start + 3)) else { continue };
        if has_room || dots.iter().all(|cell| !is_blank(cell) && cell.symbol().width() == 1) {
            dots.iter_mut().for_each(|cell| _ = cell.set_symbol("."));
        }
    }
}

/// Returns true if the locale is named and is not one of UTF-8. Without a name most terminals show UTF-8.
fn wants_ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    let named = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(named);
    locale.is_some_and(|locale| {
        let locale = locale.to_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

/// Returns a character of ASCII for one that a terminal shows in one cell, so that columns stay.
fn nearest(c: char) -> char {
    match c {
        _ if c.is_ascii() => c,
        '✓' | '✔' => '+',
        '✗' | '×' => 'x',
        '●' | '•' | '\u{2800}'..='\u{28ff}' => '*',
        '·' | '–' | '—' | '─' | '━' => '-',
        '⚠' => '!',
        '◐' | '◑' | '◒' | '◓' | '○' => 'o',
        '│' | '┃' | '▏' => '|',
        '┏' | '┓' | '┗' | '┛' | '╭' | '╮' | '╰' | '╯' | '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴'
        | '┼' => '+',
        '→' | '▸' | '▶' | '›' | '❯' => '>',
        '←' | '◂' | '◀' | '‹' => '<',
        '↑' | '▲' | '▴' => '^',
        '↓' | '▼' | '▾' => 'v',
        '…' | '░' => '.',
        '█' | '▓' | '▒' | '▐' | '▌' => '#',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipsis_is_three_dots_in_the_same_columns() {
        let shown = |text: &str| {
            let mut picture = Buffer::with_lines([text]);
            fit(&mut picture);
            picture.content.iter().map(|cell| cell.symbol().to_owned()).collect::<String>()
        };
        assert_eq!(shown("Add a sign…│x"), "Add a si...|x");
        assert_eq!(shown("Add a sign…  x"), "Add a si...  x");
        assert_eq!(shown("Thinking…   x"), "Thinking... x");
        assert_eq!(shown("… It"), ". It");
    }

    #[test]
    fn the_first_name_of_the_locale_counts() {
        for (all, ctype, lang, ascii) in [
            ("", "", "", false),
            ("C", "", "en_US.UTF-8", true),
            ("", "POSIX", "", true),
            ("", "", "de_DE.ISO-8859-1", true),
            ("C.UTF-8", "", "C", false),
            ("", "", "en_US.utf8", false),
        ] {
            let variable = |name: &str| {
                Some(match name {
                    "LC_ALL" => all.to_owned(),
                    "LC_CTYPE" => ctype.to_owned(),
                    _ => lang.to_owned(),
                })
            };
            assert_eq!(wants_ascii(variable), ascii, "{all} {ctype} {lang}");
        }
        assert_eq!("[✓] a… → ä".chars().map(nearest).collect::<String>(), "[+] a. > ?");
    }
}
