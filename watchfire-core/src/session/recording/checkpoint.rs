//! The screen at some offset, with its scrollback, beside the segments: a later program reads on from there.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::files::{Replace, read_untrusted};
use crate::terminal::Size;

/// Output after which the screen is written again: little beside what the segments keep.
const EVERY: u64 = 4 << 20;
/// Upper bound for one: a long scrollback in many colours is a few megabytes.
const LARGEST: u64 = 64 << 20;
const NAME: &str = "checkpoint";

/// Writer of the checkpoints of one recording. There is one file: offset and number of the line in eight little-endian bytes each,
/// columns and rows in two, then what [`redraw_with_scrollback`](crate::terminal::Terminal::redraw_with_scrollback) returned there.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    path: PathBuf,
    last: u64,
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
        Self { path: folder.join(NAME), last: 0 }
    }

    /// Returns true if another one is due at this offset.
    pub(in crate::session) fn is_due(&self, offset: u64) -> bool {
        offset.saturating_sub(self.last) >= EVERY
    }

    /// Writes one in place of the last.
    pub(in crate::session) async fn write(&mut self, checkpoint: Checkpoint) {
        self.last = checkpoint.offset;
        let path = self.path.clone();
        let write = move || {
            let mut bytes = checkpoint.offset.to_le_bytes().to_vec();
            bytes.extend(checkpoint.line.to_le_bytes());
            bytes.extend(checkpoint.size.cols().to_le_bytes());
            bytes.extend(checkpoint.size.rows().to_le_bytes());
            bytes.extend(checkpoint.redraw);
            // Not durable: like the recording, it need not survive the end of the machine.
            Replace::new().without_sync().write(&path, &bytes)
        };
        // Without it, the next program feeds its terminal all that the segments still hold.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
            tracing::warn!("keeping a screen: {}", error.report());
        }
    }

    /// Reads the last one. `None` if there is none that can be read.
    pub(in crate::session) async fn read(&mut self) -> Option<Checkpoint> {
        let path = self.path.clone();
        let read = move || -> Result<_> { read_untrusted(&path, LARGEST) };
        let bytes = tokio::task::spawn_blocking(read).await.ok()?.ok()??;
        let (offset, rest) = bytes.split_first_chunk()?;
        let (line, rest) = rest.split_first_chunk()?;
        let (cols, rest) = rest.split_first_chunk()?;
        let (rows, redraw) = rest.split_first_chunk()?;
        let size = Size::new(u16::from_le_bytes(*cols), u16::from_le_bytes(*rows));
        self.last = u64::from_le_bytes(*offset);
        Some(Checkpoint { offset: self.last, line: u64::from_le_bytes(*line), size, redraw: redraw.to_vec() })
    }
}
