//! Shares the person's credential files with sessions. A linked file is never stale; a copied one is carried back
//! when the session renewed it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use watchfire_core::backend::{Grant, Launch};
use watchfire_core::files::Replace;
use watchfire_core::{Error, Result};

/// Adds a link from `name` in the session's home to the real file, which stays readable and writable. A file that
/// does not exist is not linked: a login inside the session then creates a file in the home.
pub(crate) fn link(launch: Launch, name: &str, real: &Path) -> Launch {
    match real.is_file() {
        true => launch.with_link(name, real).with_grant(Grant::Credential(real.to_owned())),
        false => launch,
    }
}

/// Adds a copy of the file to the session's home. This is for programs that follow the link and replace the real
/// file, in a folder that is closed to them: the renewed token would be lost, and the old one does not work twice. A
/// renewed copy is [carried back](carry_back) when the session ends.
pub(crate) fn copy(launch: Launch, name: &str, real: &Path) -> Launch {
    match fs::read(real) {
        Ok(bytes) => launch.with_file(name, bytes),
        // Without a file that we can read the agent asks for a login and creates one.
        Err(_) => launch,
    }
}

/// Copies a credential file back that the vendor's program put in place of the link, as programs do that replace
/// files by renaming. If the vendor rotates tokens, this file holds the only one that still works.
///
/// The real file is replaced only if `issued` (such as the time of expiry) is later in the renewed one, so that a
/// token that another session has renewed since is never undone.
///
/// # Errors
/// When the real file cannot be replaced.
pub(crate) fn carry_back(renewed: &Path, real: &Path, issued: fn(&Value) -> Option<i64>) -> Result<()> {
    // A link here is still our own: the program wrote to the real file itself.
    let is_file = fs::symlink_metadata(renewed).is_ok_and(|meta| meta.is_file());
    let read = |path: &Path| -> Option<(Vec<u8>, i64)> {
        let bytes = fs::read(path).ok()?;
        let issued = issued(&serde_json::from_slice(&bytes).ok()?)?;
        Some((bytes, issued))
    };
    // A file without a token in it, such as one after a logout, never replaces a login.
    let Some((bytes, new)) = read(renewed).filter(|_| is_file) else { return Ok(()) };
    if read(real).is_some_and(|(_, old)| old >= new) {
        return Ok(());
    }
    let failed = |error| Error::io("carrying renewed credentials back", error).with_path(real);
    // The person's file may be a link to another place, such as a repository of dotfiles. Renaming would
    // replace the link.
    let real = fs::canonicalize(real).unwrap_or_else(|_| real.to_owned());
    if let Some(folder) = real.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // Private, whatever mode the vendor's program gave its file.
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
