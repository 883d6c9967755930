//! The repositories of a project, its own first.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};
use watchfire_core::workspace::WorkspaceKey;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::files::{self, FileLock};
use crate::names;
use crate::options::GitOptions;
use crate::repository::layout::{Layout, Placed, TOGETHER};
use crate::repository::project::{PartOf, Project};

/// Upper bound for the length of a project's name in keys.
const LONGEST: usize = 24;

/// The repositories of a project.
#[derive(Debug)]
pub(crate) struct Joint {
    /// The project's own first, then the others in the project's order.
    pub(crate) members: Vec<Member>,
    /// Name of the project in the keys of its parts.
    name: String,
}

/// One of the repositories.
#[derive(Debug)]
pub(crate) struct Member {
    /// Path relative to the root of the project: `../lib`. Empty for the project's own.
    pub(crate) at: PathBuf,
    pub(crate) project: Project,
}

/// The record of the project's name. The name stays when the project is moved, since branches bear it.
#[derive(Deserialize, Serialize)]
struct Name {
    name: String,
    root: PathBuf,
}

impl Member {
    /// Returns true for the project's own repository.
    pub(crate) fn is_first(&self) -> bool {
        self.at.as_os_str().is_empty()
    }

    /// Returns the repository in words, for people.
    pub(crate) fn title(&self) -> String {
        match self.is_first() {
            true => "the project's own repository".to_owned(),
            false => self.at.display().to_string(),
        }
    }
}

impl Joint {
    /// Finds the repository in `root` and those at `others`, given relative to it. Changes nothing.
    pub(crate) fn find(root: &Path, options: GitOptions, others: &[PathBuf]) -> Result<Self> {
        let first = Project::find(root, options.clone())?;
        let name = name(&first)?;
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let mut members = vec![Member { at: PathBuf::new(), project: first }];
        for entry in others {
            let refused = |error: Error| {
                error
                    .with("file", "project.yaml")
                    .with("field", "repositories")
                    .with("value", entry.display())
            };
            let member = member(&members, options.clone(), &name, entry, home.as_deref()).map_err(refused)?;
            members.push(member);
        }
        Ok(Self { members, name })
    }

    /// Returns the project's own repository.
    pub(crate) fn first(&self) -> &Project {
        // `find` puts it there.
        #[expect(clippy::indexing_slicing, reason = "there is always a first")]
        &self.members[0].project
    }

    /// Returns the key of the work under `key` in one of the repositories.
    pub(crate) fn key(&self, member: &Member, key: &WorkspaceKey) -> WorkspaceKey {
        if member.is_first() { key.clone() } else { key.part(&self.name) }
    }

    /// Returns the key of the whole work of which `key` is the part in one of the repositories.
    pub(crate) fn whole(&self, key: &WorkspaceKey) -> Option<WorkspaceKey> {
        match key {
            WorkspaceKey::Part { of, key, .. } => (**of == *self.name).then(|| (**key).clone()),
            key => Some(key.clone()),
        }
    }

    /// Returns the repository at `at`.
    ///
    /// # Errors
    /// `not_supported` if the project does not name it any more.
    pub(crate) fn member(&self, at: &Path) -> Result<&Member> {
        self.members.iter().find(|member| member.at == at).ok_or_else(|| {
            Error::new(
                ErrorKind::NotSupported,
                "the work has a part in a repository that the project does not name: put it back into `repositories`",
            )
            .with("file", "project.yaml")
            .with("field", "repositories")
            .with("value", at.display())
        })
    }

    /// Returns the repositories in which the work under `key` is: all that the project named when it began.
    pub(crate) fn of(&self, key: &WorkspaceKey) -> Result<Vec<&Member>> {
        match Layout::read(&self.first().state(), key)? {
            Some(layout) => layout.places.iter().map(|place| self.member(&place.repository)).collect(),
            // It began when the project had one repository.
            None => Ok(self.members.iter().take(1).collect()),
        }
    }

    /// Returns the layout of the work under `key`, and writes down a new one if there is none.
    pub(crate) fn lay_out(&self, key: &WorkspaceKey) -> Result<Layout> {
        let first = self.first();
        self.note_name()?;
        if let Some(layout) = Layout::read(&first.state(), key)? {
            return Ok(layout);
        }
        let around = Path::new(".watchfire").join(TOGETHER).join(key.to_string());
        let mut places = places(&around, &self.members.iter().collect::<Vec<_>>());
        // Work of before, which stays where it is.
        let plain = Path::new(".watchfire").join("worktrees").join(key.to_string());
        if fs::symlink_metadata(first.root.join(&plain)).is_ok()
            && let Some(own) = places.first_mut()
        {
            own.folder = plain;
        }
        let layout = Layout { places, is_open: false };
        layout.write(&first.state(), key)?;
        Ok(layout)
    }

