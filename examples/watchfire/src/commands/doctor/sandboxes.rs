//! Tries what each sandbox can enforce here.

use serde_json::json;
use watchfire_core::sandbox::{Probe, SandboxSet};

use super::{Line, Section, State};

/// Returns true for a sandbox that enforces everything that is required: it has namespaces, or needs none.
pub(in crate::commands) fn is_whole(probe: &Probe) -> bool {
    probe.available && probe.step.is_empty() && !["none", "birdcage"].contains(&probe.sandbox.as_str())
}

pub(in crate::commands) fn look(sandboxes: &SandboxSet) -> Section {
    let probes: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.probe()).collect();
    let confining = |name: &str| name != "none";
    // `none` always works, and confines nothing.
    let works = probes.iter().any(|probe| probe.available && confining(&probe.sandbox));
    let mut lines: Vec<_> = probes
        .iter()
        .map(|probe| {
            let (state, text) = match (probe.available, confining(&probe.sandbox)) {
                (true, true) => (State::Good, "works"),
                (true, false) => (State::Plain, "always there, confines nothing, must be asked for"),
                (false, _) => (State::Plain, "does not work here"),
            };
            let mut line = Line::new(state, probe.title(), text);
            line.more = probe
                .mechanisms
                .iter()
                .map(|mechanism| {
                    let mark = if mechanism.available { "✓" } else { "✗" };
                    format!("{mark} {}  {}", mechanism.name, mechanism.detail)
                })
                .collect();
            line
        })
        .collect();
    if !probes.iter().any(is_whole) {
        let text = "watchfire sandbox setup shows how to get what the sandbox lacks here";
        lines.push(Line::new(State::Plain, "setup", text));
    }
    if !works {
        let text = "no sandbox works here: agents start only where you ask for none (--no-sandbox)";
        lines.push(Line::new(State::Bad, "sandbox", text));
    }
    Section { heading: "sandboxes", lines, json: json!(probes) }
}
