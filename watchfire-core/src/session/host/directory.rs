//! The folder of a session: copies of the project's files, its home, its temporary files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::backend::{FileToWrite, LinkToMake};
use crate::files::{Replace, create_private, make_private, remove_tree};
use crate::model::SessionId;
use crate::{Error, ErrorKind, Result};

/// The folders of one session, below `state/<project_id>/sessions/<session>/`. All are private to our user (0700).
#[derive(Clone, Debug)]
pub struct SessionDirectory {
    root: PathBuf,
}

impl SessionDirectory {
    /// Creates the folders of `session`.
    ///
    /// # Errors
    /// I/O errors; `already_exists` when the session had folders before.
    pub fn create(sessions: &Path, session: &SessionId) -> Result<Self> {
        make_private(sessions)?;
        let sessions = sessions
            // Sandboxes mount and compare real paths. A home behind a link would not match their rules.
            .canonicalize()
            .map_err(|e| Error::io("opening the sessions' folder", e).with_path(sessions))?;
        let root = sessions.join(session.as_str());
        create_private(&root)?;
        let directory = Self { root };
        let tasks = directory.files().join("tasks");
        for folder in [directory.files(), tasks, directory.home(), directory.tmp(), directory.bin()] {
            create_private(&folder)?;
        }
        Ok(directory)
    }

    /// Returns the folders that an earlier process made at `root`.
    #[must_use]
    pub fn existing(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the session whose folders these are, unless the folder has another name.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        self.root.file_name()?.to_str()?.parse().ok()
    }

    /// Returns the folder that contains the others.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that the agent sees in place of the project's `.watchfire`.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Returns the session home, with the backend's configuration.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the file with the vendor's session id, out of the agent's reach.
    #[must_use]
    pub fn vendor_session(&self) -> PathBuf {
        self.root.join("vendor-session")
    }

    /// Returns the folder that becomes `TMPDIR`.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Returns the folder with commands for the agent, which it can only read.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Writes a command for the agent: a script, because a link could not carry the words that make our program a helper.
    pub(crate) fn write_command(&self, name: &str, line: &[OsString]) -> Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut script = b"#!/bin/sh\nexec".to_vec();
        for word in line {
            script.extend_from_slice(b" '");
            for byte in word.as_bytes() {
                match byte {
                    b'\'' => script.extend_from_slice(b"'\\''"),
                    byte => script.push(*byte),
                }
            }
            script.push(b'\'');
        }
        script.extend_from_slice(b" \"$@\"\n");
        Replace::new().with_mode(0o700).write(&self.bin().join(name), &script)
    }

    /// Writes the backend's files and makes its links below the home. Must be called before anything runs there.
    ///
    /// # Errors
    /// `invalid_input` for a path that leaves the home; I/O errors.
    pub(crate) fn write_home(&self, files: &[FileToWrite], links: &[LinkToMake]) -> Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        for file in files {
            let path = self.below_home(&file.path)?;
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
                let mut options = std::fs::OpenOptions::new();
                // Two files with one path are a mistake of the backend, which should not show as lost
                // settings.
                let mut out = options.write(true).create_new(true).mode(file.mode).open(&path)?;
                out.write_all(&file.bytes)
            });
            written.map_err(|e| Error::io("writing a file of the session home", e).with_path(path))?;
        }
        for link in links {
            let path = self.below_home(&link.path)?;
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::os::unix::fs::symlink(&link.target, &path))
                .map_err(|e| Error::io("making a link of the session home", e).with_path(path))?;
        }
        Ok(())
    }

    fn below_home(&self, path: &Path) -> Result<PathBuf> {
        // A backend may be a third party's. Its `..` must not reach the copies or another session.
        let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside || path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a backend's file must lie below its session home",
            )
            .with_path(path));
        }
        Ok(self.home().join(path))
    }

    /// Removes the folder. Symbolic links in it are removed, not followed.
    ///
    /// # Errors
    /// I/O errors. A missing folder is no error.
    pub fn remove(&self) -> Result<()> {
        remove_tree(&self.root).map_err(|e| Error::io("removing a session's folder", e).with_path(&self.root))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn session() -> SessionId {
        "s1".parse().unwrap()
    }

    #[test]
    fn folders_are_private_and_go_away() {
        let temp = tempfile::tempdir().unwrap();
        let directory = SessionDirectory::create(&temp.path().join("sessions"), &session()).unwrap();
        for path in [directory.root().to_owned(), directory.files(), directory.home(), directory.tmp()] {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{path:?}");
        }
        let stubborn = directory.tmp().join("a");
        std::fs::create_dir(&stubborn).unwrap();
        std::fs::write(stubborn.join("b"), "").unwrap();
        std::fs::set_permissions(&stubborn, std::fs::Permissions::from_mode(0o500)).unwrap();
        std::os::unix::fs::symlink(temp.path(), directory.tmp().join("link")).unwrap();
        directory.remove().unwrap();
        assert!(!directory.root().exists() && temp.path().exists());
        directory.remove().unwrap();
    }

    #[test]
    fn files_stay_below_the_home() {
        let temp = tempfile::tempdir().unwrap();
        let directory = SessionDirectory::create(temp.path(), &session()).unwrap();
        let file = |path: &str| FileToWrite { path: path.into(), bytes: b"x".to_vec(), mode: 0o600 };
        let link = LinkToMake { path: "a/link".into(), target: temp.path().to_owned() };
        directory.write_home(&[file("a/b.json")], &[link]).unwrap();
        assert_eq!(std::fs::read_link(directory.home().join("a/link")).unwrap(), temp.path());
        assert_eq!(std::fs::read(directory.home().join("a/b.json")).unwrap(), b"x");
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert_eq!(
                directory.write_home(&[file(path)], &[]).unwrap_err().code(),
                "invalid_input",
                "{path}"
            );
        }
    }
}
