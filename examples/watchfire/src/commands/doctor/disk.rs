//! Measures how long a synced write takes.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use watchfire_core::{Error, Result};

use super::{Line, Section, State};

/// Number of tries. The median is reported.
const TIMES: usize = 32;
/// Median above which a disk counts as slow. A merge waits for a few such writes.
const SLOW: Duration = Duration::from_millis(50);

pub(super) fn look(folder: &Path) -> Section {
    match measure(folder) {
        Ok(median) => {
            // Slow, but not an obstacle.
            let state = if median > SLOW { State::Plain } else { State::Good };
            let millis = median.as_secs_f64() * 1000.0;
            let text =
                format!("one fdatasync takes {millis:.2} ms (median of {TIMES}); a merge waits for a few");
            let mut line = Line::new(state, "state", text);
            line.more.push(folder.display().to_string());
            let json =
                json!({ "fdatasync_ms": millis, "times": TIMES, "folder": folder.display().to_string() });
            Section { heading: "disk", lines: vec![line], json }
        }
        Err(error) => Section {
            heading: "disk",
            lines: vec![Line::new(State::Bad, "state", error.report())],
            json: json!({ "error": error.report() }),
        },
    }
}

fn measure(folder: &Path) -> Result<Duration> {
    let failed = |e| Error::io("timing the disk", e).with_path(folder);
    // In the folder of the state, which may be on another disk than the temporary folder. The file has no
    // name and vanishes with the process.
    let mut file: File = tempfile::tempfile_in(folder).map_err(failed)?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        // New bytes each time: without a change there would be nothing to sync.
        file.write_all(&[b'.'; 200]).map_err(failed)?;
        let began = Instant::now();
        file.sync_data().map_err(failed)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(TIMES / 2).copied().unwrap_or_default())
}
