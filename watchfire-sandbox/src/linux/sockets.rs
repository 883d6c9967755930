//! Sockets that somebody listens on, by their paths: connecting to one is no access to a file, so that no view and no
//! rule of Landlock holds it, up to version 8.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Access, SandboxPolicy};

/// Returns those that a command could see. One in a folder that it writes is covered too: whoever listens there started
/// before the command, so it is another program's.
pub(super) fn to_cover(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let shows = |path: &&Path| policy.allows(path, Access::Read);
    // One that a rule names is opened on purpose.
    let named = |path: &&Path| policy.rules.iter().any(|rule| rule.path == *path);
    let there = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    bound(&table).filter(shows).filter(|path| !named(path)).filter(there).map(Path::to_owned).collect()
}

/// The absolute paths in the kernel's table, of which each line ends with one, if there is one.
fn bound(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.windows(2).position(|pair| pair == b" /")?;
        line.get(start + 1..).map(|path| Path::new(OsStr::from_bytes(path)))
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
        assert_eq!(bound(table).collect::<Vec<_>>(), [Path::new("/home/u/a b.sock")]);
    }
}
