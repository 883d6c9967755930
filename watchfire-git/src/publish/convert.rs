//! Converts files as git does for a checkout of a person: line endings, encodings, and the person's own
//! filters.
//!
//! git itself does the work. Only the filter drivers run that the person has named to us, as their own
//! configuration defines them. The work of an agent can name a driver, and can never define one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use git2::Repository;
use watchfire_core::{Error, Result};

use crate::command;
use crate::error::During;
use crate::files;
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::objects::tree::{Node, join};
use crate::objects::tree_diff::Change;
use crate::publish::user_checkout::Checkout;
use crate::repository::project::Project;
use crate::worktree::attributes::{ATTRIBUTES, Replaced};
use crate::worktree::folder::is_below;

/// Time limit: long enough for a filter that fetches large files.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// The conversion of a file on its way to a checkout.
#[derive(Debug)]
pub(crate) enum Conversion {
    /// No conversion.
    None,
    /// git changes line endings or the encoding by itself.
    BuiltIn,
    /// A filter driver of this name runs.
    Driver(String),
}

/// Returns the files of attributes that `changes` touch, as they are on the side that `side` selects.
pub(crate) fn replaced(
    repo: &Repository,
    changes: &[Change],
    side: impl Fn(&Change) -> Option<Node>,
) -> Result<Replaced> {
    let content = |node: Node| -> Result<Vec<u8>> {
        let blob = repo.find_blob(node.id).during("reading a file of attributes")?;
        Ok(blob.content().to_vec())
    };
    let touched = changes.iter().filter(|change| is_attributes(&change.path));
    // git reads no attributes from links.
    let read = |change: &Change| side(change).filter(Node::is_file).map(content).transpose();
    touched.map(|change| Ok((change.path.clone(), read(change)?))).collect()
}

/// Writes the files `wanted`, converted for `checkout` with the attributes `replaced`, into the new folder `to`.
pub(crate) fn write(
    project: &Project,
    checkout: &Checkout,
    index: &IndexFile,
    wanted: &[(&[u8], Node)],
    replaced: &Replaced,
    to: &Path,
) -> Result<()> {
    // An earlier try may have left some.
    let making = |e| Error::io("creating a folder", e).with_path(to);
    files::remove_tree(to).and_then(|()| fs::create_dir_all(to)).map_err(making)?;
    let mut some = IndexFile::default();
    // In a sparse checkout, git reads attributes from the index instead of the files.
    let counts = |entry: &&Entry| {
        is_attributes(&entry.path) && !entry.is_conflict() && !replaced.contains_key(&entry.path)
    };
    for entry in index.entries().iter().filter(counts) {
        some.set(Entry::new(&entry.path, entry.node, None));
    }
    let mut input = Vec::new();
    for (path, node) in wanted {
        some.set(Entry::new(path, *node, None));
        input.extend([*path, b"\0"].concat());
    }
    // An index of our own: git writes exactly the files that it names, and the person's index stays as it is.
    let own_index = to.join(files::unique("index"));
    files::replace(&own_index, &some.to_bytes())?;
    let mut prefix = OsString::from("--prefix=");
    prefix.push(to.join("files"));
    prefix.push("/");
    // git reads attributes from the working tree before the index, and those of the merge are not there yet.
    let top = match replaced.is_empty() {
        true => checkout.files.clone(),
        false => {
            let top = to.join("tree");
            mirror(&checkout.files, &top, &[], replaced)?;
            top
        }
    };
    let mut work_tree = OsString::from("--work-tree=");
    work_tree.push(&top);
    // git takes paths relative to the folder in which it starts.
    let start: [&OsStr; 3] = ["-C".as_ref(), top.as_ref(), &work_tree];
    let command: [&OsStr; 4] = ["checkout-index".as_ref(), "-z".as_ref(), "--stdin".as_ref(), &prefix];
    let args = [&start[..], &command].concat();
    let mut env = vec![("GIT_INDEX_FILE".to_owned(), own_index.into_os_string())];
    // Given as variables, which override every configuration file.
    let off = others(checkout, &project.options.filters)?;
    env.push(("GIT_CONFIG_COUNT".to_owned(), off.len().to_string().into()));
    for (n, (name, value)) in off.into_iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{n}"), name.into()));
        env.push((format!("GIT_CONFIG_VALUE_{n}"), value.into()));
    }
    command::run(&checkout.git, &args, &env, &input, LIMIT).map(drop)
}

