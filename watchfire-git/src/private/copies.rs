//! Private copies of everything that git writes for an agent: the administration of its folder, references
//! with their logs, and new objects.
//!
//! A sandbox shows the copies at the real paths, or the `.git` of the agent's folder leads to them. So the
//! person's repository stays whole whatever an agent does, and nothing of the agent's is read before it was
//! checked. `import` brings the work over.
//!
//! The copies lie among our records, where agents see nothing else.

use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use git2::Oid;
use watchfire_core::files::make_private;
use watchfire_core::sandbox::{Bind, Rule, RuleAccess};
use watchfire_core::workspace::{Isolation, WorkspaceKey};
use watchfire_core::{Error, Result};

use crate::error::{During, broken};
use crate::failpoint::reached;
use crate::files;
use crate::names;
use crate::objects::id::hex;
use crate::private::agent_refs;
use crate::repository::admin;
use crate::repository::left;
use crate::repository::left::References;
use crate::repository::project::Project;

/// Upper bound for a small file of git's, in bytes. git writes no longer ones there.
const SMALL: u64 = 1 << 20;
/// Folders of the repository that are the agent's own, or that the agent must not see.
const OWN: &[&str] = &["refs", "logs", "objects", "watchfire"];

/// Folder in which git puts the repositories of submodules.
const MODULES: &str = "admin/modules";
/// File with the person's references at the time of the copy.
const SNAPSHOT: &str = "packed-refs";
/// The reference to the newest stash.
pub(crate) const STASH: &str = "refs/stash";

/// The private copies for one key.
pub(crate) struct Private {
    root: PathBuf,
    key: WorkspaceKey,
}

impl Private {
    /// Returns the private copies of `key`, or `None` if it has none.
    pub(crate) fn find(project: &Project, key: &WorkspaceKey) -> Option<Self> {
        let root = folder(project).join(key.to_string());
        root.is_dir().then(|| Self { root, key: key.clone() })
    }

    /// Returns the keys that have private copies.
    pub(crate) fn keys(project: &Project) -> Result<Vec<WorkspaceKey>> {
        let entries = files::entries(&folder(project))?;
        Ok(entries.iter().filter_map(|(name, _)| name.to_str().and_then(names::parse_key)).collect())
    }

    /// Copies the repository as it is now, with the branch at `tip`. There must be no copies of `key` yet.
    pub(crate) fn make(
        project: &Project,
        key: &WorkspaceKey,
        tip: Option<Oid>,
        isolation: Isolation,
    ) -> Result<Self> {
        let parent = folder(project);
        // Made under another name and renamed, so that copies with the key's name are always whole.
        let fresh = Self { root: parent.join(files::unique("private")), key: key.clone() };
        let made = fresh.fill(project, tip, isolation).and_then(|()| {
            reached("private: filled");
            let root = parent.join(key.to_string());
            fs::rename(&fresh.root, &root)
                .map_err(|e| Error::io("putting private copies in place", e).with_path(&root))?;
            let made = Self { root, key: key.clone() };
            made.take_up_modules(project)?;
            Ok(made)
        });
        if made.is_err() {
            _ = files::remove_tree(&fresh.root);
        }
        made
    }

    fn fill(&self, project: &Project, tip: Option<Oid>, isolation: Isolation) -> Result<()> {
        let (real, is_linked) = (Real::of(project), isolation == Isolation::Linked);
        for folder in [
            "top/refs/heads/watchfire",
            "top/refs/tags",
            "top/logs/refs/heads/watchfire",
            "shared",
            "objects/info",
            "objects/pack",
            "admin/logs",
        ] {
            make_private(&self.root.join(folder))?;
        }
        // Empty folders, over which the repository's own are shown, or links to these.
        for name in subfolders(&real.top)? {
            let path = self.root.join("top").join(&name);
            match is_linked {
                true if name == "objects" => link(Path::new("../objects"), &path)?,
                // Without its own, which git would take for another folder on the same branch.
                true if name == "worktrees" => self.link_others(project, &path)?,
                true if !OWN.iter().any(|own| name == *own) => link(&real.top.join(&name), &path)?,
                _ => make_private(&path)?,
            }
        }
        for name in FILES {
            self.copy(&real.top.join(name), &format!("top/{name}"))?;
        }
        // Twice: git in the folder may change its own copy.
        let snapshot = agent_refs::snapshot(project)?;
        self.write(SNAPSHOT, &snapshot)?;
        self.write("top/packed-refs", &snapshot)?;
        // The agent sees the person's stash too. `stashes` leaves these entries out.
        let branch = names::head(&names::branch(&self.key));
        for name in ["refs/stash", "logs/refs/stash", &format!("logs/{branch}")] {
            self.copy(&real.top.join(name), &format!("top/{name}"))?;
        }
        if let Some(tip) = tip {
            self.write(&format!("top/{branch}"), format!("{tip}\n").as_bytes())?;
            self.write("start", tip.to_string().as_bytes())?;
        }
        let admin = project.admin(&self.key);
        for name in ["HEAD", "commondir", "gitdir", "config.worktree", "locked", "logs/HEAD", "index"] {
            self.copy(&admin.join(name), &format!("admin/{name}"))?;
        }
        let shared = self.shared();
        if is_linked {
            self.write("admin/commondir", b"../top\n")?;
        }
        let shared = if is_linked { &real.objects } else { &shared };
        self.write("objects/info/alternates", &alternates(shared, &real.objects)?)
    }

