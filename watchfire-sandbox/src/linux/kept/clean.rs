//! Cleaning what a command has written, before others see it.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path};

use watchfire_core::files::remove_tree;

use crate::linux::kept::merge::ENTRY;

/// Maximum depth of folders. Deeper ones are removed.
const DEPTH: usize = 64;

/// Leaves of `folder`, which shows at `place`, only files and folders of ours, and links that stay inside. No mark of an
/// overlay stays, because it would mean something below another one. Returns the size of what is left.
///
/// The command has ended, so nothing changes during the walk.
pub(super) fn clean(folder: &Path, place: &Path) -> io::Result<u64> {
    Walk { place, owner: rustix::process::geteuid().as_raw() }.folder(folder, place, 0)
}

struct Walk<'a> {
    place: &'a Path,
    owner: u32,
}

impl Walk<'_> {
    fn folder(&self, folder: &Path, shown: &Path, depth: usize) -> io::Result<u64> {
        let mut size = ENTRY;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            size += self.entry(&entry.path(), &shown.join(entry.file_name()), depth)?;
        }
        Ok(size)
    }

    fn entry(&self, path: &Path, shown: &Path, depth: usize) -> io::Result<u64> {
        let found = fs::symlink_metadata(path)?;
        let kind = found.file_type();
        let stays = found.uid() == self.owner
            && (kind.is_file() || (kind.is_dir() && depth < DEPTH) || self.is_inner(path, shown, &found)?);
        if !stays {
            remove_tree(path)?;
            return Ok(0);
        }
        if kind.is_symlink() {
            return Ok(ENTRY);
        }
        // Ours to read and to remove, and nobody becomes another user by it.
        let own = if kind.is_dir() { 0o700 } else { 0o400 };
        let mode = found.permissions().mode();
        if mode & 0o7777 != (mode & 0o777) | own {
            fs::set_permissions(path, Permissions::from_mode((mode & 0o777) | own))?;
        }
        if !without_marks(path)? {
            remove_tree(path)?;
            return Ok(0);
        }
        if kind.is_dir() { self.folder(path, shown, depth + 1) } else { Ok(found.len().max(ENTRY)) }
    }

    /// Returns true for a link whose text does not lead out of the place.
    fn is_inner(&self, path: &Path, shown: &Path, found: &Metadata) -> io::Result<bool> {
        if !found.is_symlink() {
            return Ok(false);
        }
        let text = fs::read_link(path)?;
        let Some(mut target) = shown.parent().map(Path::to_owned) else { return Ok(false) };
        for part in text.components() {
            match part {
                Component::RootDir | Component::Prefix(_) => target = "/".into(),
                Component::CurDir => {}
                Component::ParentDir => drop(target.pop()),
                Component::Normal(name) => target.push(name),
            }
            // Each step: what is left in between may be a link.
            if !text.is_absolute() && !target.starts_with(self.place) {
                return Ok(false);
            }
        }
        Ok(target.starts_with(self.place))
    }
}

/// Removes the marks of an overlay. Returns false for an entry that is nothing without them.
fn without_marks(path: &Path) -> io::Result<bool> {
    let mut names = vec![0_u8; 4096];
    let count = match rustix::fs::llistxattr(path, &mut names) {
        Ok(count) => count,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(true),
        // More marks than any overlay makes.
        Err(rustix::io::Errno::RANGE) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    names.truncate(count);
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let mark = name.strip_prefix("user.overlay.").or_else(|| name.strip_prefix("trusted.overlay."));
        match mark {
            // Its content is elsewhere.
            Some("metacopy" | "redirect" | "whiteout") => return Ok(false),
            Some(_) => rustix::fs::lremovexattr(path, name)?,
            None => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_files_folders_and_inner_links_stay() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "x").unwrap();
        fs::set_permissions(at("a/b/file"), Permissions::from_mode(0o6755)).unwrap();
        fs::set_permissions(at("a/b"), Permissions::from_mode(0o555)).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let links = [
            ("near", "a/b/file", true),
            ("a/up", "../near", true),
            ("whole", "/home/u/.cache/uv/a", true),
            ("out", "..", false),
            ("a/farther", "../../other", false),
            ("through", "../uv/a", false),
            ("away", "/etc/passwd", false),
            ("sibling", "/home/u/.cache/uvx", false),
        ];
        links.iter().for_each(|(name, text, _)| symlink(text, at(name)).unwrap());
        let size = clean(temp.path(), Path::new("/home/u/.cache/uv")).unwrap();
        assert_eq!(size, 7 * ENTRY);
        assert!(!at("fifo").exists());
        for (name, _, stays) in links {
            assert_eq!(at(name).symlink_metadata().is_ok(), stays, "{name}");
        }
        let mode = |name| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("a/b"), mode("a/b/file")), (0o755, 0o755));
    }

    #[test]
    fn what_is_too_deep_goes() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("d/".repeat(DEPTH + 3))).unwrap();
        clean(temp.path(), Path::new("/p")).unwrap();
        assert!(temp.path().join("d/".repeat(DEPTH)).exists());
        assert!(!temp.path().join("d/".repeat(DEPTH + 1)).exists());
    }

    #[test]
    fn no_mark_of_an_overlay_stays() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let mark = |name: &str, mark: &str| {
            rustix::fs::lsetxattr(at(name), mark, b"y", rustix::fs::XattrFlags::empty()).is_ok()
        };
        fs::create_dir(at("opaque")).unwrap();
        fs::write(at("hollow"), "").unwrap();
        fs::write(at("plain"), "").unwrap();
        let is_marked = mark("opaque", "user.overlay.opaque")
            && mark("hollow", "user.overlay.metacopy")
            && mark("plain", "user.own");
        if !is_marked {
            return println!("SKIPPED: files have no attributes of users: not available here");
        }
        clean(temp.path(), Path::new("/p")).unwrap();
        let mut names = [0; 64];
        assert_eq!(rustix::fs::llistxattr(at("opaque"), &mut names).unwrap(), 0);
        assert!(!at("hollow").exists());
        assert!(rustix::fs::llistxattr(at("plain"), &mut names).unwrap() > 0);
    }
}
