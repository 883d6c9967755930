//! The private copies of one guest, and the record of what it and the person have in common.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::files::make_private;
use watchfire_core::model::SessionId;
use watchfire_core::sandbox::{Bind, RuleAccess};
use watchfire_core::workspace::MergeGuard;
use watchfire_core::{Error, Result};

use crate::error::broken;
use crate::failpoint::reached;
use crate::files;
use crate::guest::state::{Head, State};
use crate::guest::wiring;
use crate::index::file::IndexFile;
use crate::names;
use crate::private::copies as private;
use crate::repository::left;
use crate::repository::project::Project;

/// Prefix of a guest's folder, which lies among the folders of tasks.
const PREFIX: &str = "guest-";

/// File with the references and the HEAD that both sides have in common.
const BASE: &str = "base";
/// File with the index, and with the log of the stash, that both sides have in common.
const BASE_INDEX: &str = "base-index";
const BASE_STASH: &str = "base-stash";
/// File with what the guest's commits must not change.
const GUARD: &str = "guard";
/// File that says how both sides were when they were last compared.
const SEEN: &str = "seen";
/// File that says that something in the copies was not sound, and was taken out of their references.
const DAMAGED: &str = "damaged";
/// File with the folders that were made for the sandbox to keep.
const MADE: &str = "made";
/// Files with the submodules that the person's index had at the start, and with those that it has got since.
const FIRST_LINKS: &str = "first-links";
const LINKS: &str = "links";
/// File that says that nothing of the session runs any more.
const ENDED: &str = "ended";

/// The private copies of one guest.
pub(crate) struct Guest {
    pub(crate) root: PathBuf,
    /// Name under which its commits are left behind.
    pub(crate) name: String,
}

impl Guest {
    /// Returns the copies of `session`, or `None` if it has none.
    pub(crate) fn find(project: &Project, session: &SessionId) -> Option<Self> {
        let guest = Self::of(project, session);
        guest.root.is_dir().then_some(guest)
    }

    fn of(project: &Project, session: &SessionId) -> Self {
        let root = private::folder(project).join(format!("{PREFIX}{session}"));
        Self { root, name: names::guest(session) }
    }

    /// Copies the repository as it is now. There must be no copies of `session` yet.
    pub(crate) fn make(project: &Project, session: &SessionId) -> Result<Self> {
        let guest = Self::of(project, session);
        // Made under another name and renamed, so that copies with the session's name are always whole.
        let fresh = Self {
            root: private::folder(project).join(files::unique("guest")),
            ..Self::of(project, session)
        };
        let made = fresh.fill(project, &guest).and_then(|()| {
            reached("guest: filled");
            fs::rename(&fresh.root, &guest.root)
                .map_err(|e| Error::io("putting private copies in place", e).with_path(&guest.root))
        });
        if made.is_err() {
            _ = files::remove_tree(&fresh.root);
        }
        made.map(|()| guest)
    }

    /// Fills this folder. It is renamed to the folder of `guest` once it is whole.
    fn fill(&self, project: &Project, guest: &Self) -> Result<()> {
        let real = &project.git;
        for folder in [
            "top/refs/heads",
            "top/refs/tags",
            "top/logs/refs/heads",
            "shared",
            "objects/info",
            "objects/pack",
        ] {
            make_private(&self.root.join(folder))?;
        }
        // Empty folders, over which the repository's own are shown.
        for name in private::subfolders(real)?.iter().filter(|name| !left::is_note(name)) {
            make_private(&self.root.join("top").join(name))?;
        }
        let top = self.top();
        for name in private::FILES.iter().copied().chain(["index", "logs/HEAD"]) {
            private::copy(&real.join(name), &top.join(name))?;
        }
        let state = State::of_person(project)?;
        if let Head::Branch(branch) = &state.head {
            let log = Path::new("logs").join(branch);
            if let Some(folder) = log.parent() {
                make_private(&top.join(folder))?;
            }
            private::copy(&real.join(&log), &top.join(&log))?;
        }
        for name in ["refs/stash", "logs/refs/stash"] {
            private::copy(&real.join(name), &top.join(name))?;
        }
        let write = |name: &str, content: &[u8]| {
            let path = self.root.join(name);
            fs::write(&path, content).map_err(|e| Error::io("writing a private copy", e).with_path(&path))
        };
        write("top/packed-refs", &state.packed())?;
        write("objects/info/alternates", &private::alternates(&guest.shared(), &real.join("objects"))?)?;
        private::copy(&top.join("index"), &self.root.join(BASE_INDEX))?;
        private::copy(&top.join("logs/refs/stash"), &self.root.join(BASE_STASH))?;
        write(BASE, &state.to_bytes())
    }

