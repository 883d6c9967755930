//! Reports the daemon, and where its variables are not those of this terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::json;
use watchfire_client::{Daemon, DaemonFile};
use watchfire_core::model::Settings;
use watchfire_core::sandbox::{EnvironmentPolicy, PolicyInputs, SandboxSet};

use super::{Line, Section, State};

/// Patterns of variables that differ between any two terminals and change nothing for an agent.
const ITS_OWN: [&str; 10] = [
    "TERM",
    "TERMINFO*",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "WATCHFIRE_*",
    "SSH_*",
    "GPG_*",
    "DBUS_*",
    "CLAUDE_CODE_*",
];

pub(super) async fn look(home: &Path, settings: &Settings, sandboxes: &SandboxSet) -> Section {
    let heading = "daemon";
    if let Err(error) = Daemon::connect(home).await {
        let none = error.code == "app_not_running";
        let state = if none { State::Plain } else { State::Bad };
        let hint = error.hint.filter(|_| !none).map(|hint| format!("; {hint}")).unwrap_or_default();
        let line = Line::new(state, heading, format!("{}{hint}", error.message));
        return Section { heading, lines: vec![line], json: json!({ "running": false, "code": error.code }) };
    }
    // It answers, so the file is its own.
    let Ok(Some(file)) = DaemonFile::read(home) else { return Section::empty(heading) };
    let ours = env!("CARGO_PKG_VERSION");
    let mut line =
        Line::new(State::Good, heading, format!("release {}, pid {}", file.program_version, file.pid));
    if file.program_version != ours {
        line.state = State::Plain;
        line.more.push(format!("this program is of release {ours}: watchfire daemon restart"));
    }
    let mut lines = vec![line];
    let differs = environment_of(file.pid).map(|theirs| differences(&theirs, home, settings, sandboxes));
    lines.push(match &differs {
        None => Line::new(State::Plain, "variables", "those of the daemon cannot be read on this system"),
        Some(differs) if differs.is_empty() => {
            Line::new(State::Good, "variables", "the daemon has those of this terminal")
        }
        Some(differs) => {
            let names: Vec<_> = differs.iter().map(|(name, how)| format!("{name} ({how})")).collect();
            let mut line =
                Line::new(State::Plain, "variables", "the daemon's are not those of this terminal");
            line.more.push(names.join(", "));
            line.more.push(
                "agents that it starts by itself get its own; watchfire daemon restart gives it these"
                    .to_owned(),
            );
            line
        }
    });
    let json =
        json!({ "running": true, "pid": file.pid, "version": file.program_version, "variables": differs });
    Section { heading, lines, json }
}

/// Returns the names of variables that agents may get and that are not the same here and there, each with the difference. Never a
/// value: many are secrets.
fn differences(
    theirs: &BTreeMap<OsString, OsString>,
    home: &Path,
    settings: &Settings,
    sandboxes: &SandboxSet,
) -> BTreeMap<String, &'static str> {
    let ours: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let mut inputs = PolicyInputs::new();
    inputs.home = ours.get(OsStr::new("HOME")).map(Into::into);
    inputs.watchfire_home = Some(home.to_owned());
    inputs.settings = settings.sandbox.clone();
    inputs.environment.clone_from(&ours);
    let policy = sandboxes.base_policy(&inputs).and_then(|policy| policy.build());
    let policy = policy.map(|policy| policy.environment).unwrap_or_default();
    // Keys, too: an agent gets its own by name.
    let allow = [&policy.allow[..], &policy.usual, &policy.deny].concat();
    let mut wanted = EnvironmentPolicy { allow, ..EnvironmentPolicy::default() };
    wanted.allow.extend(settings.agents.values().flat_map(|agent| agent.pass_env.iter().cloned()));
    wanted.allow.retain(|pattern| !ITS_OWN.contains(&pattern.as_str()));
    let its_own =
        EnvironmentPolicy { allow: ITS_OWN.map(str::to_owned).to_vec(), ..EnvironmentPolicy::default() };
    let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let names = names.into_iter().filter(|name| wanted.passes(name) && !its_own.passes(name));
    let differs = names.filter_map(|name| {
        let how = match (ours.get(name), theirs.get(name)) {
            (Some(_), None) => "missing there",
            (None, Some(_)) => "only there",
            (ours, theirs) if ours != theirs => "another value",
            _ => return None,
        };
        Some((name.to_string_lossy().into_owned(), how))
    });
    differs.collect()
}

/// Returns the variables with which a process of ours was started, where the system shows them.
fn environment_of(pid: u32) -> Option<BTreeMap<OsString, OsString>> {
    let text = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let each = text.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    });
    Some(each.collect())
}
