//! The person's own credential files: one real file, never a copy that could go stale.

use std::fs;
use std::path::Path;

use serde_json::Value;
use watchfire_core::backend::{Grant, Launch};
use watchfire_core::files::Replace;
use watchfire_core::{Error, Result};

/// The launch with a link from `name` in the session's home to the real file, which stays readable and writable.
/// A file that does not exist is not linked: a login inside the session makes it there.
pub(crate) fn link(launch: Launch, name: &str, real: &Path) -> Launch {
    match real.is_file() {
        true => launch.with_link(name, real).with_grant(Grant::Credential(real.to_owned())),
        false => launch,
    }
}

/// The launch with a copy of the file in the session's home, for programs that look where a link leads and replace the
/// file there, in a folder that is closed to them: the renewed token would be lost, and the old one does not work twice.
/// What is renewed is [carried back](carry_back) when the session ends.
pub(crate) fn copy(launch: Launch, name: &str, real: &Path) -> Launch {
    match fs::read(real) {
        Ok(bytes) => launch.with_file(name, bytes),
        Err(_) => launch,
    }
}

/// Carries a credential file back that the vendor's program put in place of the link, as programs do that replace
/// files by renaming: it holds the only token that still works, if the vendor rotates them.
///
/// It replaces the real file only if `issued` (such as the time at which it expires) is later there: a token that
/// another session renewed meanwhile is never undone.
///
/// # Errors
/// When the real file cannot be replaced.
pub(crate) fn carry_back(renewed: &Path, real: &Path, issued: fn(&Value) -> Option<i64>) -> Result<()> {
    let is_file = fs::symlink_metadata(renewed).is_ok_and(|meta| meta.is_file());
    let read = |path: &Path| -> Option<(Vec<u8>, i64)> {
        let bytes = fs::read(path).ok()?;
        let issued = issued(&serde_json::from_slice(&bytes).ok()?)?;
        Some((bytes, issued))
    };
    let Some((bytes, new)) = read(renewed).filter(|_| is_file) else { return Ok(()) };
    if read(real).is_some_and(|(_, old)| old >= new) {
        return Ok(());
    }
    let failed = |error| Error::io("carrying renewed credentials back", error).with_path(real);
    let real = fs::canonicalize(real).unwrap_or_else(|_| real.to_owned());
    if let Some(folder) = real.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    Replace::new().with_mode(0o600).write(&real, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn issued(value: &Value) -> Option<i64> {
        value["at"].as_i64()
    }

    #[test]
    fn only_a_later_token_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (session, real) = (dir.path().join("session.json"), dir.path().join("real.json"));
        let text = || fs::read_to_string(&real).unwrap();
        carry_back(&session, &real, issued).unwrap();
        assert!(!real.exists(), "nothing to carry");

        fs::write(&real, r#"{"at":5}"#).unwrap();
        symlink(&real, &session).unwrap();
        carry_back(&session, &real, issued).unwrap();
        assert_eq!(text(), r#"{"at":5}"#, "still the link");

        fs::remove_file(&session).unwrap();
        for (new, kept) in
            [(r#"{"at":4}"#, r#"{"at":5}"#), ("{", r#"{"at":5}"#), (r#"{"at":6}"#, r#"{"at":6}"#)]
        {
            fs::write(&session, new).unwrap();
            carry_back(&session, &real, issued).unwrap();
            assert_eq!(text(), kept);
        }
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);

        fs::remove_file(&real).unwrap();
        carry_back(&session, &real, issued).unwrap();
        assert_eq!(text(), r#"{"at":6}"#, "a first login");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
