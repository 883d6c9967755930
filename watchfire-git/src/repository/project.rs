//! The repository of a project: the paths of its parts, handles on it, and its references.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, RepositoryOpenFlags};
use watchfire_core::workspace::{Commit, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, Said, broken};
use crate::failpoint::reached;
use crate::files::{self, FileLock};
use crate::names;
use crate::options::GitOptions;
use crate::repository::special;

/// Maximum time for which a call waits for another one that changes the same repository.
const PATIENCE: Duration = Duration::from_secs(30);

/// The parts of a project's repository. Found once from the root, before any agent runs, so that nothing an
/// agent writes decides where they are.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The project's root, which is the top of a checkout.
    pub(crate) root: PathBuf,
    /// The git directory of that checkout.
    pub(crate) git: PathBuf,
    /// The git directory that all checkouts of the repository share.
    pub(crate) common: PathBuf,
    pub(crate) options: GitOptions,
    /// Time at which the repository was found. A lock of ours that is older was left by a process that was
    /// killed.
    pub(crate) opened: std::time::SystemTime,
}

impl Project {
    /// Finds the repository whose checkout `root` is.
    pub(crate) fn find(root: &Path, options: GitOptions) -> Result<Self> {
        let given = root;
        let root =
            root.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(given))?;
        let none: [&Path; 0] = [];
        let repo = git2::Repository::open_ext(&root, RepositoryOpenFlags::empty(), none).map_err(|e| {
            // libgit2 has no error codes for these: only the message says what it does not support.
            let unsupported = e.message().contains("unsupported extension")
                || e.message().contains("unsupported repository version")
                || e.message().contains("object format");
            let (kind, message) = match e.code() {
                git2::ErrorCode::NotFound => {
                    (ErrorKind::NotFound, "the project is not a git repository: run `git init` there first")
                }
                git2::ErrorCode::Owner => (
                    ErrorKind::PermissionDenied,
                    "the repository belongs to another user: add it to git's safe.directory if you trust it",
                ),
                _ if unsupported => (ErrorKind::NotSupported, unsupported_format(e.message())),
                _ => (ErrorKind::Io, "opening the repository"),
            };
            Error::new(kind, message).with_path(&root).with_source(Said(e))
        })?;
        if is_partial(&repo)? {
            return Err(Error::new(ErrorKind::NotSupported, PARTIAL).with_path(&root));
        }
        let Some(top) = repo.workdir() else {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "the project is a bare repository: give the root of a checkout of it (`git worktree add`)",
            )
            .with_path(&root));
        };
        let top = top.canonicalize().during("opening the checkout")?;
        if top != root {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "the project is a folder inside a repository: make the top of the repository the project",
            )
            .with_path(&root)
            .with("top", top.display()));
        }
        let git = repo.path().canonicalize().during("opening the repository")?;
        let common = repo.commondir().canonicalize().during("opening the repository")?;
        Ok(Self { root, git, common, options, opened: std::time::SystemTime::now() })
    }

    /// Opens a handle on the repository with the person's checkout.
    pub(crate) fn open(&self) -> Result<git2::Repository> {
        // Before libgit2 lists branches: a FIFO of an agent's among them would block it.
        special::sweep_branches(self);
        // The path is known: nothing is searched for, and no `.git` is appended.
        let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
        let none: [&Path; 0] = [];
        let repo = git2::Repository::open_ext(&self.git, flags, none).during("opening the repository")?;
        if repo.is_bare() {
            return Err(broken("the repository has become bare").with_path(&self.git));
        }
        Ok(repo)
    }

    /// Returns the folder that holds the folders of all agents.
    pub(crate) fn worktrees(&self) -> PathBuf {
        self.root.join(".watchfire").join("worktrees")
    }

    /// Returns the folder of one agent.
    pub(crate) fn worktree(&self, key: &WorkspaceKey) -> PathBuf {
        self.worktrees().join(key.to_string())
    }

    /// Returns git's administration of the agent's folder.
    pub(crate) fn admin(&self, key: &WorkspaceKey) -> PathBuf {
        self.common.join("worktrees").join(names::admin(key))
    }

    /// Returns the folder of our records. Agents can neither read nor write it.
    pub(crate) fn state(&self) -> PathBuf {
        self.common.join("watchfire")
    }

    /// Returns the folder of our records, and creates it if it is missing.
    pub(crate) fn shared(&self) -> PathBuf {
        let state = self.state();
        // No error here: the first write into the folder fails with the same reason.
        if let Err(error) = files::make_shared(&state) {
            tracing::warn!(path = %state.display(), %error, "the folder for records cannot be made");
        }
        state
    }

    /// Takes the lock that keeps other processes of ours from changing the repository. Held until the result
    /// is dropped.
    pub(crate) fn lock(&self) -> Result<FileLock> {
        files::lock(&self.state().join("lock"), PATIENCE)
    }

    /// Creates the folder that holds the folders of agents, and returns an error if a link leads it
    /// elsewhere.
    pub(crate) fn make_worktrees(&self) -> Result<PathBuf> {
        let folder = self.worktrees();
        fs::create_dir_all(&folder)
            .map_err(|e| Error::io("creating the worktrees folder", e).with_path(&folder))?;
        let real = folder.canonicalize().map_err(|e| Error::io("opening a folder", e).with_path(&folder))?;
        if real != folder {
            return Err(broken(".watchfire leads elsewhere by a symbolic link: make it a plain folder")
                .with_path(&folder)
                .with("leads_to", real.display()));
        }
        Ok(folder)
    }

    /// Returns the branch to start from and merge into if a request names none.
    pub(crate) fn default_target(&self, repo: &git2::Repository) -> Result<String> {
        if let Some(branch) = &self.options.default_branch {
            return Ok(branch.clone());
        }
        let detached = || {
            Error::new(
                ErrorKind::NotSupported,
                "no branch is checked out in the project (HEAD is detached): check one out, or set default_branch",
            )
            .with_path(&self.root)
        };
        // Not `repo.head()`: that fails on a branch without a commit.
        let head = repo.find_reference("HEAD").during("reading HEAD")?;
        let name = head.symbolic_target().during("reading HEAD")?.ok_or_else(detached)?;
        name.strip_prefix("refs/heads/").map(str::to_owned).ok_or_else(detached)
    }
}

