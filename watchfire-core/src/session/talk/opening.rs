//! The time limit for a conversation to open.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::session::state::Shared;
use crate::session::state::conversation::give_up;

/// Ends an agent that has not become ready in time.
pub(in crate::session) async fn watch_opening(shared: Arc<Shared>, within: Duration, clock: Arc<dyn Clock>) {
    let (mut ready, mut over) = (shared.ready.subscribe(), shared.over.subscribe());
    tokio::select! {
        _ = ready.wait_for(|ready| *ready) => {}
        _ = over.wait_for(|over| *over) => {}
        () = clock.sleep_until(clock.boot_time() + within) => {
            give_up(&shared, "it did not open a session in time");
        }
    }
}
