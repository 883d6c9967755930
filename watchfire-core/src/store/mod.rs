//! Seam 3: the place where tasks live.
//!
//! [`TaskStore`] is the trait, one store per project, and [`MemoryStore`] the reference implementation that needs
//! nothing. With the feature `yaml`, `YamlStore` is the default: the files of the spec, edited with care. `Home`
//! holds settings and the index of projects.

mod changes;
mod claim;
#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod document;
#[cfg(feature = "yaml")]
mod home;
mod ledger;
mod memory;
mod patch;
mod plan;
#[cfg(feature = "yaml")]
mod yaml;

pub use claim::{Claim, Fence, Holder};
pub use contract::{
    Change, Changes, Malformed, Revision, TaskList, TaskQuery, TaskStore, TaskStoreExt, Versioned,
};
pub use document::DocumentName;
#[cfg(feature = "yaml")]
pub(crate) use home::take_place;
#[cfg(feature = "yaml")]
pub use home::{Home, HomeChange, HomeChanges, NewProject};
pub use memory::MemoryStore;
pub use patch::{NewTask, Patch, ProjectPatch, TaskPatch};
#[cfg(feature = "yaml")]
pub use yaml::{Watching, YamlOptions, YamlStore};
#[cfg(feature = "yaml")]
pub(crate) use yaml::{line_of_key, read_task, read_written_task, render_task};
