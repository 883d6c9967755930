//! The styles of packed lines: runs of cells, in two bytes each as long as a block has few styles.

/// Number of styles that a byte can name.
const MOST: usize = 256;
/// Slots of the cache, a power of two.
const SLOTS: usize = 64;

/// Runs of cells of one style each, one behind the other.
///
/// Programs mostly use a handful of styles, so a run is the place of its style in a table and its number of cells. A block
/// with more styles than a byte can name has whole numbers instead, in all of its runs: runs are found by their index.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Places in `styles`, and numbers of cells.
    short: Vec<[u8; 2]>,
    styles: Vec<u32>,
    /// Places of styles that were used lately, by the lowest bits of their numbers. A hint, to be checked.
    recent: [u8; SLOTS],
    /// Style numbers of three bytes, and numbers of cells.
    long: Vec<[u8; 4]>,
    is_long: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self { short: Vec::new(), styles: Vec::new(), recent: [0; SLOTS], long: Vec::new(), is_long: false }
    }
}

impl Runs {
    pub(crate) fn len(&self) -> usize {
        if self.is_long { self.long.len() } else { self.short.len() }
    }

    #[inline]
    pub(crate) fn push(&mut self, style: u32, cells: u8) {
        if !self.is_long {
            if let Some(place) = self.place(style) {
                return self.short.push([place, cells]);
            }
            self.lengthen();
        }
        self.long.push(long(style, cells));
    }

    /// Returns the place of a style in the table, or `None` if the table is full.
    #[inline]
    fn place(&mut self, style: u32) -> Option<u8> {
        let slot = self.recent.get_mut(style as usize % SLOTS)?;
        if self.styles.get(usize::from(*slot)) != Some(&style) {
            // A style that lost its slot to another is added again. To search for it would take longer than it saves.
            if self.styles.len() == MOST {
                return None;
            }
            *slot = self.styles.len() as u8;
            self.styles.push(style);
        }
        Some(*slot)
    }

    #[cold]
    fn lengthen(&mut self) {
        let styles = std::mem::take(&mut self.styles);
        let style = |place: u8| styles.get(usize::from(place)).copied().unwrap_or_default();
        self.long.extend(self.short.iter().map(|[place, cells]| long(style(*place), *cells)));
        (self.short, self.is_long) = (Vec::new(), true);
    }

    /// Calls `see` with the style and the number of cells of each run from `start` to `end`.
    pub(crate) fn for_each(&self, start: usize, end: usize, mut see: impl FnMut(u32, usize)) {
        if self.is_long {
            for [a, b, c, cells] in self.long.get(start..end).unwrap_or(&[]) {
                see(u32::from_be_bytes([0, *a, *b, *c]), usize::from(*cells));
            }
            return;
        }
        for [place, cells] in self.short.get(start..end).unwrap_or(&[]) {
            let style = self.styles.get(usize::from(*place)).copied().unwrap_or_default();
            see(style, usize::from(*cells));
        }
    }

    /// Yields all styles, and perhaps some that no run has any more.
    pub(crate) fn styles(&self) -> impl Iterator<Item = u32> {
        let long = self.long.iter().map(|[a, b, c, _]| u32::from_be_bytes([0, *a, *b, *c]));
        self.styles.iter().copied().chain(long)
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        // One of the two is empty.
        self.short.truncate(len);
        self.long.truncate(len);
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
        self.styles.clear();
        self.is_long = false;
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.short.shrink_to_fit();
        self.styles.shrink_to_fit();
        self.long.shrink_to_fit();
    }

    pub(crate) fn memory(&self) -> usize {
        self.short.capacity() * 2 + self.long.capacity() * 4 + self.styles.capacity() * 4
    }
}

fn long(style: u32, cells: u8) -> [u8; 4] {
    let [_, a, b, c] = style.to_be_bytes();
    [a, b, c, cells]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(runs: &Runs) -> Vec<(u32, usize)> {
        let mut all = Vec::new();
        runs.for_each(0, runs.len(), |style, cells| all.push((style, cells)));
        all
    }

    #[test]
    fn runs_stay_the_same_however_many_styles_there_are() {
        for styles in [1, 3, 64, 65, 255, 256, 257, 5_000] {
            let mut runs = Runs::default();
            let mut want = Vec::new();
            for n in 0..10_000_u32 {
                let (style, cells) = (n * 7919 % styles * 3001, (n % 255) as u8 + 1);
                runs.push(style, cells);
                want.push((style, usize::from(cells)));
            }
            assert_eq!(all(&runs), want, "{styles} styles");
            let known: std::collections::BTreeSet<_> = runs.styles().collect();
            assert!(want.iter().all(|(style, _)| known.contains(style)));
            runs.truncate(17);
            want.truncate(17);
            assert_eq!((all(&runs), runs.len()), (want, 17));
            runs.clear();
            runs.push(9, 1);
            assert_eq!(all(&runs), [(9, 1)]);
        }
    }

    #[test]
    fn few_styles_take_two_bytes_a_run() {
        let mut runs = Runs::default();
        (0..5_000).for_each(|n| runs.push(n % 9, 6));
        runs.shrink_to_fit();
        assert_eq!(runs.memory(), 5_000 * 2 + 9 * 4);
    }
}
