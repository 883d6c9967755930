//! The repositories of a project: one, or several.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchfire_core::store::Home;
use watchfire_core::workspace::Workspace;
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_git::diff::{Diff, DiffRequest};
use watchfire_git::{GitOptions, GitWorkspace, JointWorkspace};

/// The repositories of a project.
#[derive(Clone, Debug)]
pub enum Repositories {
    /// The project's own.
    One(GitWorkspace),
    /// The project's own and others.
    Several(JointWorkspace),
}

impl Repositories {
    /// Opens the repositories of the project at `root`, as its file names them and the settings of the home allow.
    ///
    /// # Errors
    /// Errors of the home, the project's file and the repositories.
    pub async fn open(home: &Home, root: &Path) -> Result<Self> {
        Self::open_with(home, root, &home.repositories(root).await?, GitOptions::default()).await
    }

    /// Opens the repository at `root` and the `others`, whose paths are relative to it.
    ///
    /// # Errors
    /// Errors of the home and the repositories; `not_supported` for others beside a folder without git.
    pub async fn open_with(
        home: &Home,
        root: &Path,
        others: &[PathBuf],
        options: GitOptions,
    ) -> Result<Self> {
        let own = Self::own(home, root, options.clone()).await?;
        if others.is_empty() {
            return Ok(Self::One(own));
        }
        if own.has_snapshots() {
            let message = "a folder without git cannot work together with repositories";
            return Err(Error::new(ErrorKind::NotSupported, message)
                .with("file", "project.yaml")
                .with("field", "repositories")
                .with("hint", "run `git init` in the folder, or take `repositories` out"));
        }
        JointWorkspace::open(root, options, others).map(Self::Several)
    }

    /// Opens the project's own repository, or the snapshots of its folder.
    ///
    /// # Errors
    /// Errors of the home and the repository.
    pub async fn own(home: &Home, root: &Path, options: GitOptions) -> Result<GitWorkspace> {
        match home.snapshots_dir(root).await? {
            Some(store) => GitWorkspace::open_with_snapshots(root, store, options),
            None => GitWorkspace::open(root, options),
        }
    }

    /// Returns them as the workspace of an orchestrator.
    #[must_use]
    pub fn into_workspace(self) -> Arc<dyn Workspace> {
        match self {
            Self::One(one) => Arc::new(one),
            Self::Several(several) => Arc::new(several),
        }
    }

    /// Returns them as a workspace.
    #[must_use]
    pub fn workspace(&self) -> &dyn Workspace {
        match self {
            Self::One(one) => one,
            Self::Several(several) => several,
        }
    }

    /// Returns the changes of the work under a key in each repository, with its path relative to the root. That of the
    /// project's own is empty.
    ///
    /// # Errors
    /// `not_found` if no work was opened under this key; errors of the disk.
    pub async fn diffs(&self, request: &DiffRequest) -> Result<Vec<(PathBuf, Diff)>> {
        match self {
            Self::One(one) => Ok(vec![(PathBuf::new(), one.diff(request).await?)]),
            Self::Several(several) => several.diffs(request).await,
        }
    }
}
