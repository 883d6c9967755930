//! Rows as lines of styled runs.

use std::sync::Arc;

use watchfire_core::terminal::{Hyperlink, Line, Run, RunKind};

use crate::cells::cell::Cell;
use crate::cells::clusters::Clusters;
use crate::cells::link::Links;
use crate::cells::style::Styles;

/// The tables that resolve the numbers of styles and links.
#[derive(Clone, Copy)]
pub(crate) struct Looks<'a> {
    pub(crate) styles: &'a Styles,
    pub(crate) links: &'a Links,
}

/// Makes a line of cells.
pub(crate) fn line(
    cells: &[Cell],
    wrapped: bool,
    cols: usize,
    looks: Looks<'_>,
    clusters: &Clusters,
) -> Line {
    let mut cells = cells.get(..cols).unwrap_or(cells);
    if wrapped {
        // Blanks before the end are in the middle of the text.
        cells = without_filler(cells);
    }
    while let [rest @ .., last] = cells
        && !wrapped
        && last.is_blank()
    {
        cells = rest;
    }
    // Most rows of most programs.
    if cells.iter().all(|cell| cell.is_simple()) {
        return simple_line(cells, wrapped);
    }
    let mut text = String::with_capacity(cells.len() + 16);
    let mut runs: Vec<Run> = Vec::with_capacity(8);
    let (mut links, mut link) = (Vec::new(), 0);
    let mut style = (0, looks.styles.look(0).style());
    for (index, cell) in cells.iter().enumerate() {
        // A half at the very start has lost its left one, and is shown as what it is: a blank.
        if cell.has(Cell::SPACER) && index > 0 {
            continue;
        }
        if cell.style() != style.0 {
            let look = looks.styles.look(cell.style());
            style = (cell.style(), look.style());
            link = looks.links.get(look.link()).map_or(0, |link| number(link, &mut links));
        }
        let before = text.len();
        // A row that was cut to a narrower screen may end in the left half of a character.
        let whole = !cell.has(Cell::WIDE) || cells.get(index + 1).is_some_and(|next| next.has(Cell::SPACER));
        let (kind, columns) = match (cell.has(Cell::CLUSTER), cell.has(Cell::WIDE)) {
            (true, wide) => (RunKind::Cluster, 1 + u16::from(wide && whole)),
            (false, true) if whole => (RunKind::Wide, 2),
            _ => (RunKind::Narrow, 1),
        };
        if whole {
            clusters.write(*cell, &mut text);
        } else {
            text.push(' ');
        }
        let bytes = (text.len() - before) as u32;
        match runs.last_mut() {
            Some(run)
                if (run.kind, run.style, run.link) == (kind, style.1, link) && kind != RunKind::Cluster =>
            {
                run.bytes += bytes;
                run.columns += columns;
            }
            _ => runs.push(Run { style: style.1, bytes, columns, link, kind }),
        }
    }
    Line::new(text, runs, wrapped).with_links(links)
}

/// Returns the number of a link among the links of a line, counted from 1.
fn number(link: &Arc<Hyperlink>, links: &mut Vec<Arc<Hyperlink>>) -> u16 {
    // One that comes twice, far apart, may have two numbers.
    // Bounded, because a line of nothing but links would compare each with all others.
    let recent = links.len().saturating_sub(16);
    let known = links.iter().skip(recent).position(|known| Arc::ptr_eq(known, link));
    let index = known.map_or(links.len(), |index| recent + index);
    if known.is_none() {
        links.push(Arc::clone(link));
    }
    (index + 1) as u16
}

/// Cuts the cells at the end that look like spaces.
pub(crate) fn without_end(cells: &[Cell]) -> &[Cell] {
    let spaces = |cells: &[Cell]| cells.iter().fold(Cell::BLANK, |all, cell| all.union(*cell)).is_space();
    let whole = cells.rchunks(16).take_while(|cells| spaces(cells)).map(<[Cell]>::len).sum::<usize>();
    let mut cells = cells.get(..cells.len() - whole).unwrap_or(cells);
    while let [rest @ .., last] = cells
        && last.is_space()
    {
        cells = rest;
    }
    cells
}

/// Cuts the cell at the end that a wide character did not fit into.
pub(crate) fn without_filler(cells: &[Cell]) -> &[Cell] {
    match cells {
        [rest @ .., last] if last.has(Cell::FILLER) => rest,
        _ => cells,
    }
}

/// Appends the text of cells.
pub(crate) fn row_text(cells: &[Cell], clusters: &Clusters, text: &mut String) {
    // The bits of many cells together say whether any of them needs a closer look, which hardly any does.
    for cells in cells.chunks(32) {
        let all = cells.iter().fold(Cell::BLANK, |all, cell| all.union(*cell));
        if !all.has(Cell::CLUSTER | Cell::SPACER) && all.content() < 0x80 {
            text.extend(cells.iter().map(|cell| match cell.content() as u8 {
                0 => ' ',
                byte => char::from(byte),
            }));
            continue;
        }
        if !all.has(Cell::CLUSTER | Cell::SPACER) {
            text.extend(cells.iter().map(|cell| match cell.content() {
                0 => ' ',
                code => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
            }));
            continue;
        }
        for cell in cells.iter().filter(|cell| !cell.has(Cell::SPACER)) {
            clusters.write(*cell, text);
        }
    }
}

/// Makes a line of ASCII in the default style.
fn simple_line(cells: &[Cell], wrapped: bool) -> Line {
    let text: String = cells
        .iter()
        .map(|cell| match cell.content() as u8 {
            0 => ' ',
            byte => char::from(byte),
        })
        .collect();
    let run = Run {
        style: watchfire_core::terminal::Style::default(),
        bytes: cells.len() as u32,
        columns: cells.len() as u16,
        link: 0,
        kind: RunKind::Narrow,
    };
    Line::new(text, if cells.is_empty() { Vec::new() } else { vec![run] }, wrapped)
}

/// Lines that were made before, by the storage of their row.
#[derive(Debug, Default)]
pub(crate) struct LineCache(Vec<Option<(u64, Arc<Line>)>>);

impl LineCache {
    /// Returns the line kept for a row if nothing changed since, and makes a new one otherwise.
    pub(crate) fn line(&mut self, storage: usize, changed_at: u64, make: impl FnOnce() -> Line) -> Arc<Line> {
        if self.0.len() <= storage {
            self.0.resize(storage + 1, None);
        }
        // Rows are known by their storage, which scrolls with them. A line that moved is the same allocation as
        // before, by which diffs find it.
        match self.0.get_mut(storage) {
            Some(Some((at, line))) if *at == changed_at => Arc::clone(line),
            Some(slot) => Arc::clone(&slot.insert((changed_at, Arc::new(make()))).1),
            None => Arc::new(make()),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn memory(&self) -> usize {
        let lines = self.0.iter().flatten();
        lines
            .map(|(_, line)| size_of::<Line>() + line.text().len() + line.runs().count() * size_of::<Run>())
            .sum()
    }
}
