//! Passes prompts of any length to agents: short ones as an argument, long ones as a file and a line that names it.

use std::path::PathBuf;

use watchfire_core::backend::{Launch, SessionContext};

/// Longest first prompt on the command line, in bytes.
const ARGUMENT: usize = 512;
/// File for a first prompt that does not fit there, below the session's home.
pub(crate) const FILE: &str = "first-prompt.md";
/// File for our instructions, below the session's home.
pub(crate) const SYSTEM_FILE: &str = "system-prompt.md";

/// Returns a prompt as one line for the command line. A long prompt is added to the launch as a file, and the line
/// points to that.
pub(crate) fn first_line(
    launch: Launch,
    context: &SessionContext,
    prompt: Option<&str>,
) -> (Launch, Option<String>) {
    let Some(prompt) = prompt.map(str::trim).filter(|text| !text.is_empty()) else {
        return (launch, None);
    };
    // A prompt that begins with `-` would be read as a flag.
    let plain = prompt.len() <= ARGUMENT && !prompt.contains(char::is_control) && !prompt.starts_with('-');
    if plain {
        return (launch, Some(prompt.to_owned()));
    }
    let (launch, path) = in_file(launch, context, FILE, prompt);
    (launch, Some(pointer(&path)))
}

/// Adds a file with `text` below the session's home, and returns its path.
pub(crate) fn in_file(launch: Launch, context: &SessionContext, name: &str, text: &str) -> (Launch, PathBuf) {
    let path = context.home.join(name);
    (launch.with_file(name, text), path)
}

/// Returns the line that stands in for a long text.
pub(crate) fn pointer(path: &std::path::Path) -> String {
    format!("Read the file {} and do what it says.", path.display())
}
