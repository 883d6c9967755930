//! Folders kept ready: trees that are laid out before a task needs them. A task takes one by a rename and
//! brings it up to date, where it would have to create every file.
//!
//! Each is a folder among our records, which agents can neither read nor write. It holds the files, the index
//! that describes them, and the name of their tree. It gets its final name only when it is whole, and is
//! renamed again by the process that takes it. A folder that an agent had never becomes ready again. A folder
//! in which anything is not as it was written is thrown away, whatever changed it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::failpoint::reached;
use crate::files;
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::index::of_tree;
use crate::names;
use crate::objects::tree::{self, SUBMODULE, join};
use crate::objects::tree_diff;
use crate::objects::tree_path;
use crate::parts::in_parts;
use crate::repository::project::{Project, tip};
use crate::worktree::materialize::{self, split};

/// Number of folders from which on several threads look at them.
const MANY_FOLDERS: usize = 20;

/// Prepares folders until `count` are ready, and removes those that are too many. Ends early once `is_wanted`
/// returns false.
pub(crate) fn keep(project: &Project, count: usize, is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    let folder = folder(project);
    if count == 0 && !folder.is_dir() {
        return Ok(());
    }
    // One process fills. Another one that finds the lock taken has nothing to do.
    let Some(_lock) = files::try_lock(&project.state().join("ready.lock"))? else { return Ok(()) };
    sweep(project)?;
    let spares = spares(project)?;
    spares.iter().skip(count).try_for_each(|spare| discard(project, spare))?;
    let repo = project.open()?;
    let Some(tree) = likely(project, &repo)? else { return Ok(()) };
    if spares.len() < count && can_be_renamed(project)? {
        for _ in spares.len()..count {
            make(project, &repo, tree, is_wanted)?;
        }
    }
    Ok(())
}

/// Moves a folder kept ready to `to`, with the files of `tree`, and returns its index. Returns `None` if no
/// such folder is left.
pub(crate) fn take(
    project: &Project,
    repo: &Repository,
    tree: Option<Oid>,
    to: &Path,
) -> Result<Option<IndexFile>> {
    for spare in spares(project)? {
        let mine = folder(project).join(files::unique("taken"));
        // Only one process can rename it. For any other one it is not there any more.
        if files::absent(fs::rename(&spare, &mine)).during("taking a folder")?.is_none() {
            continue;
        }
        reached("ready: taken");
        let index = update(repo, &mine, tree).and_then(|index| {
            reached("ready: up to date");
            fs::rename(mine.join("files"), to).during("taking a folder")?;
            Ok(index)
        });
        reached("ready: moved");
        if let Err(error) = files::remove_tree(&mine) {
            tracing::warn!(path = %mine.display(), %error, "a folder is left for the next start");
        }
        match index {
            Ok(index) => return Ok(Some(index)),
            Err(error) => tracing::warn!(error = %error.report(), "a folder kept ready is thrown away"),
        }
    }
    Ok(None)
}

/// Removes all folders kept ready and returns their number.
pub(crate) fn clear(project: &Project) -> Result<usize> {
    let spares = spares(project)?;
    spares.iter().try_for_each(|spare| discard(project, spare))?;
    Ok(spares.len())
}

/// Removes folders that a killed process was making or taking.
pub(crate) fn sweep(project: &Project) -> Result<()> {
    for (name, path) in files::entries(&folder(project))? {
        if files::is_abandoned(&name) {
            files::remove_tree(&path).map_err(|e| Error::io("removing a folder", e).with_path(&path))?;
        }
    }
    Ok(())
}

fn folder(project: &Project) -> PathBuf {
    project.state().join("ready")
}

fn spares(project: &Project) -> Result<Vec<PathBuf>> {
    let entries = files::entries(&folder(project))?.into_iter();
    // With the prefix of unique names, a process is still making or taking it.
    let whole = entries.filter(|(name, _)| !name.as_bytes().starts_with(files::PREFIX.as_bytes()));
    Ok(whole.map(|(_, path)| path).collect())
}

