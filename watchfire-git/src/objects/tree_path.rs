//! Rejects paths of trees that git would refuse, and recognises git's own files, in every spelling that some
//! file system allows.

use watchfire_core::Result;
use watchfire_core::model::RepoPath;

use crate::error::broken;

/// Rejects paths that git would refuse too: through them a tree could write where it must not.
pub(crate) fn check_path(path: &[u8]) -> Result<()> {
    let refused = |part: &[u8]| {
        part.is_empty() || part == b"." || part == b".." || is_git_name(part) || part.contains(&0)
    };
    if path.split(|byte| *byte == b'/').any(refused) {
        return Err(broken("a tree has a path that git refuses").with("file", RepoPath::new(path)));
    }
    Ok(())
}

/// Returns true if some file system takes `part` for `.git`, or for a path into `.git`. libgit2 writes no tree with such a
/// name.
pub(crate) fn is_git_name(part: &[u8]) -> bool {
    // The quick answer for nearly every name.
    let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'\\' | b'~');
    if part.first() != Some(&b'.') && part.iter().all(is_plain) {
        return false;
    }
    // A backslash separates folders on Windows. `git~1` is the short name that it gives to `.git`.
    part.split(|byte| *byte == b'\\').map(plain).any(|name| matches!(name.as_str(), ".git" | "git~1"))
}

/// Returns true if some file system takes `name` for `file`, a file that git reads.
pub(crate) fn is_read_by_git(name: &[u8], file: &[u8]) -> bool {
    plain(name).as_bytes() == file
}

/// Returns a name as the most forgiving file systems read it.
pub(crate) fn plain(part: &[u8]) -> String {
    let part = part.to_ascii_lowercase();
    // HFS+ ignores these characters (zero-width and direction marks); NTFS ignores trailing dots and spaces.
    let text: String = String::from_utf8_lossy(&part)
        .chars()
        .filter(|c| {
            !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
        })
        .collect();
    // NTFS takes what follows a colon for a stream of the same file.
    text.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_into_the_repository_are_refused() {
        for path in [
            "",
            "/a",
            "a//b",
            "../a",
            "a/..",
            ".git/config",
            "a/.GIT/hooks",
            "GIT~1/x",
            ".git /x",
            ".g\u{200c}it/x",
            "a\\.git",
        ] {
            assert!(check_path(path.as_bytes()).is_err(), "{path:?}");
        }
        for path in ["a", ".gitignore", "--help", "a/b c/\u{fc}", ".github/x", "git/x", "a\nb"] {
            assert!(check_path(path.as_bytes()).is_ok(), "{path:?}");
        }
        assert!(check_path(b"\xff\xfe").is_ok());
    }
}
