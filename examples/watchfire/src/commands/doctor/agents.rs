//! Finds the agents on this machine, without starting them.

use serde_json::json;
use watchfire_core::Result;
use watchfire_core::backend::{Backend, LeftBehind, LocatedProgram, ProgramSearch, SessionContext};
use watchfire_core::model::{Mode, SessionId, Settings};

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

/// Finds the program of an agent, as a session would.
pub(crate) fn locate(settings: &Settings, name: &str) -> Result<LocatedProgram> {
    let backend = compose::backends(settings)?.get(name)?;
    let found = backend.locate(&search(settings, backend.name()));
    let hint = backend.install_hint().unwrap_or_default();
    found.map_err(|error| match error.detail("hint") {
        Some(_) => error,
        None => error.with("hint", hint),
    })
}

fn search(settings: &Settings, name: &str) -> ProgramSearch {
    let home = std::env::var_os("HOME").map(Into::into);
    ProgramSearch::new(std::env::var_os("PATH"), home)
        .with_settings(settings.agents.get(name).cloned().unwrap_or_default())
}

fn one(backend: &dyn Backend, settings: &Settings) -> (Line, serde_json::Value) {
    let name = backend.name();
    // The same search as for a session, so that the report is true.
    let search = search(settings, name);
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
            let left = left_behind(backend, located.program.clone(), &search);
            for left in &left {
                line.more.push(format!("{} stays behind: {}", left.item, left.why));
            }
            let setting = LeftBehind::setting(name, &left);
            line.more
                .extend(setting.as_ref().map(|line| format!("to take it along, in settings.yaml: {line}")));
            let items = left.iter().map(|left| json!({ "item": left.item, "why": left.why }));
            let value = json!({
                "name": name, "available": true, "version": located.version, "tested": located.tested,
                "path": located.program.display().to_string(),
                "left_behind": items.collect::<Vec<_>>(), "setting": setting,
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

/// Returns what of the person's own configuration would not go along into a session. Nothing is written or started.
fn left_behind(
    backend: &dyn Backend,
    program: std::path::PathBuf,
    search: &ProgramSearch,
) -> Vec<LeftBehind> {
    let (Ok(name), Ok(cwd)) = (backend.name().parse(), std::env::current_dir()) else { return Vec::new() };
    let home = cwd.join(".watchfire/no-session");
    let mut context = SessionContext::new(SessionId::random(), name, Mode::Task, program, home, cwd);
    context.user_home.clone_from(&search.home);
    context.settings = search.settings.clone();
    context.environment = std::env::vars_os().collect();
    // What makes a session impossible is told where one is started.
    backend.prepare(&context).map(|launch| launch.left).unwrap_or_default()
}
