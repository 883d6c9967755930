//! Paths inside a repository. Git stores them as bytes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path inside a repository, relative to its root, with `/` between its parts. Any bytes but NUL.
///
/// As text it is lossless and safe to print on a terminal: bytes that are not printable UTF-8 are written as `\xNN`, and
/// the backslash as `\\`.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RepoPath(Box<[u8]>);

impl RepoPath {
    /// Creates a path from its bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into())
    }

    /// Returns the bytes of the path.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses the text that `Display` writes.
    fn unescape(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            let hex =
                |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|s| u8::from_str_radix(s, 16).ok());
            rest = match (first, tail) {
                (b'\\', [b'\\', after @ ..]) => {
                    bytes.push(b'\\');
                    after
                }
                (b'\\', [b'x', high, low, after @ ..]) if hex(&[*high, *low]).is_some() => {
                    bytes.extend(hex(&[*high, *low]));
                    after
                }
                // A backslash that `Display` cannot have written stands for itself.
                _ => {
                    bytes.push(*first);
                    tail
                }
            };
        }
        Self(bytes.into())
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                // First: an unescaped backslash would make the others ambiguous.
                if c == '\\' {
                    f.write_str("\\\\")?;
                // Escaped byte by byte, so that parsing gives the same bytes again.
                } else if c.is_control() || is_bidi_control(c) {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                } else {
                    write!(f, "{c}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Returns true for characters that reorder the text around them, by which one path could be shown as another.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::unescape(&text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escaping_is_lossless(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let path = RepoPath::new(bytes);
            prop_assert_eq!(RepoPath::unescape(&path.to_string()), path);
        }
    }

    #[test]
    fn nothing_shown_can_command_a_terminal() {
        let path = RepoPath::new(b"a\x1b[31m\n\xff\\\xe2\x80\xae".to_vec());
        assert_eq!(path.to_string(), r"a\x1b[31m\x0a\xff\\\xe2\x80\xae");
    }
}
