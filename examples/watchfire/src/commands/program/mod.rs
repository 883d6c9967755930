//! About the program itself: its version, its manual, its completions.

mod completions;
mod manual;
mod version;

pub(crate) use completions::CompletionsArgs;
pub(in crate::commands) use completions::run as completions;
pub(crate) use manual::ManualArgs;
pub(in crate::commands) use manual::run as manual;
pub(in crate::commands) use version::run as version;
