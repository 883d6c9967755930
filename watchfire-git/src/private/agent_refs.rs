//! Reads the references in an agent's private copies, as files that the agent may have written.
//!
//! The copies begin with a snapshot of the person's references, all of them packed. So every loose reference
//! is the agent's, and so is every packed reference that the snapshot lacks.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use git2::Oid;
use watchfire_core::Result;

use crate::error::{During, broken};
use crate::files;
use crate::objects::id::hex;
use crate::private::copies::{small, unreadable};
use crate::repository::left::References;
use crate::repository::project::Project;

/// Upper bound for a file of packed references, in bytes. The largest projects have smaller files.
const LARGEST: u64 = 256 << 20;
/// Upper bounds for the number of references that an agent makes, and for the depth of their names.
const MOST: usize = 10_000;
const DEEPEST: usize = 16;

/// Returns the references that the agent made or moved. Those of the repository are in `top`, and `snapshot` has its packed
/// ones as they were at the start. Those of the worktree alone are in `admin`.
pub(crate) fn made(top: &Path, admin: &Path, snapshot: &Path) -> Result<References> {
    let (packed, known) = (packed(&top.join("packed-refs"))?, packed(snapshot)?);
    let known: HashSet<_> = known.into_iter().collect();
    let mut made: References = packed.into_iter().filter(|line| !known.contains(line)).collect();
    // Loose ones second: git prefers them to packed ones.
    loose(&top.join("refs"), &mut made)?;
    loose(&admin.join("refs"), &mut made)?;
    if made.len() > MOST {
        return Err(broken(format!("the agent has more than {MOST} references")));
    }
    Ok(made)
}

/// Returns all references in the git directory `top`, loose ones over packed ones. Symbolic ones are left out.
pub(crate) fn all(top: &Path) -> Result<References> {
    let mut all: References = packed(&top.join("packed-refs"))?.into_iter().collect();
    let mut made = References::new();
    loose(&top.join("refs"), &mut made)?;
    all.extend(made);
    Ok(all)
}

/// Returns `references` in the form of `packed-refs`.
pub(crate) fn to_packed(references: &References) -> Vec<u8> {
    // git searches the file by halves if the header says that it is sorted. The map is.
    let mut text = "# pack-refs with: sorted \n".to_owned();
    for (name, id) in references {
        text.push_str(&format!("{id} {name}\n"));
    }
    text.into_bytes()
}

/// Returns the reference `name` from the file `packed_refs`.
pub(crate) fn find_packed(packed_refs: &Path, name: &str) -> Result<Option<Oid>> {
    Ok(packed(packed_refs)?.into_iter().find(|(packed, _)| packed == name).map(|(_, id)| id))
}

/// Returns the references in a file of packed ones, which an agent may have written.
pub(crate) fn packed(path: &Path) -> Result<Vec<(String, Oid)>> {
    let text = files::read_plain(path, LARGEST).map_err(unreadable)?.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let named = lines.filter_map(|line| line.split_once(' '));
    Ok(named.filter_map(|(id, name)| Some((name.to_owned(), hex(id.as_bytes())?))).collect())
}

/// Returns the references of one folder alone, in its administration `admin`.
pub(crate) fn of_folder(admin: &Path) -> Result<References> {
    let mut found = References::new();
    loose(&admin.join("refs"), &mut found)?;
    Ok(found)
}

/// Adds the references below the folder `refs`, without following a link.
fn loose(refs: &Path, found: &mut References) -> Result<()> {
    let mut pending: Vec<(PathBuf, String)> = vec![(refs.to_path_buf(), "refs".to_owned())];
    while let Some((folder, name)) = pending.pop() {
        if name.split('/').count() > DEEPEST {
            return Err(broken("the agent's references are nested too deeply"));
        }
        // Counted while reading, because the agent decides how many folders there are.
        if pending.len() + found.len() > 2 * MOST {
            return Err(broken(format!("the agent has more than {MOST} references")));
        }
        for (file_name, path) in files::entries(&folder).map_err(unreadable)? {
            let Some(file_name) = file_name.to_str() else { continue };
            let name = format!("{name}/{file_name}");
            if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                pending.push((path, name));
            // Also leaves out git's locks: a name that ends in `.lock` is not valid.
            } else if git2::Reference::is_valid_name(&name)
                && let Some(id) = small(&path)?.and_then(|text| hex(text.trim_ascii()))
            {
                found.insert(name, id);
            }
        }
    }
    Ok(())
}

/// Returns the person's references in the form of `packed-refs`, without the agents' own.
pub(crate) fn snapshot(project: &Project) -> Result<Vec<u8>> {
    let repo = project.open()?;
    let mut lines = BTreeMap::new();
    for reference in repo.references().during("listing references")? {
        let Ok(reference) = reference else { continue };
        let (name, target) = (reference.name_bytes().to_vec(), reference.target());
        // Nor the stash, which is copied as a file, with its log.
        let agents = name.starts_with(b"refs/heads/watchfire/") || name == b"refs/stash";
        if let (Some(id), false) = (target, agents) {
            lines.insert(name, id);
        }
    }
    let line = |(name, id): (&Vec<u8>, &Oid)| [id.to_string().as_bytes(), b" ", name, b"\n"].concat();
    // git searches the file by halves if the header says that it is sorted. The map is.
    let header = b"# pack-refs with: sorted \n".to_vec();
    Ok(std::iter::once(header).chain(lines.iter().map(line)).flatten().collect())
}
