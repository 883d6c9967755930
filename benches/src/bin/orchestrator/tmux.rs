//! What tmux does of the same.

use std::time::Instant;

use watchfire_benches::millis;
use watchfire_benches::tmux::Tmux;

use crate::world::IDLE;

/// Returns the time from `new-session` to the first byte on its screen, in milliseconds.
pub(crate) fn first_byte(tmux: &Tmux) -> Option<f64> {
    let start = Instant::now();
    tmux.run(&["new-session", "-d", "-s", "one", IDLE])?;
    while tmux.run(&["capture-pane", "-p", "-t", "one"])?.trim().is_empty() {}
    let took = millis(start);
    tmux.run(&["kill-session", "-t", "one"])?;
    Some(took)
}

/// Starts idle sessions up to `count`.
pub(crate) fn fill(tmux: &Tmux, from: usize, count: usize) -> Option<()> {
    (from..count)
        .try_for_each(|n| tmux.run(&["new-session", "-d", "-s", &format!("idle-{n}"), IDLE]).map(|_| ()))
}
