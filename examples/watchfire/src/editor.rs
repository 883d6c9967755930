//! The person's editor.

use std::io::Write as _;

use watchfire_core::process::{CommandSpec, SpawnOptions, resolve_program, spawn};
use watchfire_core::{Error, ErrorKind, Result};

use crate::failure;

/// Lets the person change a text in `$VISUAL` or `$EDITOR`, and saves the changed text with `save`. If that fails, the file
/// with the text stays, and the error names it.
///
/// # Errors
/// `cancelled` if the editor ends with an error; the errors of `save`.
pub(crate) async fn edit<T>(
    text: &str,
    name: &str,
    save: impl AsyncFnOnce(String) -> Result<T>,
) -> failure::Result<T> {
    let failed = |e| Error::io("writing the file to edit", e);
    let mut file = tempfile::Builder::new()
        .prefix(&format!("watchfire-{name}-"))
        // The suffix lets editors choose the mode for Markdown.
        .suffix(".md")
        .tempfile()
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".into());
    // Like git: the variable is a shell command, which may have arguments of its own.
    let spec = CommandSpec::new(resolve_program("sh".as_ref())?)
        .with_arg("-c")
        .with_arg({
            let mut line = editor.clone();
            line.push(" \"$1\"");
            line
        })
        // The first is `$0`, the second is `$1` of the command.
        .with_args([editor.as_os_str(), file.path().as_os_str()])
        .with_envs(std::env::vars_os());
    let options = SpawnOptions::default()
        .with_stdin(std::process::Stdio::inherit())
        .with_stdout(std::process::Stdio::inherit())
        .with_stderr(std::process::Stdio::inherit());
    let status = spawn(&spec, options)?.wait().map_err(|e| Error::io("waiting for the editor", e))?;
    // `:cq` in vim, for example: the person does not want the change.
    if !status.success() {
        let error = Error::new(ErrorKind::Cancelled, "the editor ended with an error; nothing is changed");
        return Err(error.with("editor", editor.display()).into());
    }
    // By path: many editors replace the file, so our handle may be the old one.
    let saved = match std::fs::read_to_string(file.path()) {
        Ok(text) => save(text).await,
        Err(error) => Err(Error::io("reading the edited file", error)),
    };
    Ok(saved.map_err(|error| match (file.keep(), error.detail("hint")) {
        (Ok((_, path)), None) => error.with("hint", format_args!("your text is kept in {}", path.display())),
        // An error has one hint.
        (Ok((_, path)), Some(_)) => error.with("your text is kept in", path.display()),
        (Err(_), _) => error,
    })?)
}
