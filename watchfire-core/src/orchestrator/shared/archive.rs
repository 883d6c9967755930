//! Records of ended lives and runs on disk. The ledger keeps only the last ones.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ProjectShared, blocking};
use crate::files::{self, make_private};
use crate::schedule::{Life, LifeId, NoticeCode, Run, RunId};
use crate::{Error, ErrorKind, Result};

/// Number of records of each kind that stay at any age. More than the ledger holds: a start looks for the records
/// of those, to find out whether a life was released.
const KEPT: usize = 500;

/// Something of which a record is kept once it has ended.
pub(crate) trait Archived: Serialize + DeserializeOwned + Send + 'static {
    type Id: Copy + Display + Send + 'static;
    const NOUN: &'static str;
    const FOLDER: &'static str;

    fn id(&self) -> Self::Id;
}

impl Archived for Life {
    type Id = LifeId;
    const NOUN: &'static str = "life";
    const FOLDER: &'static str = "lives";

    fn id(&self) -> LifeId {
        self.id
    }
}

impl Archived for Run {
    type Id = RunId;
    const NOUN: &'static str = "run";
    const FOLDER: &'static str = "runs";

    fn id(&self) -> RunId {
        self.id
    }
}

/// Writes a record. A failure costs only that it cannot be read later, and is reported.
pub(crate) async fn keep<T: Archived>(shared: &ProjectShared, record: &T) {
    let path = path::<T>(shared, record.id());
    let text = serde_json::to_vec(record).map_err(|error| {
        Error::new(ErrorKind::InvalidInput, "a record cannot be written down").with_source(error)
    });
    let kept = blocking("keeping a record", move || {
        path.parent().map_or(Ok(()), make_private)?;
        files::replace(&path, &text?)
    });
    if let Err(error) = kept.await {
        shared.notice(NoticeCode::Cleanup, None, format!("{} {}: {}", T::NOUN, record.id(), error.report()));
    }
}

/// Returns true if there is a record.
pub(crate) fn holds<T: Archived>(shared: &ProjectShared, id: T::Id) -> bool {
    path::<T>(shared, id).exists()
}

/// Reads a record.
///
/// # Errors
/// `not_found`; `malformed`; I/O errors.
pub(crate) async fn read<T: Archived>(shared: &ProjectShared, id: T::Id) -> Result<T> {
    let state_dir = shared.state_dir.clone();
    blocking("reading a record", move || read_in(&state_dir, id)).await
}

fn read_in<T: Archived>(state_dir: &Path, id: T::Id) -> Result<T> {
    let path = path_in::<T>(state_dir, id);
    let text = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no such {}", T::NOUN)).with(T::NOUN, id)
        }
        _ => Error::io("reading a record", error).with_path(&path),
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        let what = format!("not a record of a {}", T::NOUN);
        Error::new(ErrorKind::Malformed, what).with_path(&path).with_source(error)
    })
}

impl Life {
    /// Reads the record of a life that has ended from the state folder of its project, which any other program may have
    /// open. The ledger has the last ones.
    ///
    /// # Errors
    /// `not_found`, also for a record that was removed because of its age; `malformed`; I/O errors.
    pub fn record(state_dir: &Path, id: LifeId) -> Result<Self> {
        read_in(state_dir, id)
    }
}

/// Removes the records of what ended before `oldest`, except for the newest ones.
pub(crate) async fn remove_before(shared: &ProjectShared, oldest: SystemTime) -> Result<()> {
    let folders = [Life::FOLDER, Run::FOLDER].map(|folder| shared.state_dir.join(folder));
    let remove = move || folders.into_iter().try_for_each(|folder| remove_in(folder, oldest));
    blocking("removing old records", remove).await
}

fn remove_in(folder: PathBuf, oldest: SystemTime) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let changed = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut records: Vec<_> = entries.flatten().filter_map(changed).collect();
    records.sort_unstable();
    let count = records.len().saturating_sub(KEPT);
    for (_, path) in records.into_iter().take(count).filter(|(changed, _)| *changed < oldest) {
        std::fs::remove_file(&path)
            .map_err(|error| Error::io("removing a record", error).with_path(&path))?;
    }
    Ok(())
}

fn path<T: Archived>(shared: &ProjectShared, id: T::Id) -> PathBuf {
    path_in::<T>(&shared.state_dir, id)
}

fn path_in<T: Archived>(state_dir: &Path, id: T::Id) -> PathBuf {
    state_dir.join(T::FOLDER).join(format!("{id}.json"))
}
