//! Tab stops.

/// Which columns have a tab stop.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tabs {
    stops: Vec<bool>,
    /// All were cleared: there are none beyond the last column, either.
    cleared: bool,
}

impl Tabs {
    pub(crate) fn new(cols: usize) -> Self {
        let mut tabs = Self { stops: Vec::new(), cleared: false };
        tabs.resize(cols);
        tabs
    }

    /// Gives new columns a stop every eight, unless all were cleared.
    pub(crate) fn resize(&mut self, cols: usize) {
        let (have, every) = (self.stops.len(), !self.cleared);
        self.stops.truncate(cols);
        self.stops.extend((have..cols).map(|col| every && col % 8 == 0));
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.stops.len());
    }

    pub(crate) fn set(&mut self, col: usize, on: bool) {
        if let Some(stop) = self.stops.get_mut(col) {
            *stop = on;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.stops.fill(false);
        // As in xterm, a screen that becomes wider then gets no new stops.
        self.cleared = true;
    }

    /// Returns the next stop after `col`, or the last column.
    pub(crate) fn next(&self, col: usize) -> usize {
        let after = self.stops.iter().skip(col + 1).position(|stop| *stop);
        after.map_or(self.stops.len().saturating_sub(1).max(col), |distance| col + 1 + distance)
    }

    /// Returns the stop before `col`, or the first column.
    pub(crate) fn previous(&self, col: usize) -> usize {
        self.stops.iter().take(col).rposition(|stop| *stop).unwrap_or(0)
    }

    /// Yields the columns with stops, from 0.
    pub(crate) fn stops(&self) -> impl Iterator<Item = usize> {
        self.stops.iter().enumerate().filter(|(_, stop)| **stop).map(|(col, _)| col)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_found_both_ways() {
        let mut tabs = Tabs::new(20);
        assert_eq!([0, 7, 8, 16, 19].map(|col| tabs.next(col)), [8, 8, 16, 19, 19]);
        assert_eq!([0, 8, 9, 19].map(|col| tabs.previous(col)), [0, 0, 8, 16]);
        tabs.set(8, false);
        tabs.set(3, true);
        tabs.resize(30);
        assert_eq!(tabs.stops().collect::<Vec<_>>(), [0, 3, 16, 24]);
        tabs.clear();
        tabs.resize(60);
        assert_eq!((tabs.next(0), tabs.previous(59)), (59, 0));
    }
}
