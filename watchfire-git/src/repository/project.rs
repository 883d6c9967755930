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
use crate::plain::store;
use crate::repository::layout::Layout;
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
    /// The project whose work this repository has a part of. `None` in the project itself.
    pub(crate) part_of: Option<PartOf>,
    pub(crate) kind: Kind,
    /// The store of snapshots from before the folder had a repository, if there is one.
    pub(crate) before: Option<Box<Self>>,
}

/// Kind of a project's repository.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A repository of a person's.
    Git,
    /// A store of snapshots of a folder without git.
    Plain,
    /// Such a store of a folder that has a repository now. Work in it is kept, and none begins or is published.
    Past,
}

/// The project that works in a repository other than its own.
#[derive(Clone, Debug)]
pub(crate) struct PartOf {
    /// Name of that project, as keys of its parts have it.
    pub(crate) name: String,
    /// Root of that project.
    pub(crate) root: PathBuf,
    /// Folder of that project's records.
    pub(crate) state: PathBuf,
    /// Path of this repository, relative to that root.
    pub(crate) at: PathBuf,
}

impl Project {
    /// Finds the repository whose checkout `root` is.
    pub(crate) fn find(root: &Path, options: GitOptions) -> Result<Self> {
        let given = root;
        let root =
            root.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(given))?;
        let repo = open_supported(&root)?;
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
        let kind = Kind::Git;
        let opened = std::time::SystemTime::now();
        Ok(Self { root, git, common, options, opened, part_of: None, kind, before: None })
    }

    /// Makes the project of a folder whose snapshots are in `store`. Both paths are real.
    pub(crate) fn plain(root: PathBuf, store: PathBuf, options: GitOptions, kind: Kind) -> Self {
        let opened = std::time::SystemTime::now();
        let (git, common) = (store.clone(), store);
        Self { root, git, common, options, opened, part_of: None, kind, before: None }
    }

    /// Returns the project that holds the work under `key`: this one, or its snapshots from before it had a repository.
    pub(crate) fn holding(&self, key: &WorkspaceKey) -> Result<&Self> {
        let Some(before) = self.before.as_deref() else { return Ok(self) };
        let branch = tip(&before.open()?, &names::head(&names::branch(key)))?;
        Ok(if branch.is_some() { before } else { self })
    }

    /// Opens a handle on the repository with the person's checkout.
    pub(crate) fn open(&self) -> Result<git2::Repository> {
        if self.kind == Kind::Plain {
            store::check(self)?;
        }
        self.open_unchecked()
    }

    /// Opens a handle also where the folder of a plain project does not prove that it is the project's.
    pub(crate) fn open_unchecked(&self) -> Result<git2::Repository> {
        // Before libgit2 lists branches: a FIFO of an agent's among them would block it.
        special::sweep_branches(self);
        // The path is known: nothing is searched for, and no `.git` is appended.
        let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
        let none: [&Path; 0] = [];
        let repo = git2::Repository::open_ext(&self.git, flags, none).during("opening the repository")?;
        if self.kind != Kind::Git {
            // In memory only: a store does not name the folder, which may move.
            repo.set_workdir(&self.root, false).during("opening the snapshots")?;
        }
        if repo.is_bare() {
            return Err(broken("the repository has become bare").with_path(&self.git));
        }
        Ok(repo)
    }

    /// Returns the path in a project's folder that shows that a project of this kind is there.
    pub(crate) fn mark(&self) -> &'static str {
        match self.kind {
            Kind::Git => ".git",
            Kind::Plain | Kind::Past => store::POINTER,
        }
    }

    /// Returns the folder that holds the folders of all agents.
    pub(crate) fn worktrees(&self) -> PathBuf {
        let root = self.part_of.as_ref().map_or(&self.root, |of| &of.root);
        root.join(".watchfire").join("worktrees")
    }

    /// Returns the folder of one agent.
    pub(crate) fn worktree(&self, key: &WorkspaceKey) -> PathBuf {
        self.laid_out(key).unwrap_or_else(|| self.worktrees().join(key.to_string()))
    }

    /// Returns the folder of one agent, if its work is in several repositories.
    fn laid_out(&self, key: &WorkspaceKey) -> Option<PathBuf> {
        // Where a layout cannot be read, `Joint` returns an error before anything is done.
        match (&self.part_of, key) {
            (Some(of), WorkspaceKey::Part { of: name, key, .. }) if **name == *of.name => {
                Layout::read(&of.state, key).ok()??.folder(&of.root, &of.at)
            }
            (None, WorkspaceKey::Task { .. } | WorkspaceKey::Chat) => {
                Layout::read(&self.state(), key).ok()??.folder(&self.root, Path::new(""))
            }
            _ => None,
        }
    }

    /// Returns true if the work under `key` is this project's, and not that of another one that works in this
    /// repository too.
    pub(crate) fn is_own(&self, key: &WorkspaceKey) -> bool {
        match (&self.part_of, key) {
            (Some(of), WorkspaceKey::Part { of: name, .. }) => **name == *of.name,
            (None, WorkspaceKey::Part { .. }) | (Some(_), _) => false,
            (None, _) => true,
        }
    }

    /// Returns the folders of agents that are there, with their keys.
    pub(crate) fn folders(&self) -> Result<Vec<(WorkspaceKey, PathBuf)>> {
        let state = self.part_of.as_ref().map_or_else(|| self.state(), |of| of.state.clone());
        let parts = Layout::keys(&state)?.into_iter().map(|key| match &self.part_of {
            Some(of) => key.part(&of.name),
            None => key,
        });
        let mut found: Vec<_> = parts.filter_map(|key| Some((key.clone(), self.laid_out(&key)?))).collect();
        if self.part_of.is_none() {
            let plain = files::entries(&self.worktrees())?.into_iter();
            let plain = plain.filter_map(|(name, path)| Some((names::parse_key(name.to_str()?)?, path)));
            found.extend(plain.filter(|(key, path)| self.is_own(key) && self.worktree(key) == *path));
        }
        found.retain(|(_, path)| fs::symlink_metadata(path).is_ok());
        found.sort();
        found.dedup();
        Ok(found)
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

/// Opens the repository whose checkout `root` is.
///
/// # Errors
/// `not_found` if there is none; `not_supported` for a format that libgit2 cannot read, and for a partial clone.
pub(crate) fn open_supported(root: &Path) -> Result<git2::Repository> {
    let none: [&Path; 0] = [];
    let repo = git2::Repository::open_ext(root, RepositoryOpenFlags::empty(), none).map_err(|e| {
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
        let hint = "`watchfire init` makes a repository; `watchfire init --plain` works with snapshots instead of commits";
        let error = Error::new(kind, message).with_path(root).with_source(Said(e));
        if kind == ErrorKind::NotFound { error.with("hint", hint) } else { error }
    })?;
    if is_partial(&repo)? {
        return Err(Error::new(ErrorKind::NotSupported, PARTIAL).with_path(root));
    }
    Ok(repo)
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