/// Returns the tree from which the next task will probably start.
fn likely(project: &Project, repo: &Repository) -> Result<Option<Oid>> {
    let target = project.default_target(repo).ok();
    let at = target.map_or(Ok(None), |target| tip(repo, &names::head(&target)))?;
    tree::of_commit(repo, at.or_else(|| repo.head().ok()?.target()))
}

/// Returns true if folders can be renamed from our records to where agents work: a rename does not cross file
/// systems.
fn can_be_renamed(project: &Project) -> Result<bool> {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).during("reading a folder");
    Ok(device(&project.state())? == device(&project.make_worktrees()?)?)
}

fn make(
    project: &Project,
    repo: &Repository,
    tree: Oid,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let fresh = folder(project).join(files::unique("ready"));
    let put = |name: &str, content: &[u8]| {
        let path = fresh.join(name);
        fs::write(&path, content).map_err(|e| Error::io("writing a file", e).with_path(&path))
    };
    let made = (|| {
        fs::create_dir_all(&fresh).map_err(|e| Error::io("creating a folder", e).with_path(&fresh))?;
        let written = materialize::write(project, repo, Some(tree), &fresh.join("files"), is_wanted)?;
        reached("ready: files written");
        put("index", &of_tree::index_of(repo, Some(tree), written)?.to_bytes())?;
        put("tree", tree.to_string().as_bytes())?;
        reached("ready: whole");
        let whole = folder(project).join(files::unique("").trim_start_matches(files::PREFIX));
        fs::rename(&fresh, &whole).map_err(|e| Error::io("putting a folder in place", e).with_path(whole))
    })();
    if made.is_err() {
        _ = files::remove_tree(&fresh);
    }
    made
}

fn discard(project: &Project, spare: &Path) -> Result<()> {
    let trash = folder(project).join(files::unique("trash"));
    let gone = files::absent(fs::rename(spare, &trash)).and_then(|_| files::remove_checkout(&trash));
    gone.map_err(|e| Error::io("removing a folder", e).with_path(spare))
}

/// Brings the folder `mine` from its tree to `new`, and returns its index.
fn update(repo: &Repository, mine: &Path, new: Option<Oid>) -> Result<IndexFile> {
    let old = files::read(&mine.join("tree"))?.and_then(|hex| Oid::from_str(str::from_utf8(&hex).ok()?).ok());
    let old = old.ok_or_else(|| broken("its tree is not known"))?;
    let mut index = IndexFile::read(&mine.join("index"))?;
    let root = mine.join("files");
    check(&root, &index)?;
    let changes = tree_diff::diff(repo, Some(old), new)?;
    for change in &changes {
        tree_path::check_path(&change.path)?;
    }
    let at = |path: &[u8]| root.join(std::ffi::OsStr::from_bytes(path));
    // All removals first, so that a file can take the place of a folder, and a folder that of a file.
    for change in changes.iter().rev() {
        let Some(gone) = change.old else { continue };
        let path = at(&change.path);
        let removed = if gone.mode == SUBMODULE { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        removed.map_err(|e| Error::io("removing a file", e).with_path(&path))?;
        index.remove(&change.path);
        let above = path.ancestors().skip(1).take_while(|above| *above != root);
        // Stops at the first folder that is not empty.
        _ = above.map(fs::remove_dir).find(Result::is_err);
    }
    reached("ready: old files gone");
    for change in &changes {
        let Some(node) = change.new else { continue };
        let path = at(&change.path);
        let parent = if node.mode == SUBMODULE { Some(path.as_path()) } else { path.parent() };
        parent.map_or(Ok(()), fs::create_dir_all).map_err(|e| Error::io("creating a folder", e))?;
        let stat = match node.mode {
            SUBMODULE => None,
            _ => Some(materialize::write_file(
                repo,
                CWD,
                path.as_os_str().as_bytes(),
                node,
                &change.path,
                materialize::SETTLED,
            )?),
        };
        index.set(Entry::new(&change.path, node, stat.as_ref()));
    }
    Ok(index)
}

/// The expected content of one folder: its files, sorted by name, and its number of folders.
#[derive(Default)]
struct Expected<'a> {
    files: Vec<&'a Entry>,
    folders: usize,
}