    fn link_others(&self, project: &Project, folder: &Path) -> Result<()> {
        make_private(folder)?;
        let own = project.admin(&self.key);
        let others = files::entries(&project.common.join("worktrees"))?.into_iter();
        others.filter(|(_, path)| *path != own).try_for_each(|(name, path)| link(&path, &folder.join(name)))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.root.join(name);
        fs::write(&path, content).map_err(|e| Error::io("writing a private copy", e).with_path(&path))
    }

    fn copy(&self, from: &Path, name: &str) -> Result<()> {
        copy(from, &self.root.join(name))
    }

    /// Returns the bind of each copy. Other parts of the repository inside a copied folder are shown as they
    /// are.
    pub(crate) fn binds(&self, project: &Project) -> Result<Vec<Bind>> {
        let real = Real::of(project);
        let private = |name: &str, target: &Path, origin: &str| {
            Bind::new(self.root.join(name), target, RuleAccess::Write, format!("git: {origin}"))
        };
        // A folder comes before what is shown inside it.
        let mut binds = vec![private("top", &real.top, "references and locks")];
        binds.extend(shown(&self.root.join("top"), &real.top)?);
        binds.extend([
            private("admin", &project.admin(&self.key), "index and HEAD of the task"),
            private("objects", &real.objects, "new objects"),
            live(&real.objects, &self.shared()),
        ]);
        Ok(binds)
    }