/// Makes the folder `to` one like the checkout's folder `from`, whose path is `path`: of links, except for the files
/// `replaced` and the folders on the way to them. A filter may need other files of the checkout.
fn mirror(from: &Path, to: &Path, path: &[u8], replaced: &Replaced) -> Result<()> {
    let making = |e| Error::io("making a folder for git", e).with_path(to);
    fs::create_dir_all(to).map_err(making)?;
    let below = |path: &[u8]| replaced.keys().any(|file| is_below(file, path));
    // Without following a link, behind which is no part of the checkout.
    let is_folder = fs::symlink_metadata(from).is_ok_and(|metadata| metadata.is_dir());
    for (name, at) in if is_folder { files::entries(from)? } else { Vec::new() } {
        let path = join(path, name.as_bytes());
        // git itself is told where its folder is.
        if path != b".git" && !replaced.contains_key(&path) && !below(&path) {
            symlink(&at, to.join(name)).map_err(making)?;
        }
    }
    let mut folders = BTreeSet::new();
    for (file, content) in replaced {
        let rest = match path {
            [] => Some(file.as_slice()),
            _ => file.strip_prefix(path).and_then(|rest| rest.strip_prefix(b"/")),
        };
        let Some(rest) = rest else { continue };
        match (rest.iter().position(|byte| *byte == b'/'), content) {
            (Some(end), _) => _ = folders.insert(rest.get(..end).unwrap_or_default()),
            (None, Some(content)) => {
                fs::write(to.join(OsStr::from_bytes(rest)), content).map_err(making)?;
            }
            (None, None) => {}
        }
    }
    for name in folders {
        let folder = OsStr::from_bytes(name);
        mirror(&from.join(folder), &to.join(folder), &join(path, name), replaced)?;
    }
    Ok(())
}

/// Returns the folder of converted old sides, in the folder of converted files.
pub(crate) fn old(folder: &Path) -> std::path::PathBuf {
    folder.join("old")
}

/// Returns the converted file for `path` in a folder that [`write`] made.
pub(crate) fn at(folder: &Path, path: &[u8]) -> std::path::PathBuf {
    folder.join("files").join(OsStr::from_bytes(path))
}

/// Returns one line for each filter driver that the person allows and git's configuration does not define.
pub(crate) fn undefined(project: &Project) -> Result<Vec<String>> {
    let allowed = &project.options.filters;
    if allowed.is_empty() {
        return Ok(Vec::new());
    }
    let defined = drivers(&project.git)?;
    let undefined = allowed.iter().filter(|name| !defined.iter().any(|(driver, _)| driver == *name));
    let line = |name| {
        format!("`git.filters` names `{name}`, which git's configuration does not have: it changes nothing")
    };
    Ok(undefined.map(line).collect())
}

/// Returns the settings that turn off every filter driver except those that the person allows.
fn others(checkout: &Checkout, allowed: &[String]) -> Result<Vec<(String, &'static str)>> {
    let mut off = Vec::new();
    for (driver, key) in drivers(&checkout.git)? {
        match key.as_str() {
            _ if allowed.contains(&driver) => {}
            "smudge" | "clean" | "process" => off.push((format!("filter.{driver}.{key}"), "")),
            // git fails for a required driver that has no command.
            "required" => off.push((format!("filter.{driver}.required"), "false")),
            _ => {}
        }
    }
    Ok(off)
}

/// Returns the drivers that the configuration of the checkout with the git directory `git` has, each with a key of its
/// section.
fn drivers(git: &Path) -> Result<Vec<(String, String)>> {
    let during = "reading the configuration";
    let flags = git2::RepositoryOpenFlags::NO_SEARCH | git2::RepositoryOpenFlags::NO_DOTGIT;
    let none: [&Path; 0] = [];
    let repo = Repository::open_ext(git, flags, none).during("opening a checkout")?;
    let config = repo.config().and_then(|mut config| config.snapshot()).during(during)?;
    let mut found = Vec::new();
    let entries = config.entries(Some("^filter\\.")).during(during)?;
    entries
        .for_each(|entry| {
            // The name of a driver may contain dots.
            let name = entry.name().ok().and_then(|name| name.strip_prefix("filter.")?.rsplit_once('.'));
            found.extend(name.map(|(driver, key)| (driver.to_owned(), key.to_owned())));
        })
        .during(during)?;
    Ok(found)
}

fn is_attributes(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(ATTRIBUTES.as_bytes())
}
