//! How many files of a folder are read, by anybody.

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use watchfire_core::{Error, ErrorKind, Result};

/// Counts files of one folder that were opened for reading and closed again.
pub(crate) struct Reads(Arc<AtomicUsize>);

impl Reads {
    /// Counts from now on, until the process ends.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let failed = |error| Error::new(ErrorKind::Io, "counting reads").with_source(error);
        let watch = inotify::init(CreateFlags::CLOEXEC).map_err(failed)?;
        inotify::add_watch(&watch, folder, WatchFlags::CLOSE_NOWRITE).map_err(failed)?;
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        // The queue of events is bounded: somebody must empty it all the time.
        thread::spawn(move || {
            let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
            let mut events = Reader::new(watch, &mut buffer);
            while let Ok(event) = events.next() {
                let of_a_file = !event.events().contains(ReadFlags::ISDIR);
                counted.fetch_add(usize::from(of_a_file), Ordering::Relaxed);
            }
        });
        Ok(Self(count))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
