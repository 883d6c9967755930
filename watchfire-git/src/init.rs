//! Makes a folder ready for Watchfire: creates a repository if there is none, and adds one line to
//! `.gitignore`.
//!
//! The person's staged, changed and untracked files stay exactly as they are. The commit is HEAD's tree with
//! one blob changed, and no hook runs.

use std::fs;
use std::path::Path;

use git2::{Repository, RepositoryInitOptions};
use watchfire_core::workspace::Commit;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::identity;
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::objects::commit::signs;
use crate::objects::tree::{self, FILE, Node};
use crate::objects::tree_edit::{self, Edits};
use crate::options::GitOptions;
use crate::publish::carry::unreadable;
use crate::repository::index_lock::IndexLock;
use crate::repository::project::{commit, open_supported};
use crate::worktree::ignore::Ignore;

pub use crate::earlier::Earlier;
pub use crate::plain::{check_plain, init_plain};

/// The line that is added to `.gitignore`.
const LINE: &str = ".watchfire/";
const MESSAGE: &str = "chore: add .watchfire to gitignore\n";
const NAME: &str = ".gitignore";
const LOCKED: &str = "another git command is running, or left its index.lock";

/// The result of [`init`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Initialized {
    /// True if the repository was created.
    pub created: bool,
    /// True if the line was added to the file.
    pub ignored: bool,
    /// The commit that adds the line.
    pub commit: Option<Commit>,
    /// The reason why nothing was committed although the line was added.
    pub uncommitted: Option<String>,
}

/// Makes `root` ready: creates a repository if there is none, and adds `.watchfire/` to `.gitignore`, and to `info/exclude` for
/// the branches that do not have the line. Commits exactly that line if `commit` is true. Everything that exists is left alone.
///
/// # Errors
/// `not_supported` for a bare repository, a folder inside a repository, or an index that is split or sparse; errors of the disk.
pub fn init(root: impl AsRef<Path>, commit: bool, options: &GitOptions) -> Result<Initialized> {
    let given = root.as_ref();
    let root =
        given.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(given))?;
    let mut done = Initialized::default();
    let repo = match open(&root)? {
        Some(repo) => repo,
        None => {
            done.created = true;
            let mut how = RepositoryInitOptions::new();
            // No template: it could bring hooks.
            how.no_reinit(true).external_template(false).initial_head(&initial_branch());
            Repository::init_opts(&root, &how).during("creating a repository")?
        }
    };
    let is_ignored = is_ignored(&repo, &root)?;
    if commit && !is_ignored && why_uncommitted(&repo).is_none() {
        // Before anything is written.
        check_index(&repo)?;
    }
    // The line in `.gitignore` is what counts: this one helps where a branch has none yet.
    let _ = exclude(&repo);
    if is_ignored {
        return Ok(done);
    }
    let path = root.join(NAME);
    let before = files::read(&path)?;
    if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Error::new(
            ErrorKind::NotSupported,
            ".gitignore is no plain file: add .watchfire/ to it by hand",
        )
        .with_path(path));
    }
    // From the content in the checkout, which may have uncommitted edits. The commit is made from HEAD's
    // content.
    replace_keeping_mode(&path, &with_line(before.as_deref().unwrap_or_default()))?;
    done.ignored = true;
    if commit {
        match commit_line(&repo, options)? {
            Ok(made) => done.commit = Some(made),
            Err(reason) => done.uncommitted = Some(reason),
        }
    }
    Ok(done)
}

fn open(root: &Path) -> Result<Option<Repository>> {
    let repo = match open_supported(root) {
        Ok(repo) => repo,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let unsupported = |message| Error::new(ErrorKind::NotSupported, message).with_path(root);
    let Some(top) = repo.workdir() else {
        return Err(unsupported("the project is a bare repository: give the root of a checkout of it"));
    };
    if root.parent().is_some_and(|parent| parent.ends_with(".watchfire/worktrees")) {
        return Err(unsupported(
            "this is the folder of an agent in another project: use the top of that project",
        ));
    }
    if top.canonicalize().during("opening the checkout")? != root {
        return Err(unsupported(
            "the project is a folder inside a repository: use the top of the repository",
        )
        .with("top", top.display()));
    }
    Ok(Some(repo))
}

fn initial_branch() -> String {
    git2::Config::open_default()
        .and_then(|config| config.get_string("init.defaultBranch"))
        .ok()
        .filter(|branch| git2::Reference::is_valid_name(&format!("refs/heads/{branch}")))
        .unwrap_or_else(|| "main".to_owned())
}

/// Adds the line to the repository's own list, which counts on every branch.
fn exclude(repo: &Repository) -> Result<()> {
    let path = repo.commondir().join("info/exclude");
    // A link would be replaced by a file.
    if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(());
    }
    let before = files::read(&path)?.unwrap_or_default();
    if has_line(&before) {
        return Ok(());
    }
    let info = repo.commondir().join("info");
    fs::create_dir_all(&info).map_err(|e| Error::io("making a folder", e).with_path(info))?;
    replace_keeping_mode(&path, &with_line(&before))
}

fn has_line(content: &[u8]) -> bool {
    content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).any(|line| {
        matches!(line, b".watchfire" | b".watchfire/" | b"/.watchfire" | b"/.watchfire/" | b"**/.watchfire/")
    })
}

/// Returns true if the repository's own `.gitignore` covers the folder. Rules that only one person has do not
/// count: they do not help the others.
fn is_ignored(repo: &Repository, root: &Path) -> Result<bool> {
    let content = files::read(&root.join(NAME))?.unwrap_or_default();
    // A later line, such as `!.watchfire/`, may include the folder again.
    Ok(has_line(&content) && Ignore::of(repo)?.covers(root, Path::new(".watchfire/")))
}

