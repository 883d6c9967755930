//! What a store on files can be told.

use std::path::PathBuf;
use std::time::Duration;

/// How a `YamlStore` works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct YamlOptions {
    /// Where its lock is, and its claims without [`shared_dir`](Self::shared_dir): a folder that agents cannot open, the same for every process that works on
    /// the project. Made where it is missing. See [`Home::state_dir`](crate::store::Home::state_dir).
    pub state_dir: PathBuf,
    /// Folder for claims that every home shares which can work on the project: `watchfire` in the common git directory.
    /// It is created with the owner and mode of its parent. Default: none, claims lie in the state folder.
    pub shared_dir: Option<PathBuf>,
    /// Whether the system is asked to tell of changes. Default: yes.
    pub watch: bool,
    /// How long it waits after a sign of change for more to come. Default: 100 ms, longer than the pieces of one save
    /// lie apart and shorter than a person notices.
    pub debounce: Duration,
    /// How often it looks by itself. Default: 5 s, the net for lost events; a look costs one `stat` per file.
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

    /// Sets whether the system is asked to tell of changes.
    #[must_use]
    pub fn with_watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Sets how long it waits for more changes.
    #[must_use]
    pub fn with_debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets how often it looks by itself.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }
}

/// How a store learns of changes by others.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Watching {
    /// Not yet: it is just starting.
    #[default]
    Starting,
    /// The system tells, and polling stands behind it.
    Events,
    /// By polling alone, for this reason.
    PollingOnly {
        /// Why the system does not tell.
        reason: String,
    },
}