const PARTIAL: &str = "the repository is a partial clone, and contents that are not there cannot be merged: clone it again \
                       without --filter";

/// Returns true if the repository may lack contents that git would fetch when it needs them. libgit2 opens
/// such a repository without an error.
fn is_partial(repo: &git2::Repository) -> Result<bool> {
    let during = "reading the configuration";
    let config = repo.config().and_then(|mut config| config.snapshot()).during(during)?;
    let mut is_partial = config.get_str("extensions.partialclone").is_ok();
    let remotes = config.entries(Some("^remote\\..*\\.promisor$")).during(during)?;
    let is_on = |entry: &git2::ConfigEntry<'_>| {
        // A setting without a value is true in git.
        entry.value().ok().is_none_or(|value| git2::Config::parse_bool(value).unwrap_or(true))
    };
    remotes.for_each(|entry| is_partial |= is_on(entry)).during(during)?;
    Ok(is_partial)
}

/// Explains which format libgit2 refused with `message`, and what to do about it.
fn unsupported_format(message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let known = [
        ("partialclone", PARTIAL),
        (
            "refstorage",
            "the repository keeps its references as reftable: run `git refs migrate --ref-format=files` in it",
        ),
        (
            "object",
            "the repository names its objects by sha256: use a repository with sha1, git's default object format",
        ),
    ];
    let cure = known.into_iter().find(|(name, _)| message.contains(name)).map(|(_, cure)| cure);
    cure.unwrap_or(
        "the repository uses a format that libgit2 cannot read: see extensions.* in its configuration",
    )
}

/// Returns the commit that a reference points to, or `None` if there is no such reference.
pub(crate) fn tip(repo: &git2::Repository, name: &str) -> Result<Option<Oid>> {
    match repo.find_reference(name).and_then(|reference| reference.peel_to_commit()) {
        Ok(commit) => Ok(Some(commit.id())),
        Err(e) if matches!(e.code(), git2::ErrorCode::NotFound | git2::ErrorCode::UnbornBranch) => Ok(None),
        Err(e) => Err(e).during(format!("reading {name}")),
    }
}

/// Moves a reference from `old` to `new` by compare-and-swap. Returns false if it is not at `old`. `None` as
/// `old` means that the reference must not exist.
pub(crate) fn move_ref(
    repo: &git2::Repository,
    name: &str,
    old: Option<Oid>,
    new: Oid,
    message: &str,
) -> Result<bool> {
    reached("reference: before");
    let moved = match old {
        Some(old) => repo.reference_matching(name, new, true, old, message),
        // Without `force` libgit2 refuses a reference that exists.
        None => repo.reference(name, new, false, message),
    };
    match moved {
        Ok(_) => {
            reached("reference: moved");
            Ok(true)
        }
        Err(e)
            if matches!(
                e.code(),
                git2::ErrorCode::Modified | git2::ErrorCode::Exists | git2::ErrorCode::NotFound
            ) =>
        {
            Ok(false)
        }
        Err(e) => Err(e).during(format!("moving {name}")),
    }
}

/// Deletes a reference if it is still at `old`. Returns true if the reference is gone.
pub(crate) fn delete_ref(repo: &git2::Repository, name: &str, old: Oid) -> Result<bool> {
    let mut reference = match repo.find_reference(name) {
        Ok(reference) => reference,
        Err(e) if e.code() == git2::ErrorCode::NotFound => return Ok(true),
        Err(e) => return Err(e).during(format!("reading {name}")),
    };
    if reference.target() != Some(old) {
        return Ok(false);
    }
    reached("reference: before deletion");
    match reference.delete() {
        Ok(()) => {
            reached("reference: deleted");
            Ok(true)
        }
        // libgit2 compares once more under its lock: another process has moved the reference since.
        Err(e) if e.code() == git2::ErrorCode::Modified => Ok(false),
        Err(e) => Err(e).during(format!("deleting {name}")),
    }
}

/// Turns an object id into the type of the seam.
pub(crate) fn commit(id: Oid) -> Commit {
    Commit::new(id.to_string())
}

/// Parses an object id of the seam.
pub(crate) fn oid(commit: &Commit) -> Result<Oid> {
    Oid::from_str(commit.as_str()).map_err(|e| {
        Error::new(ErrorKind::InvalidInput, "no object id, expected 40 hexadecimal digits")
            .with("value", commit.as_str())
            .with_source(Said(e))
    })
}
