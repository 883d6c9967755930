//! Operations on rectangles of cells.

use std::ops::Range;

use watchfire_core::terminal::Attributes;

use crate::cell::{Cell, Pen};
use crate::parser::Params;
use crate::state::State;
use crate::style::Look;

/// Rows and columns, the ends outside.
#[derive(Clone, Debug)]
struct Area {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl State {
    /// Four parameters from `first` on: top, left, bottom, right, from 1, relative to the margins in origin mode.
    fn area(&self, params: &Params, first: usize) -> Option<Area> {
        use crate::modes::Mode;
        let (top, left, bottom, right) = if self.on(Mode::Origin) {
            (self.margins.top, self.margins.left, self.margins.bottom, self.margins.right)
        } else {
            (0, 0, self.rows(), self.cols())
        };
        let value = |offset, default: usize| match params.value(first + offset) {
            0 => default,
            value => usize::from(value),
        };
        let rows = top + value(0, 1) - 1..(top + value(2, bottom - top)).min(bottom);
        let columns = left + value(1, 1) - 1..(left + value(3, right - left)).min(right);
        (!rows.is_empty() && !columns.is_empty()).then_some(Area { rows, columns })
    }

    /// DECCRA.
    pub(crate) fn copy_area(&mut self, params: &Params) {
        use crate::modes::Mode;
        let Some(area) = self.area(params, 0) else { return };
        let at = |index| usize::from(params.value_or(index, 1)) - 1;
        let (mut row, mut col) = (at(5), at(6));
        let (mut bottom, mut right) = (self.rows(), self.cols());
        if self.on(Mode::Origin) {
            (row, col) = (row + self.margins.top, col + self.margins.left);
            (bottom, right) = (self.margins.bottom, self.margins.right);
        }
        self.changed = true;
        let width = area.columns.len().min(right.saturating_sub(col));
        let columns = area.columns.start..area.columns.start + width;
        let mut pairs: Vec<_> = area.rows.clone().zip(row..bottom).collect();
        if row > area.rows.start {
            pairs.reverse();
        }
        for (from, to) in pairs {
            self.grid.copy(from, columns.clone(), to, col, self.stamp);
        }
    }

    /// DECFRA.
    pub(crate) fn fill_area(&mut self, params: &Params) {
        let code = params.value(0);
        if !matches!(code, 32..=126 | 160..=255) {
            return;
        }
        let Some(area) = self.area(params, 1) else { return };
        let c = char::from(code as u8);
        let c = self.charsets.map(c);
        let cell = Cell::new(u32::from(c), self.pen());
        self.fill(area, cell);
    }

    /// DECERA.
    pub(crate) fn erase_area(&mut self, params: &Params) {
        if let Some(area) = self.area(params, 0) {
            for row in area.rows {
                self.erase_cells(row, area.columns.clone(), false);
            }
        }
    }

    /// DECSERA.
    pub(crate) fn erase_area_selectively(&mut self, params: &Params) {
        if let Some(area) = self.area(params, 0) {
            for row in area.rows {
                self.erase_cells(row, area.columns.clone(), true);
            }
        }
    }

    fn fill(&mut self, area: Area, cell: Cell) {
        self.changed = true;
        for row in area.rows {
            self.grid.fill(row, area.columns.clone(), cell, self.stamp);
        }
    }

    /// DECCARA and DECRARA: sets or turns over attributes in a rectangle or a stream of cells.
    pub(crate) fn change_area(&mut self, params: &Params, reverse: bool) {
        let Some(area) = self.area(params, 0) else { return };
        self.changed = true;
        let codes = params.values().get(4..).filter(|codes| !codes.is_empty()).unwrap_or(&[0]).to_vec();
        let last = area.rows.end - 1;
        for row in area.rows.clone() {
            let columns = if self.rectangle_extent {
                area.columns.clone()
            } else {
                let start = if row == area.rows.start { area.columns.start } else { 0 };
                start..if row == last { area.columns.end } else { self.cols() }
            };
            let (stamp, columns) = (self.stamp, columns.start..columns.end.min(self.cols()));
            let styles = &mut self.styles;
            let mut known = (u32::MAX, 0);
            let mut lead = None;
            // The right half of a wide character looks like the left, also beyond the edges.
            for (index, cell) in
                self.grid.cells_mut(row, columns.start..columns.end + 1, stamp).iter_mut().enumerate()
            {
                let outside = index >= columns.len();
                if cell.has(Cell::SPACER) {
                    *cell = lead.map_or(*cell, |style| cell.with_style(style));
                    continue;
                }
                if outside {
                    break;
                }
                if cell.style() != known.0 {
                    let look = codes
                        .iter()
                        .fold(styles.look(cell.style()), |look, code| change(look, *code, reverse));
                    known = (cell.style(), styles.number(look));
                }
                if cell.is_empty() && known.1 != cell.style() {
                    *cell = cell.emptied();
                }
                *cell = cell.with_style(known.1);
                lead = Some(known.1);
            }
            if let Some(slot) = self.grid.slot_mut(row) {
                slot.flags |= crate::grid::Slot::RICH;
            }
        }
    }

