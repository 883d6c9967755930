//! Serde for snapshots: what a type promises holds for deserialised values as well.
//!
//! Structs are written with all fields, so that formats that do not describe themselves can be used, too.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Attributes, Cursor, Generation, Hyperlink, Line, LineSize, Modes, Palette, Run, Size, Snapshot};

#[derive(Deserialize)]
pub(super) struct SizeData {
    cols: u16,
    rows: u16,
}

impl From<SizeData> for Size {
    fn from(data: SizeData) -> Self {
        Self::new(data.cols, data.rows)
    }
}

#[derive(Deserialize)]
pub(super) struct LineData {
    text: String,
    runs: Vec<Run>,
    links: Box<[Arc<Hyperlink>]>,
    wrapped: bool,
    size: LineSize,
}

impl TryFrom<LineData> for Line {
    type Error = &'static str;

    fn try_from(data: LineData) -> Result<Self, Self::Error> {
        let (bytes, runs) = (data.text.len(), data.runs.len());
        let line = Self::new(data.text, data.runs, data.wrapped);
        // `new` drops what does not fit. Here that would be a loss that nobody sees.
        if line.text().len() != bytes || line.runs().count() != runs {
            return Err("the runs of a line do not divide its text");
        }
        Ok(line.with_links(data.links).with_size(data.size))
    }
}

#[derive(Deserialize)]
pub(super) struct SnapshotData {
    size: Size,
    lines: Vec<Arc<Line>>,
    cursor: Cursor,
    title: Option<Arc<str>>,
    modes: Modes,
    palette: Arc<Palette>,
    scrollback: Range<u64>,
    generation: Generation,
}

impl TryFrom<SnapshotData> for Snapshot {
    type Error = &'static str;

    fn try_from(data: SnapshotData) -> Result<Self, Self::Error> {
        if data.lines.len() != usize::from(data.size.rows()) {
            return Err("a snapshot does not have a line for each row");
        }
        let mut snapshot = Self::new(data.size, data.lines, data.cursor, data.generation);
        snapshot.title = data.title;
        snapshot.modes = data.modes;
        snapshot.palette = data.palette;
        snapshot.scrollback = data.scrollback;
        Ok(snapshot)
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.bits())
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u16::deserialize(deserializer).map(Self::from_bits)
    }
}

impl Serialize for Modes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.bits())
    }
}

impl<'de> Deserialize<'de> for Modes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u16::deserialize(deserializer).map(Self::from_bits)
    }
}
