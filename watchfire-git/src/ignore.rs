//! Ignore rules, for a folder that is not opened as a repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::Repository;
use watchfire_core::Result;

use crate::error::During;
use crate::repository::Project;

/// The rules that hold in an agent's folder: its `.gitignore` files, the repository's `info/exclude` and the person's.
pub(crate) struct Ignore {
    repo: Repository,
}

impl Ignore {
    /// The rules for `folder`. The repository is opened by its own path; nothing in the folder says where it is.
    pub(crate) fn new(project: &Project, folder: &Path) -> Result<Self> {
        let repo = Repository::open_bare(&project.common).during("opening the repository")?;
        repo.set_workdir(folder, false).during("opening the repository")?;
        Ok(Self { repo })
    }

    /// Whether `path`, relative to the folder, is ignored.
    pub(crate) fn matches(&self, path: &[u8]) -> Result<bool> {
        self.repo.is_path_ignored(Path::new(OsStr::from_bytes(path))).during("reading the ignore rules")
    }
}
