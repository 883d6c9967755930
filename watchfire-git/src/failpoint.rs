//! Places at which a test kills the process or makes a write fail. Without the feature `failpoints` they do
//! nothing.

/// Kills the process if this is place number `WATCHFIRE_KILL_AT` of those that it reaches.
#[cfg(feature = "failpoints")]
pub(crate) fn reached(_name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    static KILL_AT: OnceLock<u64> = OnceLock::new();
    let kill_at = *KILL_AT.get_or_init(|| {
        std::env::var("WATCHFIRE_KILL_AT").ok().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX)
    });
    if SEEN.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
        _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Does nothing without the feature.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn reached(_name: &'static str) {}

/// Fails like a full disk if `WATCHFIRE_FAIL_AT` or `WATCHFIRE_FAIL_ALSO` names this place.
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
