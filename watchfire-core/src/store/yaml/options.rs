//! Options of the store on files.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a `YamlStore`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct YamlOptions {
    /// Where its lock is, and its claims without [`shared_dir`](Self::shared_dir): a folder that agents cannot open, the same for every process that works on
    /// the project. Made where it is missing. See [`Home::state_dir`](crate::store::Home::state_dir).
    pub state_dir: PathBuf,
    /// Folder for claims that every home shares which can work on the project: `watchfire` in the common git directory.
    /// It is created with the owner and mode of its parent. Default: none, claims lie in the state folder.
    pub shared_dir: Option<PathBuf>,
    /// True if file system events are used. Default: true.
    pub watch: bool,
    /// Delay after an event, in which further events join it. Default: 100 ms, longer than the pieces of one save
    /// lie apart and shorter than a person notices.
    pub debounce: Duration,
    /// Polling interval, in case events are lost. Default: 5 s; a scan costs one `stat` per file.
    pub poll: Duration,
}

impl YamlOptions {
    /// The defaults, with this state folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            shared_dir: None,
            watch: true,
            debounce: Duration::from_millis(100),
            poll: Duration::from_secs(5),
        }
    }

    /// Sets the folder for claims.
    #[must_use]
    pub fn with_shared_dir(mut self, shared_dir: impl Into<Option<PathBuf>>) -> Self {
        self.shared_dir = shared_dir.into();
        self
    }

    /// Sets whether file system events are used.
    #[must_use]
    pub fn with_watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Sets the delay after an event.
    #[must_use]
    pub fn with_debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets the polling interval.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }
}

/// The source from which a store learns of changes by other programs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Watching {
    /// None yet: the store is starting.
    #[default]
    Starting,
    /// File system events, and polling in case they are lost.
    Events,
    /// Polling alone.
    PollingOnly {
        /// The reason why there are no events.
        reason: String,
    },
}
