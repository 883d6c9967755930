//! The screen at some offset, with its scrollback, beside the segments: a later program reads on from there.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::reader::Recording;
use crate::files::{Replace, read_untrusted};
use crate::terminal::Size;

/// Output after which the screen is written again: as much as the screen takes on disk, within these bounds. That is less than what
/// the segments keep.
const EVERY: RangeInclusive<u64> = 4 << 20..=32 << 20;
/// Upper bound for one. A long scrollback in many colours is a few megabytes, and one that is larger is left out.
pub(in crate::session) const LARGEST: usize = 64 << 20;
const NAME: &str = "checkpoint";

/// Writer of the checkpoints of one recording. There is one file: offset and number of the line in eight little-endian bytes each,
/// columns and rows in two, then what [`redraw_with_scrollback`](crate::terminal::Terminal::redraw_with_scrollback) returned there.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
    last: u64,
    /// Output after which the next one is due.
    every: u64,
}

/// A screen, and the offset of the output that it shows.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::session) struct Checkpoint {
    pub(in crate::session) offset: u64,
    /// Number of the line of the scrollback that comes next.
    pub(in crate::session) line: u64,
    pub(in crate::session) size: Size,
    pub(in crate::session) redraw: Vec<u8>,
}

impl Checkpoints {
    /// Writes beside the segments of the recording in `folder`.
    pub(crate) fn beside(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), last: 0, every: *EVERY.start() }
    }

    /// Returns true if another one is due at this offset.
    pub(in crate::session) fn is_due(&self, offset: u64) -> bool {
        offset.saturating_sub(self.last) >= self.every
    }

    /// Waits as long again, because none can be written at this offset.
    pub(in crate::session) fn put_off(&mut self, offset: u64) {
        self.last = offset;
    }

    /// Writes one in place of the last.
    pub(in crate::session) async fn write(&mut self, checkpoint: Checkpoint) {
        self.last = checkpoint.offset;
        self.every = (checkpoint.redraw.len() as u64).clamp(*EVERY.start(), *EVERY.end());
        let path = self.folder.join(NAME);
        let write = move || {
            let mut bytes = checkpoint.offset.to_le_bytes().to_vec();
            bytes.extend(checkpoint.line.to_le_bytes());
            bytes.extend(checkpoint.size.cols().to_le_bytes());
            bytes.extend(checkpoint.size.rows().to_le_bytes());
            bytes.extend(checkpoint.redraw);
            // Not durable: like the recording, it need not survive the end of the machine.
            Replace::new().with_mode(0o600).without_sync().write(&path, &bytes)
        };
        // Without it, the next program feeds its terminal all that the segments still hold.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
            tracing::warn!("keeping a screen: {}", error.report());
        }
    }

    /// Reads the last one, `None` if there is none that can be read, and how often lines got other numbers since then.
    pub(in crate::session) async fn read(&mut self) -> (Option<Checkpoint>, u64) {
        let folder = self.folder.clone();
        let read = move || {
            let checkpoint = Checkpoint::read(&folder.join(NAME));
            let known = checkpoint.as_ref().map(|it| (it.offset, it.size));
            let renumberings = Recording::renumberings(&folder, known);
            (checkpoint, renumberings)
        };
        let (checkpoint, renumberings) = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        self.last = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.offset);
        (checkpoint, renumberings)
    }
}

impl Checkpoint {
    fn read(path: &Path) -> Option<Self> {
        // With what stands before the screen, and an unfinished sequence behind it.
        let bytes = read_untrusted(path, LARGEST as u64 + (1 << 20)).ok()??;
        let (offset, rest) = bytes.split_first_chunk()?;
        let (line, rest) = rest.split_first_chunk()?;
        let (cols, rest) = rest.split_first_chunk()?;
        let (rows, redraw) = rest.split_first_chunk()?;
        Some(Self {
            offset: u64::from_le_bytes(*offset),
            line: u64::from_le_bytes(*line),
            size: Size::new(u16::from_le_bytes(*cols), u16::from_le_bytes(*rows)),
            redraw: redraw.to_vec(),
        })
    }
}
