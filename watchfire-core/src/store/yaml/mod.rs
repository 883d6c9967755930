//! Tasks and the project as YAML files.

pub(in crate::store) mod atomic;
mod claims;
pub(in crate::store) mod document;
mod documents;
mod engine;
pub(in crate::store) mod follow;
mod options;
mod queue;
mod revision;
mod scan;
mod store;
mod text;

pub(in crate::store) use engine::{PATIENCE, already_exists};
pub use options::{Watching, YamlOptions};
pub(in crate::store) use queue::Queue;
pub(in crate::store) use revision::revision;
pub use store::YamlStore;
pub(in crate::store) use store::blocking;
pub(crate) use text::{line_of_key, read_task, read_written_task, render_task};
