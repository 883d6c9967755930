//! Operations on rectangles of cells.

use std::ops::Range;

use watchfire_core::terminal::{Attributes, Underline};

use crate::cells::cell::{Cell, Pen};
use crate::cells::style::Look;
use crate::cells::width::Widths;
use crate::parser::Params;
use crate::state::State;
use crate::state::modes::Mode;

/// The bits of XTCHECKSUM.
mod checksum {
    pub(super) const POSITIVE: u16 = 1;
    pub(super) const NO_ATTRIBUTES: u16 = 2;
    pub(super) const ALL_BLANKS: u16 = 4;
    pub(super) const WRITTEN: u16 = 8;
    pub(super) const WHOLE_CODES: u16 = 16;
}

/// Rows and columns, the ends outside.
#[derive(Clone, Debug)]
struct Area {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl State {
    /// Reads four parameters from `first` on: top, left, bottom, right, from 1, relative to the margins in origin mode.
    fn area(&self, params: &Params, first: usize) -> Option<Area> {
        let (top, left, bottom, right) = if self.on(Mode::Origin) {
            (self.margins.top, self.margins.left, self.margins.bottom, self.margins.right)
        } else {
            (0, 0, self.rows(), self.cols())
        };
        // A zero is the same as a parameter that was left out: the edge (VT420 manual).
        let value = |offset, default: usize| match params.value(first + offset) {
            0 => default,
            value => usize::from(value),
        };
        let rows = top + value(0, 1) - 1..(top + value(2, bottom - top)).min(bottom);
        let columns = left + value(1, 1) - 1..(left + value(3, right - left)).min(right);
        (!rows.is_empty() && !columns.is_empty()).then_some(Area { rows, columns })
    }

    /// Yields the cells of an area.
    pub(crate) fn area_cells(&self, params: &Params) -> impl Iterator<Item = Cell> {
        let area = self.area(params, 0).into_iter();
        area.flat_map(|area| area.rows.flat_map(move |row| area.columns.clone().map(move |col| (row, col))))
            .map(|(row, col)| self.grid.cell(row, col))
    }

    /// DECCRA: copies an area.
    pub(crate) fn copy_area(&mut self, params: &Params) {
        let Some(area) = self.area(params, 0) else { return };
        let at = |index| usize::from(params.value_or(index, 1)) - 1;
        // Parameters 4 and 7 are the pages to copy from and to. There is one page.
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
        // The areas may overlap. Downwards the last row goes first, so that no row is written before it is read.
        if row > area.rows.start {
            pairs.reverse();
        }
        for (from, to) in pairs {
            self.grid.copy(from, columns.clone(), to, col, self.stamp);
        }
    }

    /// DECFRA: fills an area with a character.
    pub(crate) fn fill_area(&mut self, params: &Params) {
        let code = u32::from(params.value(0));
        // DEC's manual allows the graphic characters of both halves only. A control character in a cell would act on
        // whatever terminal the cell is painted on.
        let plain = !matches!(code, 0..32 | 127..160);
        let Some(c) = char::from_u32(code).filter(|c| plain && Widths::table().of(*c).columns() == 1) else {
            return;
        };
        let Some(area) = self.area(params, 1) else { return };
        let cell = Cell::new(u32::from(c), self.pen());
        self.fill(area, cell);
    }

    /// DECERA: erases an area.
    pub(crate) fn erase_area(&mut self, params: &Params) {
        let blank = self.blank();
        if let Some(area) = self.area(params, 0) {
            self.fill(area, blank);
        }
    }

    /// DECSERA: erases the characters of an area that are not guarded.
    pub(crate) fn erase_area_selectively(&mut self, params: &Params) {
        if let Some(area) = self.area(params, 0) {
            for row in area.rows {
                self.empty_cells(row, area.columns.clone());
            }
        }
    }

    fn fill(&mut self, area: Area, cell: Cell) {
        self.changed = true;
        for row in area.rows {
            self.grid.fill(row, area.columns.clone(), cell, self.stamp);
            // Without what was in its last column, the row does not run into the next.
            if area.columns.end == self.cols() {
                self.grid.unwrap(row, self.stamp);
            }
        }
    }

