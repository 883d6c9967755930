//! One cell of a grid, in eight bytes.

/// Content of a cell: a character or the number of a cluster, flags, and the number of a style.
///
/// All zeros is a cell that was never written, or erased, in the default style.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Cell(u64);

impl Cell {
    pub(crate) const BLANK: Self = Self(0);
    /// The content is the number of a cluster.
    pub(crate) const CLUSTER: u64 = 1 << 21;
    /// The left half of a character that is two columns wide.
    pub(crate) const WIDE: u64 = 1 << 22;
    /// The right half of one.
    pub(crate) const SPACER: u64 = 1 << 23;
    /// Guarded from selective erase.
    pub(crate) const PROTECTED: u64 = 1 << 24;
    /// Left blank because a wide character did not fit into the last column.
    pub(crate) const FILLER: u64 = 1 << 25;

    const CONTENT: u64 = CLUSTER_MAX as u64;

    #[inline]
    pub(crate) const fn new(content: u32, pen: Pen) -> Self {
        Self(content as u64 & Self::CONTENT | pen.0)
    }

    #[inline]
    pub(crate) const fn with(self, flags: u64) -> Self {
        Self(self.0 | flags)
    }

    #[inline]
    pub(crate) const fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// Returns every bit that is in one of two cells.
    #[inline]
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns a space of the same style.
    pub(crate) const fn emptied(self) -> Self {
        // A space, not nothing: DECRQCRA and selective erase tell cells that were written from those that were not.
        Self(self.0 & !0xffff_ffff | b' ' as u64)
    }

    /// Returns the cell without its mark as a filler, which holds only in its place.
    pub(crate) const fn unfilled(self) -> Self {
        Self(self.0 & !Self::FILLER)
    }

    /// Returns the character's code or the cluster's number.
    #[inline]
    pub(crate) const fn content(self) -> u32 {
        (self.0 & Self::CONTENT) as u32
    }

    /// Returns the content in two bytes, which it must fit into; [`COVERED`] for a right half.
    #[inline]
    pub(crate) const fn pair(self) -> [u8; 2] {
        let low = self.0 as u32;
        // The mark's bit in every place.
        let covered = ((low << (31 - Self::SPACER.trailing_zeros())) as i32 >> 31) as u32;
        ((low | covered) as u16).to_le_bytes()
    }

    /// Returns the bits of the text, as flags that give another cell the same text.
    pub(crate) const fn text(self) -> u64 {
        self.0 & (Self::CONTENT | Self::CLUSTER)
    }

    /// Returns the cell with the text of another.
    pub(crate) const fn with_text(self, other: Self) -> Self {
        // Flags of the place, such as protection, stay with the place.
        Self(self.0 & !(Self::CONTENT | Self::CLUSTER | Self::FILLER | Self::SPACER) | other.text())
    }

    pub(crate) const fn with_style(self, style: u32) -> Self {
        Self(self.0 & 0xffff_ffff | (style as u64) << 32)
    }

    #[inline]
    pub(crate) const fn style(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns true if the cell shows nothing, not even a background.
    #[inline]
    pub(crate) const fn is_blank(self) -> bool {
        self.0 & !(Self::FILLER | Self::PROTECTED) == 0
    }

    /// Returns true if two cells differ only in their characters.
    #[inline]
    pub(crate) const fn is_alike(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::CONTENT == 0 && self.is_empty() == other.is_empty()
    }

    /// Returns true if its text is a space, or none.
    #[inline]
    pub(crate) const fn is_space(self) -> bool {
        self.0 & (Self::CONTENT | Self::CLUSTER | Self::SPACER) & !(b' ' as u64) == 0
    }

    /// Returns true if it has no character. It may still be the right half of one.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 & (Self::CONTENT | Self::CLUSTER) == 0
    }

    /// Returns true if it is an ASCII character or nothing, in the default style.
    #[inline]
    pub(crate) const fn is_simple(self) -> bool {
        self.0 < 0x80
    }
}

/// The right half of a wide character among [pairs](Cell::pair).
pub(crate) const COVERED: u16 = 0xffff;
/// The character of that number, which is kept as a cluster.
pub(crate) const NOT_ALONE: char = '\u{ffff}';
/// The largest number that fits into a cell's content.
pub(crate) const CLUSTER_MAX: u32 = (1 << 21) - 1;

/// The common part of all cells written in one go: style and protection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Pen(u64);

impl Pen {
    pub(crate) const fn new(style: u32, protected: bool) -> Self {
        Self((style as u64) << 32 | if protected { Cell::PROTECTED } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_eight_bytes_and_keeps_its_parts() {
        assert_eq!(size_of::<Cell>(), 8);
        let cell = Cell::new(0x10ffff, Pen::new(77, true)).with(Cell::WIDE);
        assert_eq!((cell.content(), cell.style()), (0x10ffff, 77));
        assert!(cell.has(Cell::PROTECTED) && cell.has(Cell::WIDE) && !cell.has(Cell::CLUSTER));
        assert_eq!(cell.emptied(), Cell::new(32, Pen::new(77, false)));
        assert!(Cell::BLANK.is_blank() && !cell.emptied().is_blank());
    }
}
