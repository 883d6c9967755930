//! Files of an agent's folder that the sandbox hides from the agent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use watchfire_core::sandbox::NamePattern;

/// The patterns that count in one folder.
pub(crate) struct Hidden(Vec<NamePattern>);

impl Hidden {
    /// Takes the `patterns` whose root contains `folder`.
    pub(crate) fn new(patterns: &[NamePattern], folder: &Path) -> Self {
        Self(NamePattern::distinct(patterns.iter().filter(|pattern| folder.starts_with(&pattern.root))))
    }

    /// Returns true if a file or folder of this name is hidden, with everything below it.
    pub(crate) fn has_name(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.matches_name(OsStr::from_bytes(name)))
    }

    /// Returns true if a path in the folder is hidden.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        path.split(|byte| *byte == b'/').any(|name| self.has_name(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_at_any_depth_below_their_root() {
        let pattern = |root: &str, name: &str| NamePattern {
            root: root.into(),
            names: vec![name.to_owned()],
            except: vec![".env.example".to_owned()],
            origin: String::new(),
        };
        let patterns = [pattern("/home/a", ".env*"), pattern("/elsewhere", "key")];
        let hidden = Hidden::new(&patterns, Path::new("/home/a/project"));
        assert!(hidden.has(b".env") && hidden.has(b"a/.env.local") && hidden.has(b"a/.env/b"));
        assert!(!hidden.has(b"key") && !hidden.has(b"a/.env.example") && !hidden.has(b"env"));
    }
}
