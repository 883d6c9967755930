//! A diff as the rows of a panel: its lines one after the other, or before and after beside each other.

use std::ops::Range;

use watchfire_client::work_proto::{DiffLine, DiffPart};

/// A line of one side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Side {
    /// Its index in the diff.
    pub line: usize,
    /// Its number in the file.
    pub number: u32,
}

/// A row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Row {
    /// A line over the whole width, by its index.
    Whole(usize),
    /// The old line and the new one, side by side.
    Sides(Option<Side>, Option<Side>),
}

impl Row {
    /// Returns the index of its first line in the diff.
    #[must_use]
    pub fn first(&self) -> usize {
        match self {
            Self::Whole(line) => *line,
            Self::Sides(old, new) => old.or(*new).map_or(0, |side| side.line),
        }
    }
}

/// Returns the rows of a diff.
#[must_use]
pub fn rows(lines: &[DiffLine], beside: bool) -> Vec<Row> {
    if !beside {
        return (0..lines.len()).map(Row::Whole).collect();
    }
    let mut rows = Vec::new();
    let mut numbers = (0, 0);
    let mut block = Block::default();
    for (line, text) in lines.iter().enumerate() {
        let part = text.part();
        if !(part == DiffPart::Added || (part == DiffPart::Deleted && block.new.is_empty())) {
            block.end(&mut rows);
        }
        match part {
            DiffPart::Deleted => block.old.push(Side { line, number: next(&mut numbers.0) }),
            DiffPart::Added => block.new.push(Side { line, number: next(&mut numbers.1) }),
            DiffPart::Unspecified => {
                let old = Side { line, number: next(&mut numbers.0) };
                rows.push(Row::Sides(Some(old), Some(Side { line, number: next(&mut numbers.1) })));
            }
            DiffPart::Hunk => {
                numbers = starts(&text.text);
                rows.push(Row::Whole(line));
            }
            DiffPart::File | DiffPart::Note => rows.push(Row::Whole(line)),
        }
    }
    block.end(&mut rows);
    rows
}

/// Lines that stand for each other: the first that was deleted beside the first that was added.
#[derive(Default)]
struct Block {
    old: Vec<Side>,
    new: Vec<Side>,
}

impl Block {
    fn end(&mut self, rows: &mut Vec<Row>) {
        let side = |sides: &[Side], at: usize| sides.get(at).copied();
        let count = self.old.len().max(self.new.len());
        rows.extend((0..count).map(|at| Row::Sides(side(&self.old, at), side(&self.new, at))));
        *self = Self::default();
    }
}

fn next(number: &mut u32) -> u32 {
    let this = *number;
    *number = this.saturating_add(1);
    this
}

/// Returns the first numbers of a hunk, `@@ -3,4 +5,6 @@`.
fn starts(hunk: &str) -> (u32, u32) {
    let number = |sign: char| {
        let rest = hunk.split(' ').find_map(|word| word.strip_prefix(sign))?;
        rest.split(',').next()?.parse().ok()
    };
    (number('-').unwrap_or(0), number('+').unwrap_or(0))
}

/// Returns the byte ranges in which two lines differ, between the beginning and the end that they share.
#[must_use]
pub fn changed(old: &str, new: &str) -> (Range<usize>, Range<usize>) {
    let shared = old.char_indices().zip(new.chars()).find(|((_, a), b)| a != b);
    let begin = shared.map_or(old.len().min(new.len()), |((at, _), _)| at);
    let (rest_old, rest_new) = (&old[begin..], &new[begin..]);
    let same = rest_old.chars().rev().zip(rest_new.chars().rev()).take_while(|(a, b)| a == b);
    let end: usize = same.map(|(a, _)| a.len_utf8()).sum();
    (begin..old.len() - end, begin..new.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[(DiffPart, &str)]) -> Vec<DiffLine> {
        texts.iter().map(|(part, text)| DiffLine { part: (*part).into(), text: (*text).to_owned() }).collect()
    }

    #[test]
    fn sides_stand_beside_each_other() {
        use DiffPart::{Added, Deleted, File, Hunk, Unspecified};
        let diff = lines(&[
            (File, "modified a"),
            (Hunk, "@@ -3,4 +5,4 @@"),
            (Unspecified, " same"),
            (Deleted, "-one"),
            (Deleted, "-two"),
            (Added, "+1"),
            (Unspecified, " same"),
            (Added, "+new"),
            (Deleted, "-after"),
        ]);
        let side = |line, number| Some(Side { line, number });
        assert_eq!(
            rows(&diff, true),
            [
                Row::Whole(0),
                Row::Whole(1),
                Row::Sides(side(2, 3), side(2, 5)),
                Row::Sides(side(3, 4), side(5, 6)),
                Row::Sides(side(4, 5), None),
                Row::Sides(side(6, 6), side(6, 7)),
                Row::Sides(None, side(7, 8)),
                Row::Sides(side(8, 7), None),
            ]
        );
        assert_eq!(rows(&diff, false).len(), diff.len());
        let firsts: Vec<_> = rows(&diff, true).iter().map(Row::first).collect();
        assert_eq!(firsts, [0, 1, 2, 3, 4, 6, 7, 8]);
    }

    #[test]
    fn what_differs_is_between_what_is_shared() {
        for (old, new, a, b) in [
            ("let x = 1;", "let y = 1;", "x", "y"),
            ("same", "same", "", ""),
            ("", "new", "", "new"),
            ("aa", "a", "a", ""),
            ("grün", "grau", "ün", "au"),
            ("é", "è", "é", "è"),
        ] {
            let (old_part, new_part) = changed(old, new);
            assert_eq!((&old[old_part], &new[new_part]), (a, b), "{old} {new}");
        }
    }
}
