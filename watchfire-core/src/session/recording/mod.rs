//! The recording of a session: every byte that its agent wrote, with the times.
//!
//! The guardian writes it, and it alone; the orchestrator and everyone else read the files. A recording is a folder of
//! segments. A segment is two files, named by the offset of their first byte in hexadecimal:
//!
//! ```text
//! 0000000000000000.out   the bytes as they were read, at most 4 MiB
//! 0000000000000000.idx   entries of 24 bytes: time, offset, size
//! ```
//!
//! An entry is three little-endian numbers of 64 bits: milliseconds since 1970, the offset of the first byte that came at
//! that time, and the size of the terminal if it changed there (columns in the upper half, rows in the lower), else 0.
//! Bytes within 30 ms of an entry have none of their own. The first entry of a segment repeats the size, so that each
//! segment can be played alone. A torn entry at the end of a file is no entry.
//!
//! A segment that begins later than the one before it ends marks a gap: output that could not be written, because the
//! disk was full. Only the newest 64 MiB are kept.

mod cast;
mod entry;
mod reader;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use cast::AsciicastVersion;
pub use reader::{Recorded, Recording};
pub(in crate::session) use tail::Tail;
pub(in crate::session) use writer::Recorder;
