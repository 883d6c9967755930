//! Recordings in asciinema's format, versions 2 and 3: written, read, and replayed.
//!
//! ```
//! use std::time::Duration;
//! use watchfire_term::asciicast::{Event, EventKind, Header, Reader, Recorder};
//! use watchfire_term::Size;
//!
//! let mut file = Vec::new();
//! let mut recorder = Recorder::new(&mut file, &Header::new(Size::new(80, 24)))?;
//! recorder.output(Duration::from_millis(500), b"hello")?;
//! recorder.finish()?;
//!
//! let mut events = Reader::new(&file[..])?;
//! let event = events.next().transpose()?;
//! assert_eq!(event, Some(Event { at: Duration::from_millis(500), kind: EventKind::Output("hello".into()) }));
//! # Ok::<(), watchfire_term::asciicast::CastError>(())
//! ```

mod event;
mod reader;
mod recorder;
mod replay;

pub use event::{CastError, Event, EventKind, Header, Version};
pub use reader::Reader;
pub use recorder::Recorder;
pub use replay::{Replay, rechunk};
