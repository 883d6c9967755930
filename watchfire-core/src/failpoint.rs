//! Places at which a test kills the process. They compile to nothing without the feature `failpoints`.
//!
//! A place has a name. A test lists the places that a run reaches (`WATCHFIRE_PLACES` names the file), then
//! kills at each (`WATCHFIRE_KILL_PLACE` is a name, `#` and the number of times that it is reached), or
//! panics there (`WATCHFIRE_PANIC_PLACE`).

/// Kills the process, or panics, if this is the place. Only tests build this.
#[cfg(feature = "failpoints")]
pub(crate) fn reached<S: Into<String>>(place: impl FnOnce() -> S) {
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use std::sync::{Mutex, OnceLock, PoisonError};

    type Wanted = (Option<std::path::PathBuf>, Option<String>);
    static WANTED: OnceLock<Wanted> = OnceLock::new();
    static SEEN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let (list, kill) = WANTED.get_or_init(|| {
        let list = std::env::var_os("WATCHFIRE_PLACES").map(Into::into);
        (list, std::env::var("WATCHFIRE_KILL_PLACE").ok())
    });
    let panic = std::env::var_os("WATCHFIRE_PANIC_PLACE");
    if list.is_none() && kill.is_none() && panic.is_none() {
        return;
    }
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let name: String = place().into();
    let count = seen.entry(name.clone()).or_default();
    *count += 1;
    // Counted, because a run reaches the same place several times and a kill at each is another test.
    let place = format!("{name}#{count}");
    if let Some(list) = list {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
        // A test without its list fails by itself.
        let _ = file.and_then(|mut file| file.write_all(format!("{place}\n").as_bytes()));
    }
    if panic.is_some_and(|panic| panic == *place) {
        drop(seen);
        // Wanted by a test: without the feature `failpoints`, none of this is compiled.
        panic!("{place}");
    }
    if kill.as_ref() == Some(&place) {
        // Under the lock, so that nothing passes another place meanwhile.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn reached<S>(_place: impl FnOnce() -> S) {}
