//! "All but X" for a kernel that only knows "this": every sibling on the way to X is granted by itself.
//!
//! Landlock's rules are allowances that hold for everything below them. To hide one file, the folders on the way to it
//! get no rule of their own; their other entries do. Entries that are made there later cannot be read: it fails closed.
//! Inside of writable folders that price is too high for names and for read-only places, since an agent could make no
//! file there any more: those stay open and are listed.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{ABI, Access as _, AccessFs, BitFlags};
use watchfire_core::sandbox::RuleAccess;

use crate::linux::look::tree::{Kind, Node, Tree};

/// Rights at a path and below.
pub(in crate::linux) type Rights = BitFlags<AccessFs>;

/// The version whose rights we ask for: tested, never "the latest".
pub(in crate::linux) const PINNED: ABI = ABI::V7;

/// Rules that grant a tree, and what they cannot hold.
#[derive(Clone, Debug, Default)]
pub(in crate::linux) struct Enumerated {
    /// Rules of Landlock.
    pub(in crate::linux) rules: Vec<(PathBuf, Rights)>,
    /// Denied names inside of writable folders: they stay readable and writable.
    pub(in crate::linux) open_names: Vec<PathBuf>,
    /// Read-only places inside of writable folders: they stay writable.
    pub(in crate::linux) open_writes: Vec<PathBuf>,
    /// Folders on the way to hidden ones, which cannot be listed.
    pub(in crate::linux) unlistable: Vec<PathBuf>,
    /// Writable folders in which nothing new can be made, because something denied is in them.
    pub(in crate::linux) closed: Vec<PathBuf>,
}

/// Reading, listing and executing.
pub(in crate::linux) fn reading() -> Rights {
    AccessFs::from_read(PINNED)
}

/// Returns the rights to read, execute and change files, without making devices.
pub(in crate::linux) fn writing() -> Rights {
    AccessFs::from_all(PINNED) & !(AccessFs::MakeBlock | AccessFs::MakeChar)
}

/// Returns the rights that apply to a file that is not a folder.
pub(in crate::linux) fn on_files() -> Rights {
    AccessFs::from_file(PINNED)
}

/// Using a device, terminals too.
pub(in crate::linux) fn device() -> Rights {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// Devices that every program may use.
pub(in crate::linux) const DEVICES: &[&str] =
    &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"];

/// The rules for `tree`.
pub(in crate::linux) fn enumerate(tree: &Tree) -> Enumerated {
    let mut result = Enumerated::default();
    result.place(Path::new("/"), &tree.root, RuleAccess::Read, Rights::empty());
    if tree.root.children.get(std::ffi::OsStr::new("dev")).is_none_or(|dev| dev.access.is_none()) {
        let device = device();
        result.rules.push(("/dev".into(), AccessFs::ReadDir.into()));
        result.rules.push(("/dev/pts".into(), device | AccessFs::ReadDir));
        result.rules.extend(DEVICES.iter().map(|name| (Path::new("/dev").join(name), device)));
    }
    result
}

impl Enumerated {
    /// Grants rights to `path` and everything below. `granted` holds already from above.
    fn place(&mut self, path: &Path, node: &Node, above: RuleAccess, granted: Rights) {
        let access = held(node, above);
        self.note_open(path, node, above);
        let wanted = match node.kind {
            // Devices are granted one by one.
            _ if is_dev(path) && node.access.is_none() => Rights::empty(),
            Kind::Folder => rights(access),
            Kind::File => rights(access) & on_files(),
            Kind::Missing => Rights::empty(),
        };
        let whole = wanted & ceiling(path, node, above);
        if !granted.contains(whole) {
            self.rules.push((path.to_owned(), whole));
        }
        let granted = granted | whole;
        if whole == wanted {
            for (name, child) in &node.children {
                self.place(&path.join(name), child, access, granted);
            }
            return;
        }
        if !whole.contains(AccessFs::ReadDir) {
            self.unlistable.push(path.to_owned());
        }
        if access == RuleAccess::Write {
            self.closed.push(path.to_owned());
        }
        for (name, child) in &node.children {
            self.place(&path.join(name), child, access, granted);
        }
        // What cannot be listed by us cannot be used by the agent either.
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let sibling = path.join(entry.file_name());
            if node.children.contains_key(&entry.file_name()) || is_dev(&sibling) {
                continue;
            }
            let rights = match entry.file_type() {
                Ok(kind) if kind.is_dir() => wanted,
                // A link is judged where it leads.
                Ok(kind) if kind.is_symlink() => continue,
                Ok(_) => wanted & on_files(),
                Err(_) => continue,
            };
            if !granted.contains(rights) {
                self.rules.push((sibling, rights));
            }
        }
    }

    fn note_open(&mut self, path: &Path, node: &Node, above: RuleAccess) {
        if above == RuleAccess::Write && node.kind != Kind::Missing && Some(held(node, above)) != node.access
        {
            match node.access {
                Some(RuleAccess::Deny) => self.open_names.push(path.to_owned()),
                Some(RuleAccess::Read) => self.open_writes.push(path.to_owned()),
                _ => {}
            }
        }
    }
}

/// Returns the access that can be enforced at a place. Inside of writable folders, neither names nor read-only places
/// can.
fn held(node: &Node, above: RuleAccess) -> RuleAccess {
    match node.access {
        Some(RuleAccess::Deny) if node.by_name && above == RuleAccess::Write => above,
        Some(RuleAccess::Read) if above == RuleAccess::Write => above,
        Some(access) => access,
        None => above,
    }
}

/// Returns the rights that `path` can have as a whole without granting too much somewhere below.
fn ceiling(path: &Path, node: &Node, above: RuleAccess) -> Rights {
    let access = held(node, above);
    let own = match (access, node.kind) {
        // Nothing is there to hide; but what appears in a folder that is only read must not be readable.
        (RuleAccess::Deny, Kind::Missing) if above == RuleAccess::Write => Rights::all(),
        // Its folder may be listed; not more, or it could be removed or replaced.
        (RuleAccess::Deny, Kind::Missing | Kind::File) => AccessFs::ReadDir.into(),
        (RuleAccess::Deny, Kind::Folder) => Rights::empty(),
        _ => Rights::all(),
    };
    let below = node.children.iter().map(|(name, child)| ceiling(&path.join(name), child, access));
    let devices = if path == Path::new("/") { !on_files() } else { Rights::all() };
    below.fold(own & devices, |all, one| all & one)
}

fn rights(access: RuleAccess) -> Rights {
    match access {
        RuleAccess::Deny => Rights::empty(),
        RuleAccess::Read => reading(),
        RuleAccess::Write => writing(),
    }
}

fn is_dev(path: &Path) -> bool {
    path == Path::new("/dev")
}
