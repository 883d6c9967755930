//! The images that are kept, and those of which parts are still to come.

use std::collections::VecDeque;

use crate::image::{Image, ImageProtocol};

/// Number of images that are kept at most. Even a small one costs a viewer an escape sequence.
const MOST: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    kept: VecDeque<Image>,
    bytes: usize,
    next: u64,
    /// The sequences of an image in parts, up to the last. Empty if there is none.
    pub(crate) parts: Vec<u8>,
    /// True if the image in parts is dropped when it is whole: it is too large, or must not be kept.
    pub(crate) refused: bool,
}

impl Images {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Image> {
        self.kept.iter()
    }

    /// Keeps an image, and drops the oldest ones until all fit into `limit` bytes. Returns its number, or `None` if it
    /// alone is too large.
    pub(crate) fn keep(&mut self, mut image: Image, limit: usize) -> Option<u64> {
        if image.sequence.len() > limit {
            return None;
        }
        self.bytes += image.sequence.len();
        // The oldest go first, as their lines are the first to leave.
        while self.bytes > limit || self.kept.len() >= MOST {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.sequence.len();
        }
        image.id = self.next;
        self.next += 1;
        self.kept.push_back(image);
        Some(self.next - 1)
    }

    /// Drops all images but those that `keep` is true for.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Image) -> bool) {
        if !self.kept.is_empty() {
            self.kept.retain(keep);
            self.bytes = self.kept.iter().map(|image| image.sequence.len()).sum();
        }
    }

    /// Drops the transmissions and placements with this identifier of kitty's protocol.
    pub(crate) fn forget_kitty(&mut self, id: &[u8]) {
        self.retain(|image| {
            image.protocol != ImageProtocol::Kitty || kitty_value(&image.sequence, b'i') != Some(id)
        });
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.parts.capacity() + self.kept.capacity() * size_of::<Image>()
    }
}

/// Returns the value of a key in the first command of kitty's protocol in `sequence`, with or without its introducer.
pub(crate) fn kitty_value(sequence: &[u8], key: u8) -> Option<&[u8]> {
    let command = sequence.strip_prefix(b"\x1b_").unwrap_or(sequence);
    let command = command.strip_prefix(b"G").unwrap_or(command);
    // Keys end where the data begins, or the command.
    let end = command.iter().position(|byte| matches!(byte, b';' | 0x1b)).unwrap_or(command.len());
    let pairs = command.get(..end)?.split(|byte| *byte == b',');
    pairs
        .filter_map(|pair| pair.split_at_checked(2))
        .find(|(name, _)| *name == [key, b'='])
        .map(|(_, value)| value)
}
