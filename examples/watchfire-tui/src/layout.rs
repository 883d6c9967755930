//! The places on the screen, for drawing and for the mouse.

use ratatui::layout::Rect;

use crate::model::Model;

/// The smallest terminal that everything fits into.
pub const SMALLEST: (u16, u16) = (80, 24);

/// Places on the screen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Areas {
    /// The first row.
    pub header: Rect,
    /// The left panel, with its border. Empty while the right one has the whole screen.
    pub left: Rect,
    /// The right panel, with its border.
    pub right: Rect,
    /// The inside of the left panel.
    pub list: Rect,
    /// A line for the person above the agent's terminal: an issue, a question, a phase. Empty without one. It lies on the border, so
    /// that it comes and goes without a new size for the agent.
    pub banner: Rect,
    /// The agent's terminal, or the logs.
    pub terminal: Rect,
    /// All agents side by side: everything between the first row and the last.
    pub tiles: Rect,
    /// The last row.
    pub status: Rect,
}

impl Areas {
    /// Returns the places of a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        let (cols, rows) = model.size;
        let height = rows.saturating_sub(2);
        let width = match model.zoomed {
            true => 0,
            false => split(cols, model.split),
        };
        let left = Rect::new(0, 1, width, height);
        let right = Rect::new(width, 1, cols.saturating_sub(width), height);
        let inner = |area: Rect| {
            Rect::new(area.x + 1, area.y + 1, area.width.saturating_sub(2), area.height.saturating_sub(2))
        };
        let within = inner(right);
        let is_told =
            model.issue().is_some() || model.asking().is_some() || !model.status.wildfire_phase.is_empty();
        let told = u16::from(is_told).min(within.height);
        Self {
            header: Rect::new(0, 0, cols, 1.min(rows)),
            left,
            right,
            list: if width == 0 { Rect::default() } else { inner(left) },
            banner: Rect::new(within.x, right.y, within.width, told),
            terminal: within,
            tiles: Rect::new(0, 1, cols, height),
            status: Rect::new(0, rows.saturating_sub(1), cols, 1.min(rows)),
        }
    }

    /// Returns true if the terminal is too small for it.
    #[must_use]
    pub fn is_too_small(size: (u16, u16)) -> bool {
        size.0 < SMALLEST.0 || size.1 < SMALLEST.1
    }
}

/// Columns that the left panel and the right one need.
const LEFT: u16 = 30;
const RIGHT: u16 = 40;

/// Returns the width of the left panel, so that both can be read.
fn split(cols: u16, percent: u16) -> u16 {
    let wanted = u32::from(cols) * u32::from(percent) / 100;
    u16::try_from(wanted).unwrap_or(cols).clamp(LEFT, cols.saturating_sub(RIGHT).max(LEFT)).min(cols)
}
