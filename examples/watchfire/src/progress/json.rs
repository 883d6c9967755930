//! Prints a run as one JSON object per line, for programs.

use std::time::Instant;

use serde_json::{Value, json};
use watchfire_core::orchestrator::Record;

use super::View;
use crate::out::Out;

pub(super) struct Lines {
    out: Out,
}

impl Lines {
    pub(super) fn new(out: Out) -> Self {
        Self { out }
    }
}

impl View for Lines {
    fn record(&mut self, record: &Record, _: Instant) {
        // The text is never used: this view exists only with `--json`.
        self.out.report(serde_json::to_value(record).unwrap_or(Value::Null), |_| String::new());
    }

    fn note(&mut self, text: &str) {
        self.out.report(json!({ "change": "note", "message": text }), |_| String::new());
    }
}
