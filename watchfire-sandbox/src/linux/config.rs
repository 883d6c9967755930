//! What our program tells its helper, and what the helper tells back. Both by descriptor.

use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchfire_core::sandbox::NamePattern;

/// The work of the helper before it becomes the program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Config {
    /// Enter namespaces; none: stay in ours.
    pub(super) mounts: Option<Mounts>,
    /// Lead a process group of its own. Set if another program entered the namespaces: the group of the terminal
    /// cannot be seen from inside.
    #[serde(default)]
    pub(super) lead_group: bool,
    /// Use Landlock, with at least the rights of its first version.
    pub(super) landlock: bool,
    /// Filter system calls.
    pub(super) seccomp: bool,
    /// Landlock's rules: a path and its rights.
    pub(super) rules: Vec<(RawPath, u64)>,
    /// TCP ports that stay out of reach.
    pub(super) denied_ports: Vec<u16>,
    /// No sockets to the network.
    pub(super) no_network: bool,
    /// A network of its own, from which other machines can be reached.
    #[serde(default)]
    pub(super) internet: Option<Internet>,
    /// No sockets to programs of this machine, but pairs.
    #[serde(default)]
    pub(super) no_local: bool,
    /// Limits on the resources of the program.
    #[serde(default)]
    pub(super) limits: Limits,
}

/// The settings of a network of the command's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Internet {
    /// slirp4netns.
    pub(super) program: RawPath,
    /// The paths and rights that Landlock gives it.
    pub(super) shown: Vec<(RawPath, u64)>,
    /// The addresses of this machine, but loopback's.
    pub(super) addresses: Vec<Ipv4Addr>,
    /// The networks of containers and virtual machines on it: address and mask.
    pub(super) networks: Vec<(Ipv4Addr, Ipv4Addr)>,
}

/// Limits of the kernel's, none where it is none's business.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) processes: Option<u64>,
    pub(super) open_files: Option<u64>,
    /// Size of the process namespace: process numbers for the program and all that it starts.
    #[serde(default)]
    pub(super) numbers: Option<u64>,
    /// In bytes.
    pub(super) file_size: Option<u64>,
}

/// The new view of the file system: everything as outside and read-only, with these exceptions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Mounts {
    /// Places, each folder before the places in it.
    pub(super) places: Vec<Place>,
    /// Paths to hide once they appear.
    #[serde(default)]
    pub(super) missing: Vec<RawPath>,
    /// Paths in writable folders that must not be created.
    #[serde(default)]
    pub(super) refused: Vec<RawPath>,
    /// Folders in which matching names are hidden once they appear.
    #[serde(default)]
    pub(super) late: Vec<Late>,
    /// Paths that show although their names match.
    #[serde(default)]
    pub(super) granted: Vec<RawPath>,
    /// Folder for the content of [`View::Own`] and [`View::Layer`] places.
    #[serde(default)]
    pub(super) layers: Option<RawPath>,
    /// Files to write, each in a folder of the command's own.
    #[serde(default)]
    pub(super) files: Vec<(RawPath, String)>,
    /// Files that show another text.
    #[serde(default)]
    pub(super) rewritten: Vec<(RawPath, String)>,
}

/// Names that are hidden below a folder, at any depth.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Late {
    pub(super) root: RawPath,
    /// Its own root means nothing.
    pub(super) names: NamePattern,
}

/// One place of the new view.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) path: RawPath,
    /// The file or folder to show there, if it is not the one at `path`.
    #[serde(default)]
    pub(super) source: Option<RawPath>,
    /// For a layer: a folder whose content shows below the content of the real folder.
    #[serde(default)]
    pub(super) beneath: Option<RawPath>,
    /// For a layer: tools can get its content again, so it may be empty instead.
    #[serde(default)]
    pub(super) is_cache: bool,
    pub(super) view: View,
}

impl Place {
    /// Creates a place that shows what is at its path.
    pub(super) fn new(path: impl Into<RawPath>, view: View) -> Self {
        Self { path: path.into(), source: None, beneath: None, is_cache: false, view }
    }
}

/// The look of a place in the new view.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) enum View {
    /// As outside, writable.
    Writable,
    /// As outside, not writable.
    ReadOnly,
    /// A folder in which only places show.
    EmptyFolder,
    /// Something that cannot be opened.
    EmptyFile,
    /// An empty folder in memory that can be written.
    Fresh,
    /// An empty folder on disk that can be written.
    Own,
    /// As outside; writes go to a layer of the command's own.
    Layer,
    /// A link to the source, whether anything is there or not.
    Link,
}

/// The report of the helper, sent once: right before it becomes the program, or when it gives up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Status {
    /// Landlock's version in the kernel; 0: none.
    pub(super) abi: i32,
    /// Namespaces were entered.
    pub(super) namespaces: bool,
    /// Covers and read-only files are restored when a process outside replaces the files under them.
    pub(super) kept: bool,
    /// Landlock's rules that were taken.
    pub(super) rules: usize,
    /// Paths that were gone.
    pub(super) skipped: Vec<String>,
    /// The places that should be layers and are not.
    #[serde(default)]
    pub(super) instead: Instead,
    /// Number of process numbers inside, if it is bounded.
    #[serde(default)]
    pub(super) numbers: Option<u64>,
    /// Signals and abstract sockets are scoped.
    pub(super) scoped: bool,
    /// System calls are filtered.
    pub(super) seccomp: bool,
    /// Capabilities are dropped.
    pub(super) capabilities: bool,
    /// Why nothing was started.
    pub(super) error: Option<String>,
    /// Why the keeper ended everything.
    #[serde(default)]
    pub(super) ended: Option<String>,
}

/// Places at which something else shows than a layer on the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Instead {
    /// The layers lie in memory, since the disk cannot hold them.
    #[serde(default)]
    pub(super) in_memory: bool,
    /// Copies, which the command can write.
    #[serde(default)]
    pub(super) copied: Vec<String>,
    /// Empty folders that it can write.
    #[serde(default)]
    pub(super) cold: Vec<String>,
    /// The folders themselves, to be read only.
    #[serde(default)]
    pub(super) flat: Vec<String>,
}

impl Status {
    /// Returns the last status in whole lines, with the end that the keeper reported, if it did.
    pub(super) fn last_of(text: &[u8]) -> Option<Self> {
        let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let all = whole.filter_map(|line| serde_json::from_slice::<Self>(line).ok());
        let (ends, all): (Vec<_>, Vec<_>) = all.partition(|status| status.ended.is_some());
        let ended = ends.into_iter().find_map(|status| status.ended);
        all.into_iter().next_back().map(|status| Self { ended, ..status })
    }
}

/// A path that survives JSON with any bytes: each byte becomes one character.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RawPath(pub(super) PathBuf);

impl RawPath {
    pub(super) fn as_path(&self) -> &Path {
        &self.0
    }
}

impl From<&Path> for RawPath {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl From<PathBuf> for RawPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = AsRef::<OsStr>::as_ref(&self.0).as_bytes();
        serializer.collect_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let bytes = bytes.map_err(|_| serde::de::Error::custom("a path with a character above one byte"))?;
        Ok(Self(OsString::from_vec(bytes).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_survives() {
        for bytes in [&b"/plain"[..], b"/\xff\xfe \"q\"\n", "/h\u{e4}us".as_bytes()] {
            let path = RawPath(OsString::from_vec(bytes.to_vec()).into());
            let text = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RawPath>(&text).unwrap(), path);
        }
        assert!(serde_json::from_str::<RawPath>("\"\u{20ac}\"").is_err());
    }
}
