//! Work in several repositories at once.
//!
//! The project's own repository holds the records: the layout of each work, the claim's fence, and the intent of a joint
//! publication. In every other repository the work has a branch, a folder and records of its own, under a key that names the
//! project, so that such a repository can be a project too.
//!
//! A joint publication moves all targets or none. Only a kill, or a target that another process moves in the same moment,
//! can come in between. The intent then says what is missing: it is completed at the next start, or, if that cannot be, the
//! work is held as half published.

mod intent;
mod list;
mod merge;
mod publish;
mod recover;
mod repositories;
mod revert;
mod work;
mod workspace;

pub use workspace::JointWorkspace;
