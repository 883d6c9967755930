//! The format of git's index files: versions 2, 3 and 4, read from bytes and written to bytes.
//!
//! libgit2 reads and writes them too, but only from file to file, and four times slower: it hashes with a
//! check for collisions, and copies each entry twice. Every start of a task, import and capture reads a whole
//! index.
//!
//! The format is that of `gitformat-index(5)`. Split and sparse indices are rejected. Of the extensions, the
//! cache of trees and the notes on resolved conflicts are kept. The others are dropped, and git makes them
//! again.

use git2::Oid;
use sha1::{Digest, Sha1};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::broken;
use crate::index::entry::{EXTENDED, Entry, Stamp};
use crate::index::trees::Trees;
use crate::objects::tree::Node;

const MAGIC: &[u8; 4] = b"DIRC";
/// Length of a hash in bytes.
const HASH: usize = 20;
/// Length of the shortest entry in bytes.
const LEAST: usize = 62;
/// Length of the longest path that fits in the flags.
const LONGEST: usize = 0xfff;

/// Upper bound for all paths together, in bytes. In version 4 a short file can spell out very long paths.
const MOST_PATHS: usize = 512 << 20;

/// The content of an index file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Content {
    pub(crate) version: u32,
    /// Sorted by path and stage.
    pub(crate) entries: Vec<Entry>,
    pub(crate) trees: Option<Trees>,
    /// The content of the extension `REUC`, as it is.
    pub(crate) resolved: Vec<u8>,
}

impl Default for Content {
    fn default() -> Self {
        Self { version: 2, entries: Vec::new(), trees: None, resolved: Vec::new() }
    }
}

/// Reads the content of an index file.
pub(crate) fn read(bytes: &[u8]) -> Result<Content> {
    read_up_to(bytes, MOST_PATHS)
}

/// Reads an index as [`read`] does, with at most `most` bytes of paths.
fn read_up_to(bytes: &[u8], most: usize) -> Result<Content> {
    let damaged = || broken("an index is damaged");
    let (body, hash) = bytes.split_at_checked(bytes.len().saturating_sub(HASH)).ok_or_else(damaged)?;
    // With `index.skipHash`, git writes zeros instead.
    if hash != [0; HASH] && hash != Sha1::digest(body).as_slice() {
        return Err(damaged());
    }
    // With the right hash, the index is as git wrote it. So anything unreadable in it is a form that is not
    // known here: a split index, for instance, has entries without a path before it says that it is split.
    let is_whole = hash != [0; HASH];
    let damaged = || if is_whole { unknown() } else { damaged() };
    let mut rest = body;
    let (magic, version, count) = (take::<4>(&mut rest), number(&mut rest), number(&mut rest));
    let (Some(MAGIC), Some(version), Some(count)) = (magic.as_ref(), version, count) else {
        return Err(damaged());
    };
    if !matches!(version, 2..=4) {
        return Err(unknown().with("version", version));
    }
    let mut content = Content { version, ..Content::default() };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // The count comes from the file: a wrong one must not reserve more than the file can hold.
    content.entries.reserve(count.min(rest.len() / LEAST));
    let mut paths = 0;
    for _ in 0..count {
        let last = content.entries.last();
        let next = entry(&mut rest, version, last.map_or(&[], |last| &last.path)).ok_or_else(damaged)?;
        paths += next.path.len();
        let in_order = last.is_none_or(|last| (&last.path, last.stage()) < (&next.path, next.stage()));
        if !in_order || paths > most {
            return Err(damaged());
        }
        content.entries.push(next);
    }
    while !rest.is_empty() {
        let (name, length) = (take::<4>(&mut rest), number(&mut rest));
        let (Some(name), Some(length)) = (name, length) else { return Err(damaged()) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (extension, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
        rest = after;
        match &name {
            b"TREE" => content.trees = Trees::read(extension),
            b"REUC" => content.resolved = extension.to_vec(),
            // git marks extensions that may be ignored by a capital letter.
            [b'A'..=b'Z', ..] => {}
            _ => {
                return Err(unknown().with("extension", String::from_utf8_lossy(&name)));
            }
        }
    }
    Ok(content)
}

fn unknown() -> Error {
    Error::new(ErrorKind::NotSupported, "an index is split or sparse, or of a form that is not known")
}

fn entry(rest: &mut &[u8], version: u32, last: &[u8]) -> Option<Entry> {
    let before = rest.len();
    let mut word = || number(rest);
    let (ctime, mtime) = ([word()?, word()?], [word()?, word()?]);
    let (dev, ino, mode, uid, gid, size) = (word()?, word()?, word()?, word()?, word()?, word()?);
    let id = Oid::from_bytes(&take::<HASH>(rest)?).ok()?;
    let flags = u16::from_be_bytes(take(rest)?);
    let extended = if flags & EXTENDED != 0 { u16::from_be_bytes(take(rest)?) } else { 0 };
    // Version 4 leaves out the beginning that a path shares with the one before.
    let kept = if version == 4 { last.get(..last.len().checked_sub(varint(rest)?)?)? } else { &[] };
    let end = rest.iter().position(|byte| *byte == 0)?;
    let path = [kept, rest.get(..end)?].concat();
    // The older versions pad an entry with zeros to a multiple of eight, at least one.
    let fixed = before - rest.len();
    let zeros = if version == 4 { 1 } else { padding(fixed + end) };
    *rest = rest.get(end + zeros..)?;
    let stamp = Stamp { ctime, mtime, dev, ino, uid, gid, size };
    // Both are found out again when the entry is written.
    let flags = flags & !(EXTENDED | LONGEST as u16);
    (!path.is_empty()).then_some(Entry { path, node: Node { mode, id }, stamp, flags, extended })
}

/// Returns the number of zeros after an entry of this length in versions 2 and 3.
fn padding(length: usize) -> usize {
    8 - length % 8
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_be_bytes)
}

/// Reads a number of any length in git's packed form: seven bits a byte, each further byte counted from one.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let [mut byte] = take(rest)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        [byte] = take(rest)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some(value)
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    let mut bytes = vec![(value & 0x7f) as u8];
    while value > 0x7f {
        value = (value >> 7) - 1;
        bytes.push(0x80 | (value & 0x7f) as u8);
    }
    out.extend(bytes.iter().rev());
}

