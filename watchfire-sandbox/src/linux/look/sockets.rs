//! Sockets that somebody listens on, by their paths: connecting to one is no access to a file, so that no view and no
//! rule of Landlock holds it, up to version 8.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Access, RuleAccess, SandboxPolicy};

/// Returns the sockets that a command could see and must not. A socket in a folder that the command writes is covered
/// too: its listener started before the command, so it belongs to another program.
pub(in crate::linux) fn to_cover(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let shows = |path: &Path| policy.allows(path, Access::Read);
    // One that a rule names is opened on purpose.
    let named = |path: &Path| policy.rules.iter().any(|rule| rule.path == path);
    let there = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let (absolute, relative): (Vec<_>, Vec<_>) = bound(&table).partition(|path| path.is_absolute());
    let folders = if relative.is_empty() { BTreeSet::new() } else { folders(policy) };
    let joined = relative.iter().flat_map(|path| folders.iter().map(move |folder| folder.join(path)));
    let all: BTreeSet<PathBuf> = absolute.into_iter().map(Path::to_owned).chain(joined).collect();
    all.into_iter().filter(|path| shows(path) && !named(path) && there(path)).collect()
}

/// Returns the folders that a relative socket name may start from: those that the command writes, and those in which
/// programs run. The kernel does not record the folder.
fn folders(policy: &SandboxPolicy) -> BTreeSet<PathBuf> {
    let written = policy.rules.iter().filter(|rule| rule.access == RuleAccess::Write);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let working = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    written.map(|rule| rule.path.clone()).chain(working.filter(|path| path.is_absolute())).collect()
}

/// Yields the paths in the kernel's table of sockets. The path is the last column, and an abstract one
/// begins with `@`.
fn bound(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let mut rest = line;
        // Seven columns, some of which are filled up with spaces.
        for _ in 0..7 {
            rest = rest.trim_ascii_start();
            rest = rest.get(rest.iter().position(|byte| *byte == b' ')?..)?;
        }
        let path = rest.get(1..).filter(|path| !path.is_empty() && !path.starts_with(b"@"))?;
        Some(Path::new(OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_the_kernel_writes_them() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 19012 /home/u/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 57312\n\
            0000000000000000: 00000002 00000000 00010000 0001 01   573 @/tmp/.X11-unix/X0\n\
            0000000000000000: 00000002 00000000 00000000 0002 01   574 relative\n";
        assert_eq!(bound(table).collect::<Vec<_>>(), [Path::new("/home/u/a b.sock"), Path::new("relative")]);
    }
}
