//! Terminal state reports (DECRQTSR, DECRSTS): of a state that can be given back there is the table of colours.

use crate::color::Slot;
use crate::state::State;

/// The colour space of the report: red, green and blue, in percent.
const RGB: &str = "2";
/// Number of colours in the report. More can be set.
const TOLD: u8 = 16;

impl State {
    /// DECRQTSR: reports the colours (2). The report of everything else (1) is empty.
    pub(crate) fn state_report(&mut self, what: u16) {
        match what {
            1 => self.reply_dcs("1$s"),
            2 => {
                let colors = (0..TOLD).map(|index| {
                    let parts = self.palette.get(Slot::Indexed(index), &self.options.colors);
                    let [red, green, blue] = parts.map(|part| (u32::from(part) * 100 + 0x7fff) / 0xffff);
                    format!("{index};{RGB};{red};{green};{blue}")
                });
                let colors: Vec<_> = colors.collect();
                self.reply_dcs(&format!("2$s{}", colors.join("/")));
            }
            _ => {}
        }
    }

    /// DECRSTS: sets the colours of such a report.
    pub(crate) fn restore_state(&mut self, what: u16, data: &[u8]) {
        let Some(data) = str::from_utf8(data).ok().filter(|_| what == 2) else { return };
        for entry in data.split('/') {
            let parts: Vec<_> = entry.split(';').collect();
            let [index, RGB, red, green, blue] = *parts else { continue };
            let percent = |part: &str| {
                let value = part.parse::<u32>().ok().filter(|value| *value <= 100)?;
                Some((value * 0xffff / 100) as u16)
            };
            let color = (index.parse(), percent(red), percent(green), percent(blue));
            if let (Ok(index), Some(red), Some(green), Some(blue)) = color {
                // Entries that cannot be read are passed over, and all others count.
                self.palette.set(Slot::Indexed(index), [red, green, blue]);
                self.palette_changed();
            }
        }
    }
}
