//! Telling what an agent on pipes writes to where errors go, while it runs: one that waits for ever after an error, such
//! as for a login, says so nowhere else.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Source;
use crate::clock::Clock;
use crate::observe::Body;
use crate::session::actor::Shared;

/// How long more may follow before it is told, and how often it is at most.
const REST: Duration = Duration::from_secs(1);

/// Tells its last words whenever there are new ones, until it is aborted.
pub(in crate::session) async fn run(shared: Arc<Shared>, clock: Arc<dyn Clock>) {
    let mut told = String::new();
    loop {
        shared.process.complained().await;
        clock.sleep_until(clock.boot_time() + REST).await;
        let words = crate::session::actor::last_words(&shared.process.complaints());
        if !words.is_empty() && words != told {
            let payload = serde_json::json!({ "message": words });
            shared.log.push(Source::Process, Body::Event { name: "stderr".to_owned(), payload });
            told = words;
        }
    }
}