    /// Returns the rules that open the copies where they lie, for an agent whose folder leads to them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = Rule> {
        let parts = [
            ("top", "references and locks"),
            ("admin", "index and HEAD of the task"),
            ("objects", "new objects"),
        ];
        parts.into_iter().map(|(name, origin)| {
            Rule::new(self.root.join(name), RuleAccess::Write, format!("git: {origin}"))
        })
    }

    /// Makes the `.git` of the agent's folder lead to the repository again, if it leads here.
    pub(crate) fn point_back(&self, project: &Project) -> Result<()> {
        let dot_git = project.worktree(&self.key).join(".git");
        match small(&dot_git)? {
            Some(content) if content == admin::pointer(&self.admin()) => {
                files::replace(&dot_git, &admin::pointer(&project.admin(&self.key)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path at which git in the sandbox finds the repository's own objects.
    fn shared(&self) -> PathBuf {
        // By the final name, because the path is written into the copies while they still have another name.
        self.root.with_file_name(self.key.to_string()).join("shared")
    }

    /// Returns the administration of the agent's folder.
    pub(crate) fn admin(&self) -> PathBuf {
        self.root.join("admin")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("admin/index")
    }

    /// Returns the references that the agent made or moved, its branch included.
    pub(crate) fn references(&self) -> Result<References> {
        agent_refs::made(&self.root.join("top"), &self.admin(), &self.root.join(SNAPSHOT))
    }

    /// Returns the tip of the branch with this full name, as the agent sees it.
    pub(crate) fn branch(&self, name: &str) -> Result<Option<Oid>> {
        if !name.starts_with("refs/heads/") || !git2::Reference::is_valid_name(name) {
            return Ok(None);
        }
        // What the agent has not moved is as it was in the snapshot, which the agent cannot write.
        match self.references()?.remove(name) {
            None => agent_refs::find_packed(&self.root.join(SNAPSHOT), name),
            made => Ok(made),
        }
    }

    /// Returns the content of the agent's HEAD.
    pub(crate) fn head(&self) -> Result<Option<Vec<u8>>> {
        small(&self.root.join("admin/HEAD"))
    }

    /// Returns the tip of the agent's branch at the time of the copy.
    pub(crate) fn start(&self) -> Result<Option<Oid>> {
        Ok(small(&self.root.join("start"))?.and_then(|text| hex(text.trim_ascii())))
    }

    /// Returns the tip of the agent's branch now.
    pub(crate) fn tip(&self) -> Result<Option<Oid>> {
        self.branch(&names::head(&names::branch(&self.key)))
    }

    /// Returns the commits that the agent stashed. Older stashes are only in the stash's log. The entries
    /// with which the log began are the person's, and are left out.
    pub(crate) fn stashes(&self, project: &Project) -> Result<Vec<Oid>> {
        let mut found: Vec<Oid> = self.references()?.remove(STASH).into_iter().collect();
        let (own, persons) = (self.root.join("top/logs/refs/stash"), project.common.join("logs/refs/stash"));
        found.extend(left::logged(&own, Some(&persons)).map_err(unreadable)?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns the commits that the agent made and took back, as far as its git has recorded them.
    pub(crate) fn taken_back(&self, project: &Project) -> Result<Vec<Oid>> {
        let mut named = left::noted(&self.root.join("admin")).map_err(unreadable)?;
        // Worktrees that the agent added itself, where it could.
        for (_, admin) in files::entries(&self.root.join("top/worktrees"))? {
            if fs::symlink_metadata(&admin).is_ok_and(|found| found.is_dir()) {
                let head = small(&admin.join("HEAD"))?.unwrap_or_default();
                named.extend(hex(head.trim_ascii()));
                named.extend(left::logged(&admin.join("logs/HEAD"), None).map_err(unreadable)?);
            }
        }
        for (log, copy_of) in self.logs(project) {
            named.extend(left::logged(&log, Some(&copy_of)).map_err(unreadable)?);
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }

    /// Returns the logs of the agent's HEAD and branch, each with the log that it was copied from.
    fn logs(&self, project: &Project) -> [(PathBuf, PathBuf); 2] {
        let branch = names::head(&names::branch(&self.key));
        [
            (self.root.join("admin/logs/HEAD"), project.admin(&self.key).join("logs/HEAD")),
            (self.root.join("top/logs").join(&branch), project.common.join("logs").join(&branch)),
        ]
    }

    /// Returns true if everything was imported and nothing has changed since.
    pub(crate) fn is_spent(&self, project: &Project) -> Result<bool> {
        let spent = small(&self.root.join("spent"))?;
        Ok(spent.is_some_and(|spent| self.state(project).is_ok_and(|now| now == spent)))
    }

    /// Records that everything was imported in the given `state`.
    pub(crate) fn spend(&self, state: &[u8]) -> Result<()> {
        files::replace(&self.root.join("spent"), state)
    }

    /// Returns the state of everything that an import takes over. Any change makes it differ.
    pub(crate) fn state(&self, project: &Project) -> Result<Vec<u8>> {
        let [log, branch_log] = self.logs(project).map(|(log, _)| log);
        let stamp = |path: &Path| {
            let stat = files::absent(rustix::fs::lstat(path).map_err(Into::into));
            let stat = stat.during("reading a private copy").map_err(unreadable)?;
            Ok::<_, Error>(stat.map(|stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)))
        };
        // Inode, size and time instead of contents: indices and logs can be large.
        let stamps = (stamp(&self.index())?, stamp(&log)?, stamp(&branch_log)?);
        let named = (self.references()?, self.head()?, self.stashes(project)?);
        Ok(format!("{named:?} {stamps:?}").into_bytes())
    }

    /// Removes the copies. The repositories of submodules that the agent fetched stay for its next session.
    /// They remain the agent's own, because git would run commands that they name.
    pub(crate) fn discard(self, project: &Project) -> Result<()> {
        let (modules, kept) = (self.root.join(MODULES), kept_modules(project, &self.key));
        match fs::symlink_metadata(&modules) {
            Err(_) => {}
            Ok(found) if found.is_dir() && fs::symlink_metadata(&kept).is_err() => move_to(&modules, &kept)?,
            // No folder, or the place is taken: a person may look at it.
            Ok(_) => set_modules_aside(project, &self.key, &modules)?,
        }
        reached("private: about to go");
        remove(project, &self.root)
    }

    /// Moves in the submodule repositories that earlier copies left.
    fn take_up_modules(&self, project: &Project) -> Result<()> {
        let kept = kept_modules(project, &self.key);
        if kept.is_dir() { move_to(&kept, &self.root.join(MODULES)) } else { Ok(()) }
    }

    /// Sets aside copies that cannot be imported, for a person to look at. Returns their new place.
    pub(crate) fn set_aside(self, project: &Project) -> Result<PathBuf> {
        files::set_aside(&self.root, &aside(project), &self.key.to_string())
    }
}

/// Sets aside the repositories of submodules that the agent of `key` fetched. Called when the key has no next
/// session.
pub(crate) fn give_up_modules(project: &Project, key: &WorkspaceKey) -> Result<()> {
    let kept = kept_modules(project, key);
    if fs::symlink_metadata(&kept).is_ok() { set_modules_aside(project, key, &kept) } else { Ok(()) }
}

fn set_modules_aside(project: &Project, key: &WorkspaceKey, modules: &Path) -> Result<()> {
    files::set_aside(modules, &aside(project), &format!("{key}-modules")).map(drop)
}

/// Returns the folder in which submodule repositories wait for the next session.
fn kept_modules(project: &Project, key: &WorkspaceKey) -> PathBuf {
    folder(project).join(format!("modules-{key}"))
}

fn link(to: &Path, at: &Path) -> Result<()> {
    symlink(to, at).map_err(|e| Error::io("making a private copy", e).with_path(at))
}

fn move_to(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| Error::io("moving repositories of submodules", e).with_path(from))
}

/// Removes the copies in `root`.
pub(crate) fn remove(project: &Project, root: &Path) -> Result<()> {
    // Renamed first, so that a kill leaves no half copies under the name. `sweep` removes the rest.
    let trash = folder(project).join(files::unique("trash"));
    fs::rename(root, &trash).map_err(|e| Error::io("removing private copies", e).with_path(root))?;
    files::remove_tree(&trash).map_err(|e| Error::io("removing private copies", e).with_path(&trash))
}

/// Returns binds that show the other parts of the git directory `real` inside its copy `top`.
pub(crate) fn shown(top: &Path, real: &Path) -> Result<Vec<Bind>> {
    let shown = subfolders(top)?.into_iter().filter(|name| !OWN.iter().any(|own| name == own));
    Ok(shown.map(|name| real.join(name)).map(|path| live(&path, &path)).collect())
}

/// Returns a bind that shows a part of the repository as it is.
pub(crate) fn live(path: &Path, target: &Path) -> Bind {
    Bind::new(path, target, RuleAccess::Read, "git: the repository")
}

/// Removes copies that a killed process was making or removing.
pub(crate) fn sweep(project: &Project) -> Result<()> {
    for (name, path) in files::entries(&folder(project))? {
        if files::is_abandoned(&name) {
            files::remove_tree(&path)
                .map_err(|e| Error::io("removing private copies", e).with_path(&path))?;
        }
    }
    Ok(())
}

/// Returns the folder of copies that could not be imported.
pub(crate) fn aside(project: &Project) -> PathBuf {
    folder(project).join("aside")
}

/// Returns the folder of all private copies.
pub(crate) fn folder(project: &Project) -> PathBuf {
    project.state().join("private")
}

/// The files at the top of a repository that git needs. The top is a copy too, because git makes locks beside
/// these files even where it changes nothing. A rule keeps the copies from being changed. The files
/// themselves are not shown: the kernel makes no mount of a file that another process replaces in that
/// instant.
pub(crate) const FILES: &[&str] = &["HEAD", "config", "config.worktree", "shallow"];

/// Returns the files of the repository that an agent with private copies may only read.
pub(crate) fn read_only(project: &Project) -> impl Iterator<Item = PathBuf> {
    FILES.iter().map(|name| project.common.join(name)).filter(|path| path.is_file())
}

/// The real paths in the repository.
struct Real {
    top: PathBuf,
    objects: PathBuf,
    branches: PathBuf,
    branch_logs: PathBuf,
}

impl Real {
    fn of(project: &Project) -> Self {
        let (refs, ref_logs) = (project.common.join("refs"), project.common.join("logs/refs"));
        Self {
            top: project.common.clone(),
            objects: project.common.join("objects"),
            branches: refs.join("heads/watchfire"),
            branch_logs: ref_logs.join("heads/watchfire"),
        }
    }
}

/// Rejects a repository in which a link lies where git or an agent's git writes. An agent that works in the
/// root itself, as in a chat, could have made it. Neither we nor the next agent may write to where it leads.
pub(crate) fn refuse_links(project: &Project) -> Result<()> {
    let real = Real::of(project);
    for folder in [&real.branches, &real.branch_logs, &real.objects.join("info")] {
        let mut ours = folder.ancestors().take_while(|path| *path != real.top);
        if let Some(link) = ours.find(|path| path.is_symlink()) {
            return Err(broken("a link in the repository lies where git writes: make it a plain folder")
                .with_path(link));
        }
    }
    Ok(())
}

/// Creates the folders over which a copy is shown.
pub(crate) fn make_targets(project: &Project) -> Result<()> {
    let real = Real::of(project);
    // git removes folders of references that have become empty, and with them the kernel removes what is
    // mounted there. `.keep` is a folder that stays.
    let [branches, logs] = [&real.branches, &real.branch_logs].map(|folder| folder.join(".keep"));
    for folder in [&branches, &logs, &real.objects.join("info")] {
        fs::create_dir_all(folder).map_err(|e| Error::io("creating a folder", e).with_path(folder))?;
    }
    Ok(())
}

/// Copies a file with its time, by which git decides what to believe of an index. Does nothing if there is no
/// file.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let Some(mut file) = files::open_plain(from)? else { return Ok(()) };
    let copied = (|| {
        let mut copy = File::create(to)?;
        std::io::copy(&mut file, &mut copy)?;
        copy.set_times(FileTimes::new().set_modified(file.metadata()?.modified()?))
    })();
    copied.map_err(|e| Error::io("copying a file of git", e).with_path(from))
}

/// Returns the names of the folders in `folder`.
pub(crate) fn subfolders(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let entries = files::entries(folder)?.into_iter();
    Ok(entries.filter(|(_, path)| is_folder(path)).map(|(name, _)| name).collect())
}

/// Returns the file by which git in a sandbox finds the repository's own objects, shown at `shared`, and what
/// these borrow from.
pub(crate) fn alternates(shared: &Path, objects: &Path) -> Result<Vec<u8>> {
    let mut alternates = shared.as_os_str().as_bytes().to_vec();
    for path in alternates_of(objects)? {
        alternates.push(b'\n');
        alternates.extend(path.as_os_str().as_bytes());
    }
    alternates.push(b'\n');
    Ok(alternates)
}

/// Returns the repository's other folders of objects, its alternates.
fn alternates_of(objects: &Path) -> Result<Vec<PathBuf>> {
    let text = files::read(&objects.join("info/alternates"))?.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    // A relative path counts from the folder of objects.
    let path = |line: &[u8]| objects.join(std::ffi::OsStr::from_bytes(line));
    Ok(lines.filter_map(|line| path(line).canonicalize().ok()).collect())
}

/// Returns the folders of objects from which the repository borrows, also those from which these borrow.
pub(crate) fn borrowed(objects: &Path) -> Result<Vec<PathBuf>> {
    let mut found = alternates_of(objects)?;
    let mut next = 0;
    while let Some(folder) = found.get(next) {
        for path in alternates_of(folder)? {
            if !found.contains(&path) {
                found.push(path);
            }
        }
        next += 1;
    }
    // The file may have come along with a repository that somebody else packed: it opens no folder of another kind.
    found.retain(|path| path.ends_with("objects") && path.join("pack").is_dir());
    Ok(found)
}

/// Reads a file that an agent may have written. Returns `None` if it is none that git could have written.
pub(crate) fn small(path: &Path) -> Result<Option<Vec<u8>>> {
    files::read_plain(path, SMALL).map_err(unreadable)
}

/// Turns a failed read into `broken`. git leaves only files that can be read, so the agent made this one
/// unreadable.
pub(crate) fn unreadable(error: Error) -> Error {
    broken("the agent's copies cannot be read").with_source(error)
}
