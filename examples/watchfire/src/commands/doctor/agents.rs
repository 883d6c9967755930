//! Finds the agents on this machine, without starting them.

use serde_json::json;
use watchfire_core::backend::{Backend, ProgramSearch};
use watchfire_core::model::Settings;

use super::{Line, Section, State};
use crate::compose;

pub(super) fn look(settings: &Settings) -> Section {
    let backends = match compose::backends(settings) {
        Ok(backends) => backends,
        Err(error) => {
            let lines = vec![Line::new(State::Bad, "agents", error.report())];
            return Section { heading: "agents", lines, json: json!({ "error": error.report() }) };
        }
    };
    let (mut lines, mut found) = (Vec::new(), Vec::new());
    for backend in backends.iter() {
        let (line, value) = one(&**backend, settings);
        lines.push(line);
        found.push(value);
    }
    Section { heading: "agents", lines, json: found.into() }
}

fn one(backend: &dyn Backend, settings: &Settings) -> (Line, serde_json::Value) {
    let name = backend.name();
    // The same search as for a session, so that the report is true.
    let home = std::env::var_os("HOME").map(Into::into);
    let search = ProgramSearch::new(std::env::var_os("PATH"), home)
        .with_settings(settings.agents.get(name).cloned().unwrap_or_default());
    match backend.locate(&search) {
        Ok(located) => {
            let version = located.version.clone().unwrap_or_else(|| "unknown version".to_owned());
            let tested = match located.tested {
                Some(false) => ", not a version that is tested",
                _ => "",
            };
            let text = format!("{} {version}{tested}", backend.display_name());
            let mut line = Line::new(State::Good, name, text);
            line.more.push(located.program.display().to_string());
            let value = json!({
                "name": name, "available": true, "version": located.version, "tested": located.tested,
                "path": located.program.display().to_string(),
            });
            (line, value)
        }
        Err(error) => {
            let hint = error.detail("hint").map(str::to_owned).or_else(|| backend.install_hint());
            let mut line =
                // Not bad: a person rarely has every agent.
                Line::new(State::Plain, name, format!("{}: {}", backend.display_name(), error.message()));
            line.more.extend(hint.clone());
            (line, json!({ "name": name, "available": false, "error": error.report(), "hint": hint }))
        }
    }
}
