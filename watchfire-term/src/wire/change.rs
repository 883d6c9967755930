//! A row that changed, as a splice of the runs and the text of the row that it was.

use std::sync::Arc;

use watchfire_core::Result;
use watchfire_core::terminal::{Line, Run};

use super::line::{self, Head};
use super::read::Reader;
use super::style::{Numbers, Tables};
use super::text;
use super::write::Writer;

/// Difference of a row from another: the parts that stay, and the new ones between them.
#[derive(Debug)]
pub(super) struct Splice<'a> {
    new: &'a Line,
    /// Runs that stay at the start and at the end.
    runs: (usize, usize),
    /// Bytes of text that stay at the start and at the end.
    text: (usize, usize),
    /// True if the links are others.
    pub(super) links: bool,
}

impl<'a> Splice<'a> {
    pub(super) fn new(old: &Line, new: &'a Line) -> Self {
        let runs = |line: &Line| line.runs().map(|(run, _)| *run).collect::<Vec<_>>();
        let (before, after) = (old.text().as_bytes(), new.text().as_bytes());
        let mut text = common(before, after);
        // Characters stay whole. Equal bytes begin equal characters, so this holds for both texts.
        // Two characters may begin with the same bytes.
        while !new.text().is_char_boundary(text.0) {
            text.0 -= 1;
        }
        while !new.text().is_char_boundary(after.len() - text.1) {
            text.1 -= 1;
        }
        let links = old.links() != new.links();
        Self { new, runs: common(&runs(old), &runs(new)), text, links }
    }

    /// Yields the runs that are new.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        let count = self.new.runs().count() - self.runs.0 - self.runs.1;
        self.new.runs().map(|(run, _)| run).skip(self.runs.0).take(count)
    }

    /// Yields the links, if they are others.
    pub(super) fn links(&self) -> &'a [Arc<watchfire_core::terminal::Hyperlink>] {
        if self.links { self.new.links() } else { &[] }
    }

    pub(super) fn write(&self, numbers: &Numbers<'_>, out: &mut Writer) {
        let head = Head {
            wrapped: self.new.is_wrapped(),
            size: self.new.size(),
            links: self.links,
            runs: self.runs().count(),
        };
        head.write(out);
        out.count(self.runs.0);
        out.count(self.runs.1);
        if self.links {
            line::write_links(self.new.links(), numbers, out);
        }
        self.runs().for_each(|run| line::write_run(run, numbers, out));
        out.count(self.text.0);
        out.count(self.text.1);
        let end = self.new.text().len() - self.text.1;
        text::write(self.new.text().get(self.text.0..end).unwrap_or(""), out);
    }
}

/// Returns how many items two lists have in common at the start and, of the rest, at the end.
fn common<T: PartialEq>(a: &[T], b: &[T]) -> (usize, usize) {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - start;
    let end = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    (start, end)
}

/// Reads a row that was `old`.
pub(super) fn read(old: &Line, tables: &Tables, bytes: &mut Reader<'_>) -> Result<Arc<Line>> {
    let head = Head::read(bytes)?;
    let kept = (bytes.fit::<usize>()?, bytes.fit::<usize>()?);
    let links = if head.links { line::read_links(tables, bytes)? } else { old.links().to_vec() };
    let before: Vec<_> = old.runs().map(|(run, _)| *run).collect();
    let outside = |bytes: &Reader<'_>| bytes.error("a row keeps more than there was");
    let rest = before.len().checked_sub(kept.1);
    let rest = rest.filter(|rest| kept.0 <= *rest).ok_or_else(|| outside(bytes))?;
    let mut runs: Vec<_> = before.get(..kept.0).unwrap_or(&[]).to_vec();
    for _ in 0..head.runs {
        runs.push(line::read_run(tables, bytes)?);
    }
    runs.extend_from_slice(before.get(rest..).unwrap_or(&[]));

    let kept = (bytes.fit::<usize>()?, bytes.fit::<usize>()?);
    let rest = old.text().len().checked_sub(kept.1).filter(|rest| kept.0 <= *rest);
    let start = old.text().get(..kept.0);
    let end = rest.and_then(|rest| old.text().get(rest..));
    let (Some(start), Some(end)) = (start, end) else { return Err(outside(bytes)) };
    let length = line::length(&runs, bytes)?;
    // The runs say how long the text is. What is kept at both ends must fit into it.
    let middle = length.checked_sub(end.len()).filter(|middle| *middle >= start.len());
    let middle = middle.ok_or_else(|| bytes.error("the runs of a line do not divide its text"))?;
    let mut line = start.to_owned();
    text::read(middle, bytes, &mut line)?;
    line.push_str(end);
    line::finish(head, line, runs, links, bytes)
}
