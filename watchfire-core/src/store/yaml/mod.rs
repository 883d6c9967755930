//! Tasks and the project as YAML files.

pub(crate) mod agent;
pub(in crate::store) mod atomic;
pub(in crate::store) mod document;
mod engine;
pub(in crate::store) mod files;
pub(in crate::store) mod follow;
pub(in crate::store) mod lock;
mod options;
mod scan;
mod store;
mod watch;

pub(in crate::store) use engine::{already_exists, private_dir};
pub use options::{Watching, YamlOptions};
pub use store::YamlStore;
pub(in crate::store) use store::blocking;
