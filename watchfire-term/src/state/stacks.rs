//! Looks and palettes that a child lays aside and takes back.

use watchfire_core::terminal::Attributes;

use crate::cells::style::{Look, Paint};
use crate::color::Palette;
use crate::draw::spell;
use crate::parser::Params;
use crate::state::State;

/// Upper bound for each stack.
const DEPTH: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// With the bits of [`PARTS`] that were asked for.
    looks: Vec<(Look, u16)>,
    palettes: Vec<Palette>,
    /// Number of pushed palettes. Those beyond were popped, or stored at their places.
    pushed: usize,
}

/// The parts of a look that can be kept by themselves: their numbers, and attributes where they are such.
const PARTS: [(u16, Option<Attributes>); 11] = [
    (1, Some(Attributes::BOLD)),
    (2, Some(Attributes::DIM)),
    (3, Some(Attributes::ITALIC)),
    (5, Some(Attributes::BLINK)),
    (7, Some(Attributes::INVERSE)),
    (8, Some(Attributes::CONCEAL)),
    (9, Some(Attributes::STRIKE)),
    (4, None),
    (21, None),
    (30, None),
    (31, None),
];

impl State {
    /// XTPUSHSGR: pushes the look, or parts of it.
    pub(crate) fn push_look(&mut self, params: &Params) {
        let asked = |number: &u16| params.values().contains(number);
        let all = params.values() == [0];
        let parts = PARTS.iter().enumerate().filter(|(_, (number, _))| all || asked(number));
        let parts = parts.fold(0, |bits, (index, _)| bits | 1 << index);
        // As in xterm, what goes beyond the limit is ignored.
        if self.stacks.looks.len() < DEPTH {
            self.stacks.looks.push((self.look, parts));
        }
    }

    /// XTPOPSGR: pops a look.
    pub(crate) fn pop_look(&mut self) {
        let Some((kept, parts)) = self.stacks.looks.pop() else { return };
        for (_, part) in PARTS.iter().enumerate().filter(|(index, _)| parts >> index & 1 == 1) {
            match part {
                (_, Some(attribute)) => {
                    self.look.set(*attribute, kept.attributes().contains(*attribute));
                }
                (30, _) => self.look.set_foreground(kept.foreground()),
                (31, _) => self.look.set_background(kept.background()),
                _ => self.look.set_underline(kept.bits() >> 8),
            }
        }
        self.apply_look();
    }

    /// XTREPORTSGR: reports the look that all cells of an area have in common.
    pub(crate) fn report_look(&mut self, params: &Params) {
        let mut common: Option<Look> = None;
        for cell in self.area_cells(params) {
            let look = self.styles.look(cell.style());
            common = Some(match common {
                None => look,
                Some(mut common) => {
                    let (a, b) = (common.bits(), look.bits());
                    common.set_bits(if a >> 8 == b >> 8 { a & (b | 0xff00) } else { a & b & 0xff });
                    if common.foreground() != look.foreground() {
                        common.set_foreground(Paint::DEFAULT);
                    }
                    if common.background() != look.background() {
                        common.set_background(Paint::DEFAULT);
                    }
                    common
                }
            });
        }
        let mut look = common.unwrap_or_default().with_link(0);
        // xterm has no colour of underlines to report.
        look.set_underline_color(Paint::DEFAULT);
        self.reply_csi(&format!("{}m", spell::describe(look)));
    }

    /// XTPUSHCOLORS: pushes the colours, or stores them at the places that numbers give.
    pub(crate) fn push_colors(&mut self, params: &Params) {
        for number in params.values() {
            // 0 pushes. A number stores at that place, without a push.
            let place = match usize::from(*number) {
                0 => {
                    self.stacks.pushed = (self.stacks.pushed + 1).min(DEPTH);
                    self.stacks.pushed
                }
                place => place,
            };
            if place <= DEPTH {
                let palettes = &mut self.stacks.palettes;
                palettes.resize(palettes.len().max(place), Palette::default());
                if let Some(slot) = palettes.get_mut(place - 1) {
                    slot.clone_from(&self.palette);
                }
            }
        }
    }

    /// XTPOPCOLORS: pops colours.
    pub(crate) fn pop_colors(&mut self, params: &Params) {
        for number in params.values() {
            let place = match usize::from(*number) {
                0 => {
                    let place = self.stacks.pushed;
                    self.stacks.pushed = place.saturating_sub(1);
                    place
                }
                place => place,
            };
            if let Some(kept) = place.checked_sub(1).and_then(|index| self.stacks.palettes.get(index)) {
                self.palette.clone_from(kept);
                self.palette_changed();
            }
        }
    }

    /// XTREPORTCOLORS: reports the depth of the stack.
    pub(crate) fn report_colors(&mut self) {
        let (pushed, kept) = (self.stacks.pushed, self.stacks.palettes.len());
        self.reply_csi(&format!("?{pushed};{kept}#Q"));
    }
}

impl Stacks {
    pub(crate) fn memory(&self) -> usize {
        self.palettes.iter().map(Palette::memory).sum()
    }
}
