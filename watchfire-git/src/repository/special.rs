//! Removes FIFOs, sockets and devices from the parts of the repository that an agent may write. git and
//! libgit2 open files there by path, and would wait for ever.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::repository::project::Project;

/// Depth to which folders are searched. git does not nest them more deeply there.
const DEEPEST: usize = 16;

/// Removes special files from the branches of agents and their logs.
pub(crate) fn sweep_branches(project: &Project) {
    for folder in ["refs/heads/watchfire", "logs/refs/heads/watchfire"] {
        sweep(&project.common.join(folder), DEEPEST);
    }
}

/// Removes special files from the object database.
pub(crate) fn sweep_objects(project: &Project) {
    sweep(&project.common.join("objects"), 1);
}

/// Removes special files below `folder`. They hold no work, and one that cannot be removed was not made by an
/// agent.
fn sweep(folder: &Path, depth: usize) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            sweep(&entry.path(), depth - 1);
        } else if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
            _ = fs::remove_file(entry.path());
        }
    }
}
