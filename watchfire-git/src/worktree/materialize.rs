//! Writes a tree to a fresh folder exactly as it is: no filter, no attribute and no hook counts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::{Oid, Repository};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat, symlinkat};
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::index::of_tree::Written;
use crate::objects::tree::{EXECUTABLE, LINK, Node, SUBMODULE, flatten};
use crate::objects::tree_path::check_path;
use crate::parts::in_parts;
use crate::repository::project::Project;

/// Apparent age of new files in agents' folders. Most builds of git compare times by the second. `git add`
/// would store every file anew that is as young as its index, and an agent's git would need a copy of each.
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// Number of files from which on several threads write.
const MANY: usize = 400;

/// Writes `tree` to `folder`, which must not exist, and returns the state of each file. Ends early once
/// `is_wanted` returns false.
pub(crate) fn write(
    project: &Project,
    repo: &Repository,
    tree: Option<Oid>,
    folder: &Path,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> Result<Written> {
    let files: Vec<_> = flatten(repo, tree)?.into_iter().collect();
    // All paths before the first file: nothing may be written outside of the folder.
    for (path, _) in &files {
        check_path(path)?;
    }
    fs::create_dir(folder).map_err(|e| Error::io("creating a folder", e).with_path(folder))?;
    reached("files: begin");
    for name in folders(files.iter().map(|(path, node)| (path.as_slice(), *node))) {
        let path = folder.join(OsStr::from_bytes(name));
        fs::create_dir(&path).map_err(|e| collision(e, name))?;
    }
    reached("files: folders made");
    // Each thread gets a range of neighbouring paths. Two threads that create files in one folder would wait
    // for each other.
    let written = in_parts(files, MANY, |files| write_some(&project.open()?, folder, files, is_wanted))?;
    Ok(written.into_iter().flatten().collect())
}

/// Returns the folders of files and of submodules, each after the folder that contains it.
pub(crate) fn folders<'a>(files: impl Iterator<Item = (&'a [u8], Node)>) -> BTreeSet<&'a [u8]> {
    let mut folders: BTreeSet<&[u8]> = BTreeSet::new();
    let mut last: &[u8] = &[];
    for (path, node) in files {
        let folder = if node.mode == SUBMODULE { path } else { split(path).0 };
        // Paths are sorted, so files of one folder mostly follow each other.
        if folder != last {
            let ends = folder.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            folders.extend(ends.chain([folder.len()]).filter_map(|end| folder.get(..end)));
            last = folder;
        }
    }
    folders.remove(&[][..]);
    folders
}

fn write_some(
    repo: &Repository,
    folder: &Path,
    files: Vec<(Vec<u8>, Node)>,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> Result<Written> {
    let open = |parent: &[u8]| {
        let path = folder.join(OsStr::from_bytes(parent));
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(CWD, &path, flags, Mode::empty())
            .map_err(|e| Error::io("opening a folder", e.into()).with_path(path))
    };
    let mut at = (Vec::new(), open(&[])?);
    let mut written = Vec::with_capacity(files.len());
    for (path, node) in files {
        if node.mode == SUBMODULE {
            written.push((path, node, None));
            continue;
        }
        let (parent, name) = split(&path);
        if at.0 != parent {
            if !is_wanted() {
                return Err(Error::new(ErrorKind::Cancelled, "nobody waits for the files any more"));
            }
            at = (parent.to_vec(), open(parent)?);
        }
        let stat = write_file(repo, &at.1, name, node, &path, SETTLED)?;
        written.push((path, node, Some(stat)));
    }
    Ok(written)
}

/// Splits a path into its folder and the name in that folder.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (&[], path),
    }
}

/// Writes a file or link as `name` in `folder` where there is none, and returns its state. The file looks as
/// old as `age`.
pub(crate) fn write_file(
    repo: &Repository,
    folder: impl AsFd,
    name: &[u8],
    node: Node,
    path: &[u8],
    age: Duration,
) -> Result<Stat> {
    let blob = repo.find_blob(node.id).during("reading a file from the repository")?;
    let failed = |e: rustix::io::Errno| collision(e.into(), path);
    if node.mode == LINK {
        symlinkat(blob.content(), &folder, name).map_err(failed)?;
        return statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed);
    }
    // The modes that git asks for. The process's umask takes away its part.
    let mode = Mode::from_raw_mode(if node.mode == EXECUTABLE { 0o777 } else { 0o666 });
    // EXCL: an existing file is an error, which `collision` explains.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(&folder, name, flags, mode).map_err(failed)?);
    file.write_all(blob.content()).map_err(|e| collision(e, path))?;
    if !age.is_zero() {
        let then = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        file.set_modified(then).map_err(|e| collision(e, path))?;
    }
    fstat(&file).map_err(failed)
}

fn collision(error: std::io::Error, path: &[u8]) -> Error {
    let error = if error.kind() == std::io::ErrorKind::AlreadyExists {
        Error::new(
            ErrorKind::NotSupported,
            "two paths differ only in case, which this file system cannot hold",
        )
        .with_source(error)
    } else {
        Error::io("writing a file", error)
    };
    error.with("file", RepoPath::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as on a file system that ignores the case of names.
    #[test]
    fn two_names_for_one_file_are_said_to_be_so() {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let id = repo.blob(b"x").unwrap();
        for mode in [crate::objects::tree::FILE, LINK] {
            let at = dir.path().join(mode.to_string());
            let at = at.as_os_str().as_bytes();
            let write = |path| write_file(&repo, CWD, at, Node { mode, id }, path, SETTLED);
            write(b"Name").unwrap();
            let error = write(b"name").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported);
            assert!(error.message().contains("case"), "{error}");
        }
    }
}
