//! Names and numbers as types that validate when they are parsed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                // A typed pointer, so that the macro accepts a function or a closure.
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(Error::new(ErrorKind::InvalidInput, concat!("invalid ", $what))
                        .with("value", format_args!("{text:?}")))
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }
    };
}

/// Returns true if `text` is safe as one path component and as an argument of a program: letters, digits, `-`, `_` and
/// `.`, and neither `.` nor `-` first.
fn component(text: &str) -> bool {
    (1..=128).contains(&text.len())
        // Neither a hidden file or `..`, nor an option.
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

string_id! {
    /// The id of a project, usually a UUID. It stays when the folder moves.
    ProjectId, "project id", component
}
string_id! {
    /// The internal id of a task: alphanumeric. New ones have eight characters.
    TaskId, "task id", |text| (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}
string_id! {
    /// The id of a session. Never used again.
    SessionId, "session id", component
}
string_id! {
    /// A pronounceable name of a session, such as `brave-otter`.
    Alias, "alias", component
}
string_id! {
    /// The registered name of a backend: lowercase letters, digits and `-`.
    BackendName, "backend name",
    |text| component(text) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(feature = "runtime")]
mod fresh {
    use super::{Alias, ProjectId, SessionId, TaskId};

    impl ProjectId {
        /// Returns a new random id (UUID v4).
        #[must_use]
        pub fn random() -> Self {
            Self(uuid::Uuid::new_v4().to_string().into())
        }
    }

    impl SessionId {
        /// Returns a new random id (UUID v4).
        #[must_use]
        pub fn random() -> Self {
            Self(uuid::Uuid::new_v4().to_string().into())
        }
    }

    impl TaskId {
        /// Returns a new random id: a lowercase letter and seven lowercase letters or digits.
        #[must_use]
        pub fn random() -> Self {
            // A letter first, and no `e`: YAML reads an unquoted `12345678` or `1e234567` as a number.
            const FIRST: &[u8] = b"abcdfghijklmnopqrstuvwxyz";
            const REST: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
            let bytes = uuid::Uuid::new_v4().into_bytes();
            // Two bytes for each character: alone, the fixed version and variant bits of a UUID would make
            // two of them less random.
            let text: String = (0..8)
                .map(|i| {
                    let set = if i == 0 { FIRST } else { REST };
                    char::from(set[usize::from(bytes[i * 2 % 16] ^ bytes[i * 2 % 16 + 1]) % set.len()])
                })
                .collect();
            Self(text.into())
        }
    }

    impl Alias {
        /// Returns a random pair of an adjective and an animal.
        #[must_use]
        pub fn random() -> Self {
            const ADJECTIVES: &[&str] = &[
                "amber", "bold", "brave", "brisk", "calm", "clever", "cosy", "deft", "eager", "fair",
                "fleet", "gentle", "glad", "keen", "kind", "lively", "lucid", "mellow", "merry", "nimble",
                "patient", "plucky", "proud", "quick", "quiet", "ready", "sage", "spry", "steady", "sunny",
                "swift", "warm",
            ];
            const ANIMALS: &[&str] = &[
                "badger", "beaver", "bison", "crane", "dolphin", "eagle", "falcon", "ferret", "finch", "fox",
                "gecko", "heron", "ibex", "jackal", "koala", "lemur", "lynx", "marten", "mole", "newt",
                "ocelot", "orca", "osprey", "otter", "owl", "panda", "puffin", "raven", "seal", "stoat",
                "tapir", "wren",
            ];
            let bytes = uuid::Uuid::new_v4().into_bytes();
            let adjective = ADJECTIVES[usize::from(bytes[0]) % ADJECTIVES.len()];
            let animal = ANIMALS[usize::from(bytes[1]) % ANIMALS.len()];
            Self(format!("{adjective}-{animal}").into())
        }
    }
}

/// The number of a task in its project, from 1 up. Shown with at least four digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct TaskNumber(u32);

impl TaskNumber {
    /// The highest number. Files with longer names are not task files.
    const HIGHEST: u32 = 99_999_999;

    /// Returns the number, or `None` unless it is from 1 to 99,999,999.
    #[must_use]
    pub fn new(n: u32) -> Option<Self> {
        (1..=Self::HIGHEST).contains(&n).then_some(Self(n))
    }

    /// Returns the plain number.
    #[must_use]
    pub fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TaskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.0)
    }
}

impl FromStr for TaskNumber {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // People write numbers as lists show them.
        text.strip_prefix('#').unwrap_or(text).parse().ok().and_then(Self::new).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "invalid task number, expected 1, 0001 or #0001")
                .with("value", format_args!("{text:?}"))
        })
    }
}

impl TryFrom<u32> for TaskNumber {
    type Error = Error;

    fn try_from(n: u32) -> Result<Self, Error> {
        Self::new(n).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "a task number is from 1 to 99999999").with("value", n)
        })
    }
}

impl From<TaskNumber> for u32 {
    fn from(number: TaskNumber) -> Self {
        number.0
    }
}

/// The number of an attempt at a task, from 1 up; 0 stands for none yet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        for text in ["7", "0007", "#0007", "#7"] {
            assert_eq!(text.parse::<TaskNumber>().unwrap().value(), 7);
        }
        for text in ["", "0", "#", "-1", "1.0", "99999999999"] {
            assert!(text.parse::<TaskNumber>().is_err(), "{text}");
        }
        assert_eq!(TaskNumber::new(12345).unwrap().to_string(), "12345");
    }

    #[test]
    fn ids_cannot_leave_their_folder() {
        for text in ["", ".", "..", "../x", "a/b", "-x", "a b", "é", &"x".repeat(129)] {
            assert!(text.parse::<ProjectId>().is_err(), "{text}");
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
        assert!("Claude".parse::<BackendName>().is_err());
        assert!("claude-code".parse::<BackendName>().is_ok());
    }

    #[cfg(feature = "runtime")]
    #[test]
    fn random_ids_are_valid() {
        for _ in 0..500 {
            let id = TaskId::random();
            assert_eq!(id.as_str().len(), 8);
            assert!(id.as_str().parse::<TaskId>().is_ok());
            assert!(id.as_str().starts_with(|c: char| c.is_ascii_lowercase()));
            assert!(Alias::random().as_str().parse::<Alias>().is_ok());
        }
    }
}
