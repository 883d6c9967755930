//! What of a Linux system is closed: everything in `/` but what systems consist of, and for root what only root reads.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use watchfire_core::sandbox::{Rule, RuleAccess};

use super::deny;
use super::open::{OPEN_SYSTEM, OPEN_TOP};
use crate::resolve::resolve;

/// Files of `/etc` that are often links into `/run`.
const LINKED: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/os-release"];

/// Readable by everybody.
const BY_ALL: u32 = 0o004;

/// Returns true if a path lies in a part of the system that shows.
pub(super) fn shows(path: &Path) -> bool {
    match path.components().nth(1) {
        Some(Component::Normal(name)) => OPEN_TOP.iter().any(|open| name == *open),
        _ => true,
    }
}

/// Closes what shows no system, and opens single places in it.
pub(super) fn rules(root: bool) -> Vec<Rule> {
    let top = fs::read_dir("/").into_iter().flatten().flatten();
    // A link is closed where it leads: denying `/data`, a link to `/opt/data`, would hide a part of `/opt`.
    let top = top.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    let closed = top.map(|entry| entry.path()).filter(|path| !shows(path));
    let mut rules: Vec<_> = closed.map(|path| deny(path, "base policy: not a part of the system")).collect();
    let opened = OPEN_SYSTEM.iter().map(|(path, why)| (PathBuf::from(path), format!("base policy: {why}")));
    let linked =
        LINKED.iter().map(|path| (resolve(Path::new(path)), "base policy: settings of the system".into()));
    let opened = opened.chain(linked.filter(|(path, _)| !shows(path)));
    rules.extend(opened.map(|(path, why)| Rule::new(path, RuleAccess::Read, why)));
    if root {
        hide_private(Path::new("/etc"), &mut rules);
    }
    rules
}

/// Closes what in a folder is not readable by everybody, since no mode holds root back.
fn hide_private(folder: &Path, rules: &mut Vec<Rule>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Not following links: what they lead to is judged where it is.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_symlink() {
            continue;
        }
        if found.permissions().mode() & BY_ALL == 0 {
            rules.push(deny(entry.path(), "base policy: readable by root alone"));
        } else if found.is_dir() {
            hide_private(&entry.path(), rules);
        }
    }
}

/// Returns the home folder of this user in the system's list of users. `HOME` is not asked.
///
/// Read from the file, because other sources of names may ask the network.
pub(super) fn passwd_home() -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let home = text.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let is_own = fields.next()?.parse() == Ok(own);
        fields.nth(2).filter(|_| is_own).map(PathBuf::from)
    });
    home.filter(|home| {
        home.is_absolute() && !shows(home) && fs::metadata(home).is_ok_and(|it| it.uid() == own)
    })
}