/// Returns the bytes of the index file with `content`.
pub(crate) fn write(content: &Content) -> Vec<u8> {
    let entries = &content.entries;
    let has_extended = entries.iter().any(|entry| entry.extended != 0);
    let version = match content.version {
        4 => 4,
        // Extended flags need version 3. git writes version 2 where it can.
        _ if has_extended => 3,
        _ => 2,
    };
    let paths: usize = entries.iter().map(|entry| entry.path.len()).sum();
    let mut out = Vec::with_capacity(paths + entries.len() * (LEAST + 10) + 64);
    out.extend(MAGIC);
    out.extend(u32::to_be_bytes(version));
    out.extend((entries.len() as u32).to_be_bytes());
    let mut last: &[u8] = &[];
    for entry in entries {
        let before = out.len();
        let Stamp { ctime, mtime, dev, ino, uid, gid, size } = entry.stamp;
        let words = [ctime[0], ctime[1], mtime[0], mtime[1], dev, ino, entry.node.mode, uid, gid, size];
        words.iter().for_each(|word| out.extend(word.to_be_bytes()));
        out.extend(entry.node.id.as_bytes());
        let extended = if entry.extended == 0 { 0 } else { EXTENDED };
        // A path that is too long for the flags ends at its zero byte anyway.
        out.extend((entry.flags | extended | entry.path.len().min(LONGEST) as u16).to_be_bytes());
        if entry.extended != 0 {
            out.extend(entry.extended.to_be_bytes());
        }
        if version == 4 {
            let same = entry.path.iter().zip(last).take_while(|(a, b)| a == b).count();
            put_varint(&mut out, last.len() - same);
            out.extend(entry.path.iter().skip(same));
            out.push(0);
            last = &entry.path;
        } else {
            out.extend(&entry.path);
            out.resize(out.len() + padding(out.len() - before), 0);
        }
    }
    let trees = content.trees.as_ref().map(Trees::to_bytes).unwrap_or_default();
    for (name, extension) in [(b"TREE", &trees), (b"REUC", &content.resolved)] {
        if !extension.is_empty() {
            out.extend(name);
            out.extend((extension.len() as u32).to_be_bytes());
            out.extend(extension);
        }
    }
    let hash = Sha1::digest(&out);
    out.extend(hash.as_slice());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let path = prop_oneof![9 => "[a-c]{0,2}/?[a-c]{1,9}", 1 => Just("long".repeat(1100))];
        let words = (any::<[u32; 9]>(), prop_oneof![Just(0_u16), Just(0x8000)], 0_u16..4, any::<u16>());
        let one = (path, words).prop_map(|(path, (w, valid, stage, extended))| Entry {
            path: path.into_bytes(),
            node: Node { mode: w[0], id: Oid::from_bytes(&[w[1] as u8; HASH]).unwrap() },
            stamp: Stamp {
                ctime: [w[0], w[1]],
                mtime: [w[2], w[3]],
                dev: w[4],
                ino: w[5],
                uid: w[6],
                gid: w[7],
                size: w[8],
            },
            flags: valid | stage << 12,
            extended: if extended % 3 == 0 { extended } else { 0 },
        });
        prop::collection::vec(one, 0..20).prop_map(|mut entries| {
            entries.sort_by(|a, b| (&a.path, a.stage()).cmp(&(&b.path, b.stage())));
            entries.dedup_by(|a, b| (&a.path, a.stage()) == (&b.path, b.stage()));
            entries
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in entries(), version in 2_u32..5, resolved in any::<Vec<u8>>()) {
            let content = Content { version, entries, trees: None, resolved };
            let read = read(&write(&content)).unwrap();
            prop_assert_eq!(&read.entries, &content.entries);
            prop_assert_eq!(&read.resolved, &content.resolved);
            prop_assert_eq!(read.version == 4, version == 4);
        }

        #[test]
        fn damage_is_an_error(entries in entries(), version in 2_u32..5, at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = write(&Content { version, entries, ..Content::default() });
            let at = at.index(bytes.len());
            // Without a hash, so that the reader itself must notice the damage.
            let end = bytes.len() - HASH;
            bytes[end..].fill(0);
            if cut { bytes.truncate(at) } else { bytes[at] = to }
            // The reader may accept the damaged bytes, but it must end, with no more entries than they can
            // hold.
            if let Ok(content) = read(&bytes) {
                prop_assert!(content.entries.len() <= bytes.len() / LEAST);
            }
        }

        #[test]
        fn numbers_of_any_length(value in any::<u32>()) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value as usize);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(varint(&mut rest), Some(value as usize));
            prop_assert!(rest.is_empty());
        }
    }

    /// Compares byte for byte, with the cache of trees, the traces of a conflict, and files absent on
    /// purpose.
    #[test]
    fn what_git_wrote_is_written_as_git_did() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let who = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "index.skipHash=false"];
            let run = std::process::Command::new("git").current_dir(&dir).args(who).args(args).output();
            String::from_utf8(run.unwrap().stdout).unwrap()
        };
        let put = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        git(&["init", "-q", "-b", "main"]);
        for name in ["a", "b/c", "b/d/e", "b/d/\u{fc}", "b.c", &"long/".repeat(60)] {
            put(&format!("{name}/file"), name);
        }
        git(&["add", "-A"]);
        git(&["commit", "-qm", "first"]);
        let same = |what: &str| {
            let bytes = std::fs::read(dir.path().join(".git/index")).unwrap();
            let content = read(&bytes).unwrap();
            assert_eq!(write(&content), bytes, "{what}");
            content
        };
        let repo = git2::Repository::open(&dir).unwrap();
        let tree = repo.revparse_single("HEAD^{tree}").unwrap().id();
        assert_eq!(same("as it is").trees, Some(Trees::of(&repo, tree).unwrap()));
        git(&["update-index", "--skip-worktree", "a/file"]);
        git(&["update-index", "--assume-unchanged", "b/c/file"]);
        assert_eq!(same("with flags").version, 3);
        git(&["update-index", "--index-version", "4"]);
        assert_eq!(same("packed paths").version, 4);
        git(&["checkout", "-qb", "other"]);
        put("b/d/e/file", "theirs");
        git(&["commit", "-qam", "theirs"]);
        git(&["checkout", "-q", "main"]);
        put("b/d/e/file", "ours");
        git(&["commit", "-qam", "ours"]);
        git(&["merge", "-q", "other"]);
        assert!(same("in conflict").entries.iter().any(Entry::is_conflict));
        put("b/d/e/file", "both");
        git(&["add", "-A"]);
        assert!(!same("resolved").resolved.is_empty());
        git(&["update-index", "--split-index"]);
        assert!(read(&std::fs::read(dir.path().join(".git/index")).unwrap()).is_err());
    }

    #[test]
    fn a_short_file_cannot_fill_the_memory() {
        let entry =
            |n: usize| Entry::new("x".repeat(n).as_bytes(), Node { mode: 0, id: Oid::ZERO_SHA1 }, None);
        let content = Content { version: 4, entries: (1..1000).map(entry).collect(), ..Content::default() };
        let bytes = write(&content);
        assert!(bytes.len() < 100_000);
        assert!(read_up_to(&bytes, 499_500).is_ok());
        assert!(read_up_to(&bytes, 499_499).is_err());
    }

    #[test]
    fn a_wrong_hash_is_damage_and_none_is_fine() {
        let mut bytes = write(&Content::default());
        let end = bytes.len() - 1;
        bytes[end] ^= 1;
        assert!(read(&bytes).is_err());
        bytes[end - HASH + 1..].fill(0);
        assert_eq!(read(&bytes).unwrap(), Content::default());
    }
}
