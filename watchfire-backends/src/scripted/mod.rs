#![doc = include_str!("../../docs/scripted.md")]

mod agent;
mod backend;
mod client;
mod screen;
mod script;
mod signals;
mod task_file;

pub use agent::run;
pub use backend::Scripted;

/// Variable that names the file with the script.
pub const SCRIPT: &str = "WATCHFIRE_SCRIPT";
/// Variable that names the session's own copy of the task file, set for every agent that has a task.
pub const TASK_FILE: &str = "WATCHFIRE_TASK_FILE";
/// Variable that names the folder for signal files, set for every agent whose mode ends with one.
pub const SIGNAL_DIR: &str = "WATCHFIRE_SIGNAL_DIR";
/// First argument of an agent that speaks the Agent Client Protocol.
const ACP: &str = "acp";
/// Variable that names the file for the scripted agent's transcript.
const TRANSCRIPT: &str = "WATCHFIRE_SCRIPTED_TRANSCRIPT";