    /// DECCARA and DECRARA: sets or turns over attributes in a rectangle or a stream of cells.
    pub(crate) fn change_area(&mut self, params: &Params, reverse: bool) {
        let Some(area) = self.area(params, 0) else { return };
        self.changed = true;
        let codes = params.values().get(4..).unwrap_or(&[]).to_vec();
        let last = area.rows.end - 1;
        let line = if self.on(Mode::Origin) { self.margins.left..self.margins.right } else { 0..self.cols() };
        for row in area.rows.clone() {
            // DECSACE: 2 means a rectangle. Otherwise the change runs like text from the first place to the last.
            let columns = if self.change_extent == 2 {
                area.columns.clone()
            } else {
                let start = if row == area.rows.start { area.columns.start } else { line.start };
                start..if row == last { area.columns.end } else { line.end }
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
                // Neighbours mostly look alike, so the last answer is kept.
                if cell.style() != known.0 {
                    let look = codes
                        .iter()
                        .fold(styles.look(cell.style()), |look, code| change(look, *code, reverse));
                    known = (cell.style(), styles.number(look));
                }
                // A cell without a character shows only a background. To be underlined it has to be a space.
                if cell.is_empty() && known.1 != cell.style() {
                    *cell = cell.emptied();
                }
                *cell = cell.with_style(known.1);
                lead = Some(known.1);
            }
            if let Some(slot) = self.grid.slot_mut(row) {
                slot.flags |= crate::cells::grid::Slot::RICH;
            }
        }
    }

    /// DECRQCRA: reports a sum over the characters and their attributes, as xterm makes it.
    pub(crate) fn checksum(&mut self, params: &Params) {
        let (id, flags) = (params.value(0), self.checksum_flags);
        let (mut sum, mut first) = (0_u16, true);
        if let Some(area) = self.area(params, 2) {
            for row in area.rows {
                for col in area.columns.clone() {
                    sum = sum.wrapping_add(self.cell_sum(self.grid.cell(row, col), flags, first));
                    first = false;
                }
            }
        }
        // DEC's terminals send the negative of the sum.
        if flags & checksum::POSITIVE == 0 {
            sum = sum.wrapping_neg();
        }
        self.reply_dcs(&format!("{id}!~{sum:04X}"));
    }

    fn cell_sum(&self, cell: Cell, flags: u16, first: bool) -> u16 {
        if cell.is_empty() && !cell.has(Cell::SPACER) {
            // Never written, or erased: a space, if blanks count.
            let counts =
                if flags & checksum::ALL_BLANKS == 0 { first } else { flags & checksum::WRITTEN == 0 };
            return if counts { u16::from(b' ') } else { 0 };
        }
        let look = self.styles.look(cell.style());
        let attributes = look.attributes();
        let (mut code, mut marks) = (cell.content() as u16, 0_u16);
        if cell.has(Cell::SPACER) {
            // xterm stores this code in the right half of a wide character.
            code = u16::MAX;
        } else if cell.has(Cell::CLUSTER) {
            let mut text = self.clusters.text(cell.content()).chars().map(|c| u32::from(c) as u16);
            code = text.next().unwrap_or(0);
            marks = text.fold(0, u16::wrapping_add);
        }
        // Concealed text must not be read back.
        if attributes.contains(Attributes::CONCEAL) {
            code = u16::from(b' ');
        }
        if flags & checksum::WHOLE_CODES == 0 {
            code &= 0xff;
            // Marks count only where blanks do.
            if flags & checksum::ALL_BLANKS != 0 {
                code = code.wrapping_add(marks);
            }
        }
        if flags & checksum::NO_ATTRIBUTES == 0 {
            for (set, value) in [
                (matches!(look.underline(), Underline::Single), 0x10),
                (attributes.contains(Attributes::INVERSE), 0x20),
                (attributes.contains(Attributes::BLINK), 0x40),
                (attributes.contains(Attributes::BOLD), 0x80),
            ] {
                code = code.wrapping_add(if set { value } else { 0 });
            }
        }
        code
    }

    /// DECALN: fills the screen with E.
    pub(crate) fn alignment_pattern(&mut self) {
        // The pattern is for adjusting a tube: it covers the screen, so margins and origin mode are reset and the
        // cursor goes home.
        self.reset_margins();
        self.modes.set(Mode::Origin, false);
        self.look = Look::default().with_link(self.look.link());
        self.apply_look();
        for row in 0..self.rows() {
            self.grid.clear_row(row, Cell::new(u32::from('E'), Pen::default()), self.stamp);
        }
        self.go_to(0, 0);
    }
}

/// Changes a look as DECCARA and DECRARA do: bold, underline, blink and inverse.
fn change(mut look: Look, code: u16, reverse: bool) -> Look {
    use Attributes as A;
    let underlined = look.bits() >> 8 != 0;
    match (code, reverse) {
        (0, false) => {
            for attribute in [A::BOLD, A::BLINK, A::INVERSE] {
                look.set(attribute, false);
            }
            look.set_underline(0);
        }
        (4, _) => look.set_underline(u16::from(!reverse || !underlined)),
        (24, false) => look.set_underline(0),
        (22, false) => look.set(A::BOLD, false),
        (25, false) => look.set(A::BLINK, false),
        (27, false) => look.set(A::INVERSE, false),
        (1 | 5 | 7, _) => {
            let attribute = match code {
                1 => A::BOLD,
                5 => A::BLINK,
                _ => A::INVERSE,
            };
            look.set(attribute, !reverse || !look.attributes().contains(attribute));
        }
        _ => {}
    }
    look
}
