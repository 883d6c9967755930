//! Places at which a test kills the process, makes a write fail, or edits a file as a person would. Without
//! the feature `failpoints` they do nothing.

/// Kills the process if `WATCHFIRE_KILL_AT` is the name of this place, or its number among those reached. Makes the edits
/// that `WATCHFIRE_EDITS` names for this place.
#[cfg(feature = "failpoints")]
pub(crate) fn reached(name: &'static str) {
    edit(name);
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    static KILL_AT: OnceLock<u64> = OnceLock::new();
    static IS_NAMED: OnceLock<bool> = OnceLock::new();
    const KILL: &str = "WATCHFIRE_KILL_AT";
    let kill_at =
        *KILL_AT.get_or_init(|| std::env::var(KILL).ok().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX));
    let is_named = *IS_NAMED.get_or_init(|| kill_at == u64::MAX && std::env::var_os(KILL).is_some())
        && std::env::var_os(KILL).is_some_and(|at| at == name);
    if SEEN.fetch_add(1, Ordering::Relaxed) + 1 == kill_at || is_named {
        _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Makes the edits for the place `name`. Each line of `WATCHFIRE_EDITS` is an edit: the place, how many times it
/// must have been reached, a path, and the new content. Like most editors, an edit replaces the file by a
/// rename, unless `WATCHFIRE_EDIT_IN_PLACE` is set.
#[cfg(feature = "failpoints")]
fn edit(name: &'static str) {
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};
    static SEEN: Mutex<Option<HashMap<&str, u32>>> = Mutex::new(None);
    let Ok(edits) = std::env::var("WATCHFIRE_EDITS") else { return };
    let nth = {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let count = seen.get_or_insert_default().entry(name).or_default();
        *count += 1;
        *count
    };
    for line in edits.lines() {
        let fields: Vec<_> = line.splitn(4, '\t').collect();
        if let [place, times, path, content] = fields[..]
            && (place, times) == (name, nth.to_string().as_str())
        {
            let in_place = std::env::var_os("WATCHFIRE_EDIT_IN_PLACE").is_some();
            let saved = if in_place { path.to_owned() } else { format!("{path}.saved") };
            _ = std::fs::write(&saved, content).and_then(|()| std::fs::rename(&saved, path));
        }
    }
}

/// Does nothing without the feature.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn reached(_name: &'static str) {}

/// Fails like a full disk if `WATCHFIRE_FAIL_AT` or `WATCHFIRE_FAIL_ALSO` names this place. Used as a question
/// too: the place `exchange` stands for a file system that cannot exchange two names.
#[cfg(feature = "failpoints")]
pub(crate) fn failing(name: &'static str) -> watchfire_core::Result<()> {
    let full = || watchfire_core::Error::io("writing a file", std::io::ErrorKind::StorageFull.into());
    let is_set = |variable| std::env::var_os(variable).is_some_and(|at| at == name);
    if is_set("WATCHFIRE_FAIL_AT") || is_set("WATCHFIRE_FAIL_ALSO") { Err(full()) } else { Ok(()) }
}

/// Does nothing without the feature.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn failing(_name: &'static str) -> watchfire_core::Result<()> {
    Ok(())
}
