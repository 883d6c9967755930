//! Moving what is new into a generation.

use std::fs;
use std::io;
use std::path::Path;

use watchfire_core::files::make_private;

/// Moves into `to` what neither it nor the `real` folder has. What both have stays where it is.
///
/// A folder that is new goes as a whole, so that a tool finds all of it or nothing.
pub(super) fn merge(from: &Path, to: &Path, real: &Path) -> io::Result<()> {
    make_private(to).map_err(io::Error::other)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to, real) = (entry.path(), to.join(entry.file_name()), real.join(entry.file_name()));
        let is_folder = entry.file_type()?.is_dir();
        let (kept, outside) = (kind(&to), kind(&real));
        match (kept, outside) {
            (None, None) => fs::rename(&from, &to)?,
            (None | Some(true), None | Some(true)) if is_folder => merge(&from, &to, &real)?,
            // The older one wins, and the real one always.
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a folder is there, or something else; `None` if nothing is.
fn kind(path: &Path) -> Option<bool> {
    fs::symlink_metadata(path).ok().map(|found| found.is_dir())
}

/// Makes a copy of a folder whose files are hard links.
pub(super) fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_tree(&entry.path(), &to)?
        } else {
            fs::hard_link(entry.path(), to)?
        }
    }
    Ok(())
}

/// Size that an entry counts at least, so that many empty ones have a bound too.
pub(super) const ENTRY: u64 = 4096;

/// Returns the size of a folder, in bytes.
pub(super) fn size(folder: &Path) -> io::Result<u64> {
    let mut size = ENTRY;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        size += if found.is_dir() { self::size(&entry.path())? } else { found.len().max(ENTRY) };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_moves_and_folders_as_a_whole() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        for (name, text) in [
            ("from/src/new-1.0/lib.rs", "new"),
            ("from/src/old-1.0/build.rs", "evil"),
            ("from/src/mine-1.0/build.rs", "evil"),
            ("from/src/mine-1.0/extra.rs", "extra"),
            ("from/index", "newer"),
            ("from/file", "not a folder"),
            ("to/src/old-1.0/build.rs", "old"),
            ("real/src/mine-1.0/build.rs", "mine"),
            ("real/file/there", "x"),
            ("real/index", "mine"),
        ] {
            write(name, text);
        }
        merge(&at("from"), &at("to"), &at("real")).unwrap();
        let read = |name: &str| fs::read_to_string(at(name)).ok();
        assert_eq!(read("to/src/new-1.0/lib.rs").as_deref(), Some("new"));
        assert_eq!(read("to/src/old-1.0/build.rs").as_deref(), Some("old"));
        assert_eq!(read("to/src/mine-1.0/extra.rs").as_deref(), Some("extra"));
        for gone in ["to/src/mine-1.0/build.rs", "to/index", "to/file"] {
            assert_eq!(read(gone), None, "{gone}");
        }
        assert_eq!(read("real/src/mine-1.0/build.rs").as_deref(), Some("mine"));

        link_tree(&at("to"), &at("copy")).unwrap();
        assert_eq!(size(&at("to")).unwrap(), size(&at("copy")).unwrap());
        assert_eq!(read("copy/src/new-1.0/lib.rs").as_deref(), Some("new"));
    }
}
