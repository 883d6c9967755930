//! The files of a journal: segments, which hold records, and checkpoints, which hold the state to which the records
//! fold.
//!
//! Both begin with the same header: seven bytes of name, one of version. A segment is named after the number of its
//! first record, a checkpoint after the number of the last record folded into it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::entry::State;
use super::frame;
use crate::{Error, ErrorKind, Result};

/// The version of the format that this code writes, and the highest that it reads.
pub(super) const VERSION: u8 = 2;
/// The version of the first format.
const LEGACY: u8 = 1;
const NAME: &[u8; 7] = b"WFJRNL\n";
/// Length of the header, in bytes.
pub(super) const HEADER: usize = NAME.len() + 1;

/// The two kinds of journal files.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    Checkpoint,
    Segment,
}

impl Kind {
    fn extension(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Segment => "log",
        }
    }
}

pub(super) fn path(dir: &Path, kind: Kind, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.{}", kind.extension()))
}

/// Returns the numbers of the files of `kind` in `dir`, lowest first.
pub(super) fn list(dir: &Path, kind: Kind) -> Result<Vec<u64>> {
    let failed = |error| Error::io("listing the journal", error).with_path(dir);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name
            .to_str()
            // Skips temporary and damaged files: their names have a second extension.
            .and_then(|name| name.split_once('.'))
            .filter(|(stem, extension)| stem.len() == 16 && *extension == kind.extension())
            .and_then(|(stem, _)| u64::from_str_radix(stem, 16).ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the numbers of the files of `kind` in `dir` that are not of the first format, lowest first.
pub(super) fn list_current(dir: &Path, kind: Kind) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for number in list(dir, kind)? {
        if version(&path(dir, kind, number))? != Some(LEGACY) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Returns the files of the first format in `dir`.
pub(super) fn legacy_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for kind in [Kind::Checkpoint, Kind::Segment] {
        for number in list(dir, kind)? {
            let path = path(dir, kind, number);
            if version(&path)? == Some(LEGACY) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Returns true if `dir` holds files of the first format and none of this one.
pub(super) fn is_legacy(dir: &Path) -> Result<bool> {
    let current =
        list_current(dir, Kind::Checkpoint)?.is_empty() && list_current(dir, Kind::Segment)?.is_empty();
    Ok(current && !legacy_files(dir)?.is_empty())
}

/// Returns the version in a file's header, if it has one.
pub(super) fn version(path: &Path) -> Result<Option<u8>> {
    let mut header = [0; HEADER];
    let read = File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut header));
    match read {
        Ok(()) => Ok(header.strip_prefix(NAME).and_then(|rest| rest.first().copied())),
        // Shorter than a header, as after a kill while it was being created.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::io("reading the journal", error).with_path(path)),
    }
}

/// Returns the id of the journal in `dir`. Creates one the first time.
pub(super) fn id(dir: &Path) -> Result<String> {
    let path = dir.join("id");
    let failed = |error| Error::io("naming the journal", error).with_path(&path);
    match fs::read(&path).map(String::from_utf8) {
        Ok(Ok(id)) if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => return Ok(id),
        // A damaged id is replaced. Cursors with the old one are then rejected, and their readers start from
        // a snapshot.
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let id = uuid::Uuid::new_v4().simple().to_string();
    // Without a temporary file: an id that a crash leaves incomplete counts as damaged and is replaced.
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(id.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    sync_dir(dir)?;
    Ok(id)
}

pub(super) fn header() -> [u8; HEADER] {
    let mut header = [VERSION; HEADER];
    if let Some(name) = header.first_chunk_mut() {
        *name = *NAME;
    }
    header
}

/// Returns true if `bytes` begin with a header that this code can read.
///
/// # Errors
/// `not_supported` if the version is newer.
pub(super) fn check_header(bytes: &[u8], path: &Path) -> Result<bool> {
    let Some((name, rest)) = bytes.split_first_chunk::<7>() else { return Ok(false) };
    match rest.first() {
        Some(version) if name == NAME && *version > VERSION => Err(Error::new(
            ErrorKind::NotSupported,
            "the journal was written by a newer version of Watchfire",
        )
        .with("version", version)
        .with("supported", VERSION)
        .with_path(path)),
        Some(version) => Ok(name == NAME && *version == VERSION),
        None => Ok(false),
    }
}

/// Creates an empty segment whose first record will be `number`.
///
/// Truncates a file of that name. It cannot hold a record: its writer was killed or ran out of space at this point.
pub(super) fn create(dir: &Path, number: u64) -> Result<File> {
    let path = path(dir, Kind::Segment, number);
    let failed = |error| Error::io("making a journal segment", error).with_path(&path);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(&header()).and_then(|()| file.sync_all()).map_err(failed)?;
    // Without this, records may be synced into a file that has no name after a crash.
    sync_dir(dir)?;
    Ok(file)
}

/// Writes a checkpoint of `state`, into which every record up to `number` is folded.
pub(super) fn write_checkpoint(dir: &Path, number: u64, state: &State) -> Result<()> {
    let path = path(dir, Kind::Checkpoint, number);
    let failed = |error| Error::io("writing a journal checkpoint", error).with_path(&path);
    let payload = serde_json::to_vec(state).map_err(|error| failed(error.into()))?;
    let mut bytes = header().to_vec();
    frame::write(&mut bytes, number, &payload);
    // Beside its place and then renamed: a checkpoint that is half-written must never be found by its name.
    let new = path.with_extension("checkpoint.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(failed)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, &path).map_err(failed)?;
    sync_dir(dir)
}

pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| Error::io("syncing the journal's folder", error).with_path(dir))
}