/// Compares everything below `root` with its index. All files must be there, and nothing else.
fn check(root: &Path, index: &IndexFile) -> Result<()> {
    let names = materialize::folders(index.entries().iter().map(|entry| (entry.path.as_slice(), entry.node)));
    let mut folders: BTreeMap<&[u8], Expected<'_>> = BTreeMap::from([(&[][..], Expected::default())]);
    folders.extend(names.iter().map(|name| (*name, Expected::default())));
    for name in &names {
        folders.entry(split(name).0).or_default().folders += 1;
    }
    for entry in index.entries().iter().filter(|entry| entry.node.mode != SUBMODULE) {
        folders.entry(split(&entry.path).0).or_default().files.push(entry);
    }
    let check = |part: Vec<(&[u8], Expected<'_>)>| {
        part.iter().try_for_each(|(name, expected)| expected.check(root, name))
    };
    in_parts(folders.into_iter().collect(), MANY_FOLDERS, check).map(drop)
}

impl Expected<'_> {
    fn check(&self, root: &Path, prefix: &[u8]) -> Result<()> {
        let path = root.join(std::ffi::OsStr::from_bytes(prefix));
        let reading = |e: rustix::io::Errno| Error::io("reading a folder", e.into()).with_path(&path);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = openat(CWD, &path, flags, Mode::empty()).map_err(reading)?;
        let (mut files, mut folders) = (0, 0);
        for entry in Dir::read_from(&fd).map_err(reading)? {
            let entry = entry.map_err(reading)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                // Every expected folder is opened and checked by itself. So the right number means the right
                // folders.
                folders += 1;
                continue;
            }
            // Some file systems give no type with the name.
            let stat = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(reading)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                folders += 1;
                continue;
            }
            let found = self.files.binary_search_by_key(&name, |entry| split(&entry.path).1);
            let as_written = found.ok().and_then(|at| self.files.get(at)).filter(|entry| entry.is_of(&stat));
            as_written.ok_or_else(|| touched(&join(prefix, name)))?;
            files += 1;
        }
        if (files, folders) != (self.files.len(), self.folders) {
            return Err(touched(prefix));
        }
        Ok(())
    }
}

fn touched(path: &[u8]) -> Error {
    Error::new(ErrorKind::WorkspaceBroken, "something in it is not as it was written")
        .with("file", watchfire_core::model::RepoPath::new(path))
}

#[cfg(test)]
mod tests {
    use git2::Signature;
    use git2::build::TreeUpdateBuilder;

    use super::*;
    use crate::options::GitOptions;

    #[test]
    fn who_stops_waiting_stops_it_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init(dir.path()).unwrap();
        let empty = repo.find_tree(crate::objects::tree_edit::empty(&repo).unwrap()).unwrap();
        let blob = repo.blob(b"content").unwrap();
        let with_file = TreeUpdateBuilder::new()
            .upsert("folder/file", blob, git2::FileMode::Blob)
            .create_updated(&repo, &empty)
            .unwrap();
        let who = Signature::now("x", "x@y").unwrap();
        repo.commit(Some("HEAD"), &who, &who, "first", &repo.find_tree(with_file).unwrap(), &[]).unwrap();
        let project = Project::find(dir.path(), GitOptions::default()).unwrap();

        let stopped = keep(&project, 1, &|| false).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
        assert!(files::entries(&folder(&project)).unwrap().is_empty());
        keep(&project, 1, &|| true).unwrap();
        assert_eq!(spares(&project).unwrap().len(), 1);
    }
}
