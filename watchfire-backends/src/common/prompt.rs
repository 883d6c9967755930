//! Hands prompts of any length to agents.

use std::path::PathBuf;

use watchfire_core::backend::{Launch, SessionContext};

/// The longest first prompt that goes on the command line, in bytes.
const ARGUMENT: usize = 512;
/// The file for a first prompt that does not go there, below the session's home.
pub(crate) const FILE: &str = "first-prompt.md";
/// The file for our instructions, below the session's home.
pub(crate) const SYSTEM_FILE: &str = "system-prompt.md";

/// A prompt as one line for the command line, and the launch with the file that it points to, if it is long.
pub(crate) fn first_line(
    launch: Launch,
    context: &SessionContext,
    prompt: Option<&str>,
) -> (Launch, Option<String>) {
    let Some(prompt) = prompt.map(str::trim).filter(|text| !text.is_empty()) else {
        return (launch, None);
    };
    let plain = prompt.len() <= ARGUMENT && !prompt.contains(char::is_control) && !prompt.starts_with('-');
    if plain {
        return (launch, Some(prompt.to_owned()));
    }
    let (launch, path) = in_file(launch, context, FILE, prompt);
    (launch, Some(pointer(&path)))
}

/// The launch with `text` in a file below the session's home, and the path of that file.
pub(crate) fn in_file(launch: Launch, context: &SessionContext, name: &str, text: &str) -> (Launch, PathBuf) {
    let path = context.home.join(name);
    (launch.with_file(name, text), path)
}

/// Returns the words that stand in for a long text.
pub(crate) fn pointer(path: &std::path::Path) -> String {
    format!("Read the file {} and do what it says.", path.display())
}
