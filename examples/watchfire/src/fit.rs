//! Breaks lines at words, where a terminal would break them anywhere.

use crate::text;

/// Breaks the lines that are longer than `columns`.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    // Not `lines`: a last line without an end stays without.
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(whole) => one(whole, columns) + "\n",
            None => one(line, columns),
        })
        .collect()
}

fn one(line: &str, columns: usize) -> String {
    if text::painted_width(line) <= columns {
        return line.to_owned();
    }
    let words = line.trim_start();
    let start = line.len() - words.len();
    // A description stands in a column of its own, behind the name that it describes.
    let column = words.find("  ").map(|end| {
        let gap = words[end..].len() - words[end..].trim_start().len();
        start + text::painted_width(&words[..end]) + gap
    });
    // On a narrow terminal the rest of a line begins further left, or it would have no room.
    let has_room = |column: &usize| column * 2 <= columns || column + 20 <= columns;
    let indent = column.filter(has_room).unwrap_or(start + 2);
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
        assert_eq!(fitted(help, 26), narrow);
        assert_eq!(fitted(help, 100), help);
    }

    #[test]
    fn colours_take_no_room() {
        let red = "  \x1b[31m✗\x1b[0m verify  the tests fail";
        assert_eq!(fitted(red, 26), red);
        assert_eq!(fitted(red, 24), "  \x1b[31m✗\x1b[0m verify  the tests\n            fail");
    }
}
