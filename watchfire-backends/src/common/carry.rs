//! Copies the person's own instructions, commands, agents and skills into a session's home, within bounds and without
//! files that look like keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use watchfire_core::backend::{FileToWrite, Launch};

/// Bounds for the files that are copied into one session: number, and bytes in total.
const FILES: usize = 500;
const BYTES: u64 = 8 << 20;
/// Largest depth of folders. It also ends cycles of links.
const DEPTH: usize = 8;

/// Copies files and folders of the person's `folder` into `place`, a folder of the session's home. Names that do not
/// exist are skipped. In folders, hidden files and files that hold a key are left out.
pub(crate) fn carry(mut launch: Launch, folder: &Path, place: &str, names: &[&str]) -> Launch {
    let mut carrier = Carrier { files: Vec::new(), bytes: 0 };
    for name in names {
        let (theirs, ours) = (folder.join(name), Path::new(place).join(name));
        let Ok(meta) = fs::metadata(&theirs) else { continue };
        let fits = match meta.is_dir() {
            true => carrier.folder(&theirs, &ours, 0),
            // Not searched for keys: without Watchfire, too, instructions go to the model whatever they hold.
            false => carrier.file(&theirs, ours, &meta, |_| false),
        };
        if fits.is_none() {
            // What fits so far is still copied: less of the person's configuration is no reason to fail.
            tracing::warn!(path = %theirs.display(), "too much to take along; the rest stays behind");
            break;
        }
    }
    launch.files.extend(carrier.files);
    launch
}

struct Carrier {
    files: Vec<FileToWrite>,
    bytes: u64,
}

impl Carrier {
    /// Copies the content of a folder. Returns `None` once a bound is reached.
    fn folder(&mut self, theirs: &Path, ours: &Path, depth: usize) -> Option<()> {
        let mut entries: Vec<_> = fs::read_dir(theirs).into_iter().flatten().flatten().collect();
        // Sorted, because a folder's own order is arbitrary and the same files should be left out each time.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (name, path) = (entry.file_name(), entry.path());
            // Follows links: people often keep these folders elsewhere, with the rest of their configuration.
            let Ok(meta) = fs::metadata(&path) else { continue };
            match meta.is_dir() {
                _ if name.as_encoded_bytes().starts_with(b".") => {}
                true if depth < DEPTH => self.folder(&path, &ours.join(&name), depth + 1)?,
                true => {}
                false => self.file(&path, ours.join(&name), &meta, holds_key)?,
            }
        }
        Some(())
    }

    /// Copies one file. Returns `None` if it does not fit.
    fn file(
        &mut self,
        theirs: &Path,
        path: PathBuf,
        meta: &fs::Metadata,
        stays: impl Fn(&[u8]) -> bool,
    ) -> Option<()> {
        // Reading a FIFO blocks, and a device may never end.
        if !meta.is_file() {
            return Some(());
        }
        // The size is checked before the file is read, so that a huge one never is.
        self.bytes = self.bytes.checked_add(meta.len()).filter(|bytes| *bytes <= BYTES)?;
        if self.files.len() == FILES {
            return None;
        }
        match fs::read(theirs) {
            Ok(bytes) if stays(&bytes) => {
                tracing::warn!(path = %theirs.display(), "holds what looks like a key, and stays behind");
            }
            Ok(bytes) => {
                // The executable bit is kept, because skills bring scripts.
                let mode = if meta.permissions().mode() & 0o100 == 0 { 0o600 } else { 0o700 };
                self.files.push(FileToWrite { path, bytes, mode });
            }
            // The file is unreadable for us or has just been deleted.
            Err(_) => {}
        }
        Some(())
    }
}

/// Returns true if the text holds a private key, or a word that looks like a key of a well-known service.
pub(super) fn holds_key(text: &[u8]) -> bool {
    const STARTS: [&[u8]; 11] = [
        b"AKIA",
        b"AIza",
        b"ghp_",
        b"gho_",
        b"ghs_",
        b"github_pat_",
        b"glpat-",
        b"npm_",
        b"sk-",
        b"xoxb-",
        b"xoxp-",
    ];
    let is_key = |word: &[u8]| {
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        // Placeholders, such as `sk-your-api-key-goes-here`, have no digits.
        word.len() >= 20 && digits >= 3 && STARTS.iter().any(|start| word.starts_with(start))
    };
    // Split at everything that cannot be part of a key, such as quotes, `=` and `:`.
    let mut words = text.split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
    words.any(is_key) || text.windows(11).any(|part| part == b"PRIVATE KEY")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn carried(folder: &Path, names: &[&str]) -> Vec<(String, u32)> {
        let launch = carry(Launch::new("agent"), folder, "there", names);
        launch.files.iter().map(|file| (file.path.to_str().unwrap().to_owned(), file.mode)).collect()
    }

    #[test]
    fn what_is_named_goes_along_without_keys_and_hidden_files() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("AGENTS.md", "the key is AKIA1234567890ABCDEF");
        write("other.md", "not named");
        write("skills/a/SKILL.md", "use sk-your-api-key-goes-here");
        write("skills/a/run.sh", "#!/bin/sh");
        write("skills/a/.env", "hidden");
        write("skills/a/keys.txt", "ghp_0123456789abcdefghij0123456789");
        write("skills/a/id", "-----BEGIN OPENSSH PRIVATE KEY-----");
        write("elsewhere/SKILL.md", "linked");
        symlink(temp.path().join("elsewhere"), temp.path().join("skills/linked")).unwrap();
        symlink(temp.path().join("skills"), temp.path().join("skills/round")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            temp.path().join("skills/fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let run = temp.path().join("skills/a/run.sh");
        fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();

        let all = carried(temp.path(), &["AGENTS.md", "missing", "skills"]);
        let short: Vec<_> = all.iter().filter(|(path, _)| !path.contains("round")).cloned().collect();
        assert_eq!(
            short,
            [
                ("there/AGENTS.md", 0o600),
                ("there/skills/a/SKILL.md", 0o600),
                ("there/skills/a/run.sh", 0o700)
            ]
            .into_iter()
            .chain([("there/skills/linked/SKILL.md", 0o600)])
            .map(|(path, mode)| (path.to_owned(), mode))
            .collect::<Vec<_>>()
        );
        assert!(all.len() <= FILES);
    }

    #[test]
    fn what_is_too_much_stays_behind() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("skills")).unwrap();
        for number in 0..FILES + 10 {
            fs::write(temp.path().join(format!("skills/{number}")), "x").unwrap();
        }
        fs::write(temp.path().join("AGENTS.md"), "x").unwrap();
        assert_eq!(carried(temp.path(), &["AGENTS.md", "skills"]).len(), FILES);
        fs::File::create(temp.path().join("large")).unwrap().set_len(BYTES + 1).unwrap();
        assert_eq!(carried(temp.path(), &["large", "AGENTS.md"]), []);
    }
}
