//! Lines: their runs, and their text beside them.

use std::sync::Arc;

use watchfire_core::Result;
use watchfire_core::terminal::{Hyperlink, Line, LineSize, Run, RunKind};

use super::read::Reader;
use super::style::{Numbers, Tables};
use super::text;
use super::write::Writer;

/// Head of a line: wrapped, size, whether links follow, number of runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) wrapped: bool,
    pub(super) size: LineSize,
    pub(super) links: bool,
    pub(super) runs: usize,
}

impl Head {
    pub(super) fn write(self, out: &mut Writer) {
        let size = match self.size {
            LineSize::Single => 0,
            LineSize::DoubleWidth => 1,
            LineSize::DoubleTop => 2,
            LineSize::DoubleBottom => 3,
        };
        out.count(self.runs << 4 | usize::from(self.links) << 3 | size << 1 | usize::from(self.wrapped));
    }

    pub(super) fn read(bytes: &mut Reader<'_>) -> Result<Self> {
        let head = bytes.fit::<usize>()?;
        let size = match head >> 1 & 3 {
            0 => LineSize::Single,
            1 => LineSize::DoubleWidth,
            2 => LineSize::DoubleTop,
            _ => LineSize::DoubleBottom,
        };
        Ok(Self { wrapped: head & 1 != 0, size, links: head & 8 != 0, runs: head >> 4 })
    }
}

pub(super) fn write(line: &Line, numbers: &Numbers<'_>, out: &mut Writer) {
    let links = line.links();
    let head = Head {
        wrapped: line.is_wrapped(),
        size: line.size(),
        links: !links.is_empty(),
        runs: line.runs().count(),
    };
    head.write(out);
    if head.links {
        write_links(links, numbers, out);
    }
    line.runs().for_each(|(run, _)| write_run(run, numbers, out));
    text::write(line.text(), out);
}

pub(super) fn read(tables: &Tables, bytes: &mut Reader<'_>) -> Result<Arc<Line>> {
    let head = Head::read(bytes)?;
    let links = if head.links { read_links(tables, bytes)? } else { Vec::new() };
    // Not reserved: the number is the sender's claim, while each run that is read has come with bytes.
    let mut runs = Vec::new();
    for _ in 0..head.runs {
        runs.push(read_run(tables, bytes)?);
    }
    let mut line = String::new();
    text::read(length(&runs, bytes)?, bytes, &mut line)?;
    finish(head, line, runs, links, bytes)
}

/// Makes a line of its parts, which have to fit together.
pub(super) fn finish(
    head: Head,
    text: String,
    runs: Vec<Run>,
    links: Vec<Arc<Hyperlink>>,
    bytes: &Reader<'_>,
) -> Result<Arc<Line>> {
    // `Line::new` drops what does not fit. A message that makes it do so is wrong.
    let (len, count) = (text.len(), runs.len());
    let line = Line::new(text, runs, head.wrapped).with_links(links).with_size(head.size);
    if line.text().len() != len || line.runs().count() != count {
        return Err(bytes.error("the runs of a line do not divide its text"));
    }
    Ok(Arc::new(line))
}

/// Returns the length of the text that runs divide.
pub(super) fn length(runs: &[Run], bytes: &Reader<'_>) -> Result<usize> {
    let sum = runs.iter().try_fold(0_u32, |sum, run| sum.checked_add(run.bytes));
    sum.map(|sum| sum as usize).ok_or_else(|| bytes.error("a line is too long"))
}

pub(super) fn write_links(links: &[Arc<Hyperlink>], numbers: &Numbers<'_>, out: &mut Writer) {
    out.count(links.len());
    links.iter().for_each(|link| out.number(numbers.link(link)));
}

pub(super) fn read_links(tables: &Tables, bytes: &mut Reader<'_>) -> Result<Vec<Arc<Hyperlink>>> {
    (0..bytes.count()?).map(|_| tables.link(bytes)).collect()
}

/// Returns the bytes of most runs of a kind and width: ASCII, and three bytes for each wide character.
fn usual_bytes(kind: RunKind, columns: u16) -> u32 {
    // A good guess saves a byte in most runs, and a wrong one costs nothing but that byte.
    match kind {
        RunKind::Narrow => columns.into(),
        RunKind::Wide | RunKind::Cluster => u32::from(columns) / 2 * 3,
    }
}

pub(super) fn write_run(run: &Run, numbers: &Numbers<'_>, out: &mut Writer) {
    let kind = match run.kind {
        RunKind::Narrow => 0,
        RunKind::Wide => 1,
        RunKind::Cluster => 2,
    };
    let unusual = run.bytes != usual_bytes(run.kind, run.columns);
    let link = run.link != 0;
    out.number(numbers.style(run.style) << 4 | u64::from(unusual) << 3 | u64::from(link) << 2 | kind);
    out.number(run.columns.into());
    if unusual {
        out.number(run.bytes.into());
    }
    if link {
        out.number(run.link.into());
    }
}

pub(super) fn read_run(tables: &Tables, bytes: &mut Reader<'_>) -> Result<Run> {
    let head = bytes.number()?;
    let kind = match head & 3 {
        0 => RunKind::Narrow,
        1 => RunKind::Wide,
        2 => RunKind::Cluster,
        _ => return Err(bytes.error("a kind of run that is not known")),
    };
    let style = tables.style(head >> 4, bytes)?;
    let columns = bytes.fit()?;
    let length = if head & 8 != 0 { bytes.fit()? } else { usual_bytes(kind, columns) };
    let link = if head & 4 != 0 { bytes.fit()? } else { 0 };
    Ok(Run { style, bytes: length, columns, link, kind })
}