    /// DECRQCRA: a sum over the characters and, unless turned off, their attributes.
    pub(crate) fn checksum(&mut self, params: &Params) {
        let id = params.value(0);
        let mut sum: u16 = 0;
        if let Some(area) = self.area(params, 2) {
            for row in area.rows {
                let columns = area.columns.start..area.columns.end;
                sum = columns.fold(sum, |sum, col| sum.wrapping_add(self.cell_sum(self.grid.cell(row, col))));
            }
        }
        if self.checksum_flags & 1 == 0 {
            sum = sum.wrapping_neg();
        }
        self.reply_dcs(&format!("{id}!~{sum:04X}"));
    }

    fn cell_sum(&self, cell: Cell) -> u16 {
        let mut sum = if cell.has(Cell::CLUSTER) {
            let text = self.clusters.text(cell.content());
            text.chars().fold(0_u16, |sum, c| sum.wrapping_add(u32::from(c) as u16))
        } else {
            // What was never written counts as a space.
            (cell.content() as u16).max(u16::from(b' '))
        };
        if self.checksum_flags & 2 == 0 {
            let look = self.styles.look(cell.style());
            let attributes = look.attributes();
            for (set, value) in [
                (cell.has(Cell::PROTECTED), 0x04),
                (attributes.contains(Attributes::CONCEAL), 0x08),
                (look.bits >> 8 != 0, 0x10),
                (attributes.contains(Attributes::INVERSE), 0x20),
                (attributes.contains(Attributes::BLINK), 0x40),
                (attributes.contains(Attributes::BOLD), 0x80),
            ] {
                sum = sum.wrapping_add(if set { value } else { 0 });
            }
        }
        sum
    }

    /// DECALN: a screen of E.
    pub(crate) fn alignment_pattern(&mut self) {
        self.reset_margins();
        self.modes.set(crate::modes::Mode::Origin, false);
        for row in 0..self.rows() {
            self.grid.clear_row(row, Cell::new(u32::from('E'), Pen::default()), self.stamp);
        }
        self.go_to(0, 0);
    }
}

fn change(mut look: Look, code: u16, reverse: bool) -> Look {
    let attribute = match code % 20 {
        1 => Attributes::BOLD,
        4 => {
            let on = if reverse { look.bits >> 8 == 0 } else { code == 4 };
            if !reverse || code == 4 {
                look.set_underline(u16::from(on));
            }
            return look;
        }
        5 => Attributes::BLINK,
        7 => Attributes::INVERSE,
        8 => Attributes::CONCEAL,
        _ => Attributes::default(),
    };
    match (code, reverse) {
        (0, false) => {
            for attribute in [Attributes::BOLD, Attributes::BLINK, Attributes::INVERSE, Attributes::CONCEAL] {
                look.set(attribute, false);
            }
            look.set_underline(0);
        }
        (0, true) => {
            for attribute in [Attributes::BOLD, Attributes::BLINK, Attributes::INVERSE] {
                look.set(attribute, !look.attributes().contains(attribute));
            }
            look.set_underline(u16::from(look.bits >> 8 == 0));
        }
        (1 | 5 | 7 | 8, false) => look.set(attribute, true),
        (1 | 5 | 7 | 8, true) => look.set(attribute, !look.attributes().contains(attribute)),
        (22, false) => look.set(Attributes::BOLD, false),
        (25 | 27 | 28, false) => look.set(attribute, false),
        _ => {}
    }
    look
}
