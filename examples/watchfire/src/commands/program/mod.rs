//! About the program itself: its version, its manual, its completions, the schemas of its files.

mod completions;
mod manual;
pub(super) mod schema;
mod version;

pub(crate) use completions::CompletionsArgs;
pub(in crate::commands) use completions::run as completions;
pub(crate) use manual::ManualArgs;
pub(in crate::commands) use manual::run as manual;
pub(crate) use schema::SchemaArgs;
pub(in crate::commands) use schema::run as schema;
pub(in crate::commands) use version::run as version;
