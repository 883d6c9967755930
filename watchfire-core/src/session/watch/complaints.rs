//! Reports stderr of an agent on pipes while it runs. An agent that waits for ever after an error, for example for a
//! login, says so nowhere else.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Source;
use crate::clock::Clock;
use crate::observe::Body;
use crate::session::state::Shared;
use crate::session::state::said::last_lines;

/// Pause before a report, in which more may follow. Also the shortest time between two reports.
const REST: Duration = Duration::from_secs(1);

/// Reports the last lines of stderr whenever they change, until the task is aborted.
pub(in crate::session) async fn run(shared: Arc<Shared>, clock: Arc<dyn Clock>) {
    let mut reported = String::new();
    loop {
        shared.process.complained().await;
        clock.sleep_until(clock.boot_time() + REST).await;
        let words = last_lines(&shared.process.complaints(), 3, &[]);
        if !words.is_empty() && words != reported {
            let payload = serde_json::json!({ "message": words });
            shared.log.push(Source::Process, Body::Event { name: "stderr".to_owned(), payload });
            reported = words;
        }
    }
}