    /// Returns the bind of each copy. Other parts of the repository are shown as they are.
    pub(crate) fn binds(&self, project: &Project) -> Result<Vec<Bind>> {
        let real = &project.git;
        let own = |name: &str, target: &Path, origin: &str| {
            Bind::new(self.root.join(name), target, RuleAccess::Write, format!("git: {origin}"))
        };
        // A folder comes before what is shown inside it.
        let mut binds = vec![own("top", real, "the session's copy of the repository")];
        binds.extend(private::shown(&self.top(), real)?);
        let objects = real.join("objects");
        binds.extend([own("objects", &objects, "new objects"), private::live(&objects, &self.shared())]);
        Ok(binds)
    }

    /// Returns the path at which git in the sandbox finds the repository's own objects.
    fn shared(&self) -> PathBuf {
        self.root.join("shared")
    }

    /// Returns the git directory of the guest.
    pub(crate) fn top(&self) -> PathBuf {
        self.root.join("top")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// Returns the path of the log that both sides' stashes began with.
    pub(crate) fn base_stash(&self) -> PathBuf {
        self.root.join(BASE_STASH)
    }

    /// Returns what both sides had in common.
    pub(crate) fn base(&self) -> Result<State> {
        State::from_bytes(&files::read(&self.root.join(BASE))?.unwrap_or_default())
    }

    /// Returns the index that both sides had in common.
    pub(crate) fn base_index(&self) -> Result<IndexFile> {
        IndexFile::from_bytes(&files::read(&self.root.join(BASE_INDEX))?.unwrap_or_default())
    }

    /// Records what both sides have in common now.
    pub(crate) fn set_base(&self, state: &State, index: &[u8], stash: &[u8]) -> Result<()> {
        // The state last: until it is there, the guest counts as ahead, and an exchange is repeated.
        files::replace(&self.root.join(BASE_STASH), stash)?;
        files::replace(&self.root.join(BASE_INDEX), index)?;
        files::replace(&self.root.join(BASE), &state.to_bytes())
    }

    /// Returns what the guest's commits must not change.
    pub(crate) fn guard(&self) -> Result<MergeGuard> {
        let Some(bytes) = files::read(&self.root.join(GUARD))? else { return Ok(MergeGuard::default()) };
        let (protected, wiring) = serde_json::from_slice(&bytes)
            .map_err(|error| broken("the record of a session's copies is damaged").with_source(error))?;
        Ok(MergeGuard::default().with_protected(protected).with_wiring(wiring))
    }

    /// Records what the guest's commits must not change.
    pub(crate) fn set_guard(&self, guard: &MergeGuard) -> Result<()> {
        let bytes = serde_json::to_vec(&(&guard.protected, guard.wiring)).unwrap_or_default();
        files::replace(&self.root.join(GUARD), &bytes)
    }

    /// Returns true if nothing that an exchange looks at has changed since the last one.
    pub(crate) fn is_seen(&self, now: &[u8]) -> Result<bool> {
        Ok(files::read(&self.root.join(SEEN))?.is_some_and(|seen| seen == now))
    }

    /// Records how both sides were when an exchange had nothing more to do.
    pub(crate) fn set_seen(&self, now: &[u8]) -> Result<()> {
        files::replace(&self.root.join(SEEN), now)
    }

    /// Returns a path that was made when the session began.
    pub(crate) fn began(&self) -> PathBuf {
        self.root.join("shared")
    }

    /// Returns the second name of a lock that an exchange holds on the person's index.
    pub(crate) fn lock_token(&self) -> PathBuf {
        self.root.join("index-lock")
    }

    /// Adds to the folders that were made for the sandbox to keep, each after the one around it.
    pub(crate) fn note_made(&self, folders: &[PathBuf]) -> Result<()> {
        if folders.is_empty() {
            return Ok(());
        }
        let mut all = files::read(&self.root.join(MADE))?.unwrap_or_default();
        all.extend(list(folders));
        files::replace(&self.root.join(MADE), &all)
    }

    /// Removes the folders that were made, as far as they are empty.
    pub(crate) fn unmake(&self) {
        let made = files::read(&self.root.join(MADE)).ok().flatten().unwrap_or_default();
        for folder in paths(&made).collect::<Vec<_>>().iter().rev() {
            // What the person has put there stays.
            _ = fs::remove_dir(folder);
        }
    }

    /// Records the submodules that the person's index has got since the start.
    pub(crate) fn note_links(&self, project: &Project) -> Result<()> {
        let links = |index: PathBuf| {
            let index = IndexFile::read(&index).unwrap_or_default();
            wiring::links(&index, &project.root).collect::<BTreeSet<_>>()
        };
        let first = self.root.join(FIRST_LINKS);
        let now = links(project.git.join("index"));
        let Some(known) = files::read(&first)? else {
            return files::replace(&first, &list(&now));
        };
        let known: BTreeSet<_> = paths(&known).collect();
        let new: Vec<_> = now.difference(&known).cloned().collect();
        if new == self.links()? {
            return Ok(());
        }
        files::replace(&self.root.join(LINKS), &list(&new))
    }

    /// Returns the submodules that the person's index has got since the start, as they were recorded last.
    pub(crate) fn links(&self) -> Result<Vec<PathBuf>> {
        Ok(paths(&files::read(&self.root.join(LINKS))?.unwrap_or_default()).collect())
    }

    /// Removes the copies.
    pub(crate) fn discard(self, project: &Project) -> Result<()> {
        private::remove(project, &self.root)
    }

    /// Records that the copies hold something that could not be taken over.
    pub(crate) fn mark_damaged(&self) -> Result<()> {
        files::replace(&self.root.join(DAMAGED), b"")
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.root.join(DAMAGED).exists()
    }

    /// Records that nothing of the session runs any more.
    pub(crate) fn mark_ended(&self) -> Result<()> {
        files::replace(&self.root.join(ENDED), b"")
    }

    /// Sets aside copies that cannot be taken over, for a person to look at. Returns their new place.
    pub(crate) fn set_aside(self, project: &Project) -> Result<PathBuf> {
        files::set_aside(&self.root, &private::aside(project), "chat")
    }
}

/// Returns the sessions that are over and still have copies: their end failed, or they entered the root more than an
/// hour ago and never made an exchange, because the process that let them in was killed.
pub(crate) fn abandoned(project: &Project) -> Result<Vec<SessionId>> {
    const HOUR: std::time::Duration = std::time::Duration::from_secs(60 * 60);
    let mut found = Vec::new();
    for (name, path) in files::entries(&private::folder(project))? {
        let session = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        let made = || fs::metadata(path.join("shared")).and_then(|made| made.modified()).ok();
        let is_old = || made().and_then(|made| made.elapsed().ok()).is_some_and(|age| age > HOUR);
        let is_over = || path.join(ENDED).exists() || (!path.join(SEEN).exists() && is_old());
        found.extend(session.filter(|_| is_over()));
    }
    Ok(found)
}

/// Returns the content of a file with these paths. A zero byte ends each.
fn list<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<u8> {
    paths.into_iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}

/// Yields the paths of such a file.
fn paths(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path)))
}