    /// Writes down the name of the project, with the place at which the project is now.
    fn note_name(&self) -> Result<()> {
        let first = self.first();
        let record = Name { name: self.name.clone(), root: first.root.clone() };
        let bytes = serde_json::to_vec_pretty(&record)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a record").with_source(e))?;
        let path = name_path(first);
        match files::read(&path)? {
            Some(known) if known == bytes => Ok(()),
            _ => files::replace_durably(&path, &bytes),
        }
    }

    /// Takes the locks of all repositories, in the order of their paths: another project with the same ones in another order
    /// takes them in this order too.
    pub(crate) fn lock(&self) -> Result<Vec<FileLock>> {
        let mut projects: Vec<_> = self.members.iter().map(|member| &member.project).collect();
        projects.sort_by(|a, b| a.common.cmp(&b.common));
        projects.into_iter().map(Project::lock).collect()
    }
}

/// Returns the places of repositories below `folder`: those that they have to each other on the disk, so that paths from one to
/// another stay right.
pub(crate) fn places(folder: &Path, members: &[&Member]) -> Vec<Placed> {
    let roots = members.iter().map(|member| member.project.root.as_path());
    let above = roots.reduce(common).unwrap_or(Path::new("/"));
    let place = |member: &&Member| {
        let root = &member.project.root;
        let below = root.strip_prefix(above).unwrap_or(root);
        // One alone has nothing that would be left below it.
        let alone = root.file_name().map(Path::new).unwrap_or(below);
        let below = if below.as_os_str().is_empty() { alone } else { below };
        Placed { repository: member.at.clone(), folder: folder.join(below) }
    };
    members.iter().map(place).collect()
}

/// Finds one of the other repositories.
fn member(
    known: &[Member],
    options: GitOptions,
    name: &str,
    entry: &Path,
    home: Option<&Path>,
) -> Result<Member> {
    let Some(first) = known.first().map(|first| &first.project) else {
        return Err(Error::new(ErrorKind::Internal, "a project without a repository"));
    };
    let wrong = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
    // The default branch is that of the project.
    let options = GitOptions { default_branch: None, ..options };
    let mut project = Project::find(&first.root.join(entry), options).map_err(|error| {
        let message = "this is not the top of a repository that can be used";
        Error::new(error.kind(), message).with_source(error)
    })?;
    if home.is_some_and(|home| home.starts_with(&project.root)) {
        return wrong("the home folder cannot be a repository of a project: name one inside it".to_owned());
    }
    for other in known {
        let (a, b) = (&project.root, &other.project.root);
        if project.common == other.project.common {
            return wrong(format!("this is the same repository as {}: name each once", other.title()));
        }
        if a.starts_with(b) || b.starts_with(a) {
            return wrong(format!(
                "this repository and {} lie in each other: name repositories that lie beside each other",
                other.title()
            ));
        }
    }
    let at = relative(&first.root, &project.root);
    if at.to_str().is_none() {
        return wrong("the path is not UTF-8, and cannot be written down: rename its folders".to_owned());
    }
    let of = PartOf { name: name.to_owned(), root: first.root.clone(), state: first.state(), at: at.clone() };
    project.part_of = Some(of);
    Ok(Member { at, project })
}

/// Returns the name of the project in the keys of its parts: the one that is recorded, else one made of its folder.
fn name(first: &Project) -> Result<String> {
    let recorded =
        files::read(&name_path(first))?.and_then(|bytes| serde_json::from_slice::<Name>(&bytes).ok());
    if let Some(Name { name, root }) = recorded
        // A copy of the project must not take the original's work for its own.
        && (root == first.root || !root.join(".git").exists())
        && names::is_project_name(&name)
    {
        return Ok(name);
    }
    let folder = first.root.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let folder: String = folder.chars().map(plain).take(LONGEST).collect();
    let hash =
        Oid::hash_object(ObjectType::Blob, first.root.as_os_str().as_bytes()).during("naming a project")?;
    let hash: String = hash.to_string().chars().take(8).collect();
    Ok(format!("{}-{hash}", folder.trim_matches('-')).trim_start_matches('-').to_owned())
}

fn name_path(first: &Project) -> PathBuf {
    first.state().join("together.json")
}

/// Returns the deepest folder that holds both.
fn common<'a>(a: &'a Path, b: &Path) -> &'a Path {
    a.ancestors().find(|above| b.starts_with(above)).unwrap_or(Path::new("/"))
}

/// Returns the path that leads from one folder to another. Both are real paths.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let above = common(from, to);
    let ups = from.strip_prefix(above).unwrap_or(from).components().map(|_| Component::ParentDir);
    let downs = to.strip_prefix(above).unwrap_or(to).components();
    ups.chain(downs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_from_one_repository_to_another() {
        for (from, to, expected) in [
            ("/w/app", "/w/lib", "../lib"),
            ("/w/app", "/w/more/lib", "../more/lib"),
            ("/w/deep/app", "/w/lib", "../../lib"),
            ("/w/app", "/srv/lib", "../../srv/lib"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(expected));
        }
    }
}
