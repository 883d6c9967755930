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
//! that time, and what happened there: 0 for output alone; the terminal's new size (columns in the upper half, rows in the
//! lower); or the end (bit 63; with bit 62, the exit code in the lower half). Bytes within 30 ms of an entry have none of
//! their own. The first entry of a segment repeats the size, so that each segment can be played alone. A torn entry at the
//! end of a file is no entry.
//!
//! The writer holds a lock on the folder (`flock`), by which anyone can see whether more may follow.
//!
//! A segment that begins later than the one before it ends marks a gap: output that could not be written, because the
//! disk was full. Only the newest 64 MiB are kept.
//!
//! For a session that can be taken over, the orchestrator keeps a file `checkpoint` beside them: see [`checkpoint`].

mod cast;
mod checkpoint;
mod entry;
mod follow;
mod reader;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use cast::{Asciicast, AsciicastVersion};
pub(crate) use checkpoint::Checkpoints;
pub(in crate::session) use checkpoint::{Checkpoint, LARGEST};
pub use follow::{FollowLines, FollowRecording};
pub use reader::{Recorded, Recording};
pub(in crate::session) use tail::Tail;
pub(in crate::session) use writer::Recorder;
