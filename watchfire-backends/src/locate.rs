//! Finding programs and their versions without starting them.

use std::fs;
use std::path::Path;

use watchfire_core::backend::{Located, ProgramSearch};
use watchfire_core::{Error, Result};

/// Where programs are put that are not on `PATH`.
const PLACES: &[&str] =
    &["~/.local/bin", "~/.npm-global/bin", "~/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Finds `program` of an npm package. Versions whose first two numbers are those of `tested` count as tested.
pub(crate) fn npm(
    search: &ProgramSearch,
    program: &str,
    more_places: &[&str],
    tested: &str,
    hint: Option<String>,
) -> Result<Located> {
    let places: Vec<&str> = more_places.iter().chain(PLACES).copied().collect();
    let path = search.find(program, &places).map_err(|error| with_hint(error, hint))?;
    let mut located = Located::new(path);
    located.version = version(&located.program);
    located.tested = located.version.as_ref().map(|version| release(version) == release(tested));
    Ok(located)
}

/// Adds how to install what is missing.
pub(crate) fn with_hint(error: Error, hint: Option<String>) -> Error {
    match hint {
        Some(hint) => error.with("hint", hint),
        None => error,
    }
}

/// The version in the nearest `package.json` above the program, or in the name of the program's own file, as some
/// installers name it.
fn version(program: &Path) -> Option<String> {
    let real = fs::canonicalize(program).ok()?;
    let name = real.file_name()?.to_str()?;
    if name.split('.').count() >= 3 && name.split('.').all(|part| part.parse::<u32>().is_ok()) {
        return Some(name.to_owned());
    }
    let package =
        real.ancestors().skip(1).take(4).map(|dir| dir.join("package.json")).find(|path| path.is_file())?;
    let package: serde_json::Value = serde_json::from_slice(&fs::read(package).ok()?).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}

fn release(version: &str) -> Vec<&str> {
    version.split('.').take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn reads_the_version_without_starting_anything() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("lib/node_modules/@v/agent");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::write(package.join("package.json"), r#"{"name":"@v/agent","version":"2.1.330"}"#).unwrap();
        fs::write(package.join("bin/agent.js"), "").unwrap();
        fs::set_permissions(package.join("bin/agent.js"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../lib/node_modules/@v/agent/bin/agent.js", dir.path().join("bin/agent")).unwrap();
        let search = ProgramSearch::new(Some(dir.path().join("bin").into()), None);
        let found = npm(&search, "agent", &[], "2.1.9", None).unwrap();
        assert_eq!((found.version.as_deref(), found.tested), (Some("2.1.330"), Some(true)));
        let found = npm(&search, "agent", &[], "2.0.0", None).unwrap();
        assert_eq!(found.tested, Some(false));
        let error = npm(&search, "other", &[], "1", Some("npm i other".into())).unwrap_err();
        assert_eq!(error.detail("hint"), Some("npm i other"));
    }
}
