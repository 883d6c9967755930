//! Options of the store on files.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a `YamlStore`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct YamlOptions {
    /// Folder for its lock, and for its claims without a [`shared_dir`](Self::shared_dir). Agents must not be able to
    /// open it, and every process that works on the project must use the same. Created if missing. See
    /// [`Home::state_dir`](crate::store::Home::state_dir).
    pub state_dir: PathBuf,
    /// Folder for claims that all homes with access to the project share: `watchfire` in the common git directory.
    /// Created with the owner and mode of its parent. Default: none, claims are in the state folder.
    pub shared_dir: Option<PathBuf>,
    /// True if file system events are used. Default: true.
    pub watch: bool,
    /// Delay after an event, in which further events join it. Default: 100 ms, which is longer than the gaps within
    /// one save and shorter than a person notices.
    pub debounce: Duration,
    /// Polling interval, in case events are lost. Default: 5 s. A scan costs one `stat` per file.
    pub poll: Duration,
}

impl YamlOptions {
    /// Returns the defaults with this state folder.
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

/// The source of a store's knowledge about changes by other programs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Watching {
    /// None yet: the store is starting.
    #[default]
    Starting,
    /// File system events, and polling in case they are lost.
    Events,
    /// Polling only.
    #[non_exhaustive]
    PollingOnly {
        /// The reason why there are no events.
        reason: String,
    },
}

impl Watching {
    /// Returns [`PollingOnly`](Self::PollingOnly).
    #[must_use]
    pub fn polling_only(reason: impl Into<String>) -> Self {
        Self::PollingOnly { reason: reason.into() }
    }
}