/// Returns the content with the line added, in the file's own line endings.
fn with_line(before: &[u8]) -> Vec<u8> {
    let end: &[u8] = if before.windows(2).any(|pair| pair == b"\r\n") { b"\r\n" } else { b"\n" };
    let mut after = before.to_vec();
    if !after.is_empty() && !after.ends_with(b"\n") {
        after.extend_from_slice(end);
    }
    after.extend_from_slice(LINE.as_bytes());
    after.extend_from_slice(end);
    after
}

fn replace_keeping_mode(path: &Path, content: &[u8]) -> Result<()> {
    let mode = fs::metadata(path).map(|metadata| metadata.permissions()).ok();
    files::replace(path, content)?;
    if let Some(mode) = mode {
        fs::set_permissions(path, mode).map_err(|e| Error::io("writing a file", e).with_path(path))?;
    }
    Ok(())
}

/// Returns the reason why nothing is committed in such a repository, if there is one.
fn why_uncommitted(repo: &Repository) -> Option<&'static str> {
    // A commit now would become part of the merge or rebase, or end it.
    if repo.state() != git2::RepositoryState::Clean {
        return Some("a merge, rebase or the like is under way");
    }
    // libgit2 cannot sign.
    signs(repo).then_some("the repository signs its commits")
}

/// Returns an error with the cure if the index cannot be read. A commit without its line in the index would be taken back by
/// the next one.
fn check_index(repo: &Repository) -> Result<()> {
    let read = IndexFile::read(&repo.path().join("index"));
    read.map(drop).map_err(|error| {
        let cure = unreadable(&error).cure();
        error.with("hint", cure)
    })
}

/// Commits HEAD's `.gitignore` with the line added, and nothing else. Returns the reason as text if that
/// cannot be done safely.
fn commit_line(repo: &Repository, options: &GitOptions) -> Result<Result<Commit, String>> {
    if let Some(reason) = why_uncommitted(repo) {
        return Ok(Err(reason.to_owned()));
    }
    // Held for the commit and the index together, so that no git command of the person's comes between them.
    match IndexLock::take(repo.path())? {
        Some(lock) => {
            reached("init: locked");
            commit_locked(repo, options, lock)
        }
        None => Ok(Err(LOCKED.to_owned())),
    }
}

/// Makes the commit and updates the index. Called with `index.lock` held.
fn commit_locked(repo: &Repository, options: &GitOptions, lock: IndexLock) -> Result<Result<Commit, String>> {
    let head = match repo.head() {
        Ok(head) => Some(head.peel_to_commit().during("reading HEAD")?),
        // The first commit of the repository has no parent.
        Err(e) if e.code() == git2::ErrorCode::UnbornBranch => None,
        Err(e) => return Err(e).during("reading HEAD"),
    };
    let old_tree = head.as_ref().map(git2::Commit::tree_id);
    let old = tree::lookup(repo, old_tree, NAME.as_bytes())?;
    if old.is_some_and(|old| !old.is_file()) {
        return Ok(Err(".gitignore is no plain file in the last commit".to_owned()));
    }
    let content = old.map(|old| repo.find_blob(old.id)).transpose().during("reading .gitignore")?;
    let content = content.as_ref().map_or(&[][..], |blob| blob.content());
    let blob = repo.blob(&with_line(content)).during("storing .gitignore")?;
    let new = Node { mode: old.map_or(FILE, |old| old.mode), id: blob };
    let edits = Edits::from([(NAME.as_bytes().to_vec(), Some(new))]);
    let tree = tree_edit::edit(repo, old_tree, &edits)?.map_or_else(|| tree_edit::empty(repo), Ok)?;
    let tree = repo.find_tree(tree).during("reading a tree")?;
    let person = identity::person(repo, &options.fallback)?;
    let parents: Vec<_> = head.iter().collect();
    let index = with_line_staged(repo, old, new)?;
    // A person may have removed the lock. Then a commit without its line in the index would be taken back by the
    // next commit.
    if !lock.is_held() {
        return Ok(Err(LOCKED.to_owned()));
    }
    if let Some(index) = index {
        lock.put_ahead(&index.to_bytes())?;
    }
    let made = repo
        .commit(Some("HEAD"), &person, &person, MESSAGE, &tree, &parents)
        .during("committing .gitignore")?;
    lock.has_moved();
    reached("init: index in place");
    Ok(Ok(commit(made)))
}

/// Returns the index with the line added too, unless the person staged the removal of the file, or something that
/// is no file.
fn with_line_staged(repo: &Repository, old: Option<Node>, new: Node) -> Result<Option<IndexFile>> {
    let path = repo.path().join("index");
    let mut index = IndexFile::read(&path)?;
    let staged = index.entry(NAME.as_bytes());
    let node = match (staged, old) {
        (None, None) => new,
        // Nothing is staged for the file: the index gets what was committed.
        (Some(entry), Some(old)) if entry.node == old => new,
        // The person staged an edit. It gets the line too, so that committing the edit does not take the line
        // away.
        (Some(entry), _) if entry.node.is_file() => {
            let staged = repo.find_blob(entry.node.id).during("reading .gitignore")?;
            let id = repo.blob(&with_line(staged.content())).during("storing .gitignore")?;
            Node { mode: entry.node.mode, id }
        }
        // Staged as removed, or as something that is no file: the index stays as it is.
        _ => return Ok(None),
    };
    // The index gets a new time, and git believes entries that are older than their index.
    index.settle(repo.workdir().unwrap_or(Path::new("/")));
    index.set(Entry::new(NAME.as_bytes(), node, None));
    Ok(Some(index))
}
