//! Lists every setting with its value and where the value comes from.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde_json::json;
use watchfire_core::model::{
    Dollars, KeyFile, MergeStrategy, NetworkSetting, Phase, Project, Settings, Sharing, unknown_keys,
};
use watchfire_core::sandbox::SandboxSet;
use watchfire_core::schedule::resolve::{self, From, Resolved};

use super::{Line, Section, State, yaml_line};
use crate::compose;

pub(super) fn look(
    settings: &Settings,
    project: Option<&Project>,
    broken: Option<String>,
    unread: Vec<String>,
    (home, root): (&Path, &Path),
    sandboxes: &SandboxSet,
) -> Section {
    let mut lines = Vec::new();
    if let Some(broken) = broken {
        lines.push(Line::new(State::Bad, "settings.yaml", format!("{broken}; defaults are shown")));
    }
    // A key with a typo has no effect, which the person would not notice.
    let unknown = compose::unknown_settings(settings);
    let unknown =
        unknown.into_iter().chain(project.into_iter().flat_map(|it| unknown_keys(KeyFile::Project, it)));
    lines.extend(unknown.map(|key| {
        // One that resembles none may be meant for another program.
        let state = if key.nearest.is_some() { State::Bad } else { State::Plain };
        let file = match key.file {
            KeyFile::Settings => home.join("settings.yaml"),
            _ => root.join(".watchfire/project.yaml"),
        };
        let line = fs::read_to_string(file).ok().and_then(|text| yaml_line::of_key(&text, &key.path));
        let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        Line::new(state, "unknown key", format!("{key}{place}"))
    }));
    // Another repository may have what this one has not.
    lines.extend(unread.into_iter().map(|line| Line::new(State::Plain, "git.filters", line)));
    let mut add = |name: &'static str, value: Result<(String, From), watchfire_core::Error>| {
        lines.push(match value {
            Ok((value, from)) => Line::new(State::Plain, name, format!("{value}  ({from})")),
            Err(error) => Line::new(State::Bad, name, error.report()),
        });
    };
    // Outside of a project, the settings of an empty one: defaults and the person's own.
    let unset = Project::new(watchfire_core::model::ProjectId::random(), "");
    let of = project.unwrap_or(&unset);
    let defaults = &settings.defaults;
    let default = "claude-code".parse();
    add("agent", default.and_then(|default| resolve::backend(None, None, of, settings, default)).map(shown));
    for (name, phase) in [
        ("wildfire.execute", Phase::Execute),
        ("wildfire.refine", Phase::Refine),
        ("wildfire.generate", Phase::Generate),
    ] {
        let agent = of.wildfire.agent(phase).map(ToString::to_string);
        match of.wildfire.model(phase) {
            Err(error) => add(name, Err(error)),
            Ok(model) => {
                let named: Vec<_> = agent.into_iter().chain(model.map(str::to_owned)).collect();
                if !named.is_empty() {
                    add(name, Ok((named.join(", "), From::Project)));
                }
            }
        }
    }
    let sandbox = resolve::sandbox(None, of, settings, sandboxes).map(shown);
    add("sandbox", sandbox);
    let (own, projects) = (&settings.sandbox, &of.sandbox_rules);
    let tight = own.tightened_by(projects);
    let mut knob = |name, value: Option<String>, own: Option<String>, default: &str| {
        // The rules only tighten, so an unchanged value is the person's own.
        let from = if value == own { From::Settings } else { From::Project };
        add(name, Ok(shown(resolve::first([(from, value)], default.to_owned()))));
    };
    let network = |value: Option<NetworkSetting>| value.map(|it| format!("{it:?}").to_lowercase());
    let sharing = |value: Option<Sharing>| value.map(|it| format!("{it:?}").to_lowercase());
    let ports = |list: &[u16]| {
        let ports: Vec<_> = list.iter().map(ToString::to_string).collect();
        (!ports.is_empty()).then(|| ports.join(", "))
    };
    knob("sandbox.network", network(tight.network), network(own.network), "open");
    knob("sandbox.deny_ports", ports(&tight.deny_ports), ports(&own.deny_ports), "none");
    knob("sandbox.tmp", sharing(tight.tmp), sharing(own.tmp), "private");
    let caches = "yours; what a session writes is kept apart";
    knob("sandbox.caches", sharing(tight.caches), sharing(own.caches), caches);
    let kept = own.caches_max_mb.map(|size| size.to_string());
    knob("sandbox.caches_max_mb", kept.clone(), kept, "2048");
    // The settings hold a value for every default. One that equals the built-in value counts as not set.
    let built_in = Settings::default().defaults;
    let flag = |of: Option<bool>, set: bool, default: bool| {
        let set = (set != default).then_some(set);
        Ok(shown(resolve::first([(From::Project, of), (From::Settings, set)], default)))
    };
    add("auto_merge", flag(of.auto_merge, defaults.auto_merge, built_in.auto_merge));
    let of_branch = of.auto_delete_branch;
    add("auto_delete_branch", flag(of_branch, defaults.auto_delete_branch, built_in.auto_delete_branch));
    add("auto_start_tasks", flag(of.auto_start_tasks, defaults.auto_start_tasks, built_in.auto_start_tasks));
    let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    // That of the settings is only what `init` offers.
    let branch = [(From::Project, named(&of.default_branch))];
    add("default_branch", Ok(shown(resolve::first(branch, "the one that is checked out".to_owned()))));
    add("stop_on_merge_failure", flag(None, defaults.stop_on_merge_failure, built_in.stop_on_merge_failure));
    let prune_every = [(From::Settings, named(&defaults.prune_every))];
    add("prune_every", Ok(shown(resolve::first(prune_every, "24h".to_owned()))));
    let strategy = serde_json::to_value(of.merge.strategy).ok();
    let strategy = strategy.as_ref().and_then(serde_json::Value::as_str).unwrap_or("merge").to_owned();
    let strategy = Some(strategy).filter(|_| of.merge.strategy != MergeStrategy::default());
    add("merge.strategy", Ok(shown(resolve::first([(From::Project, strategy)], "merge".to_owned()))));
    add("merge.batch", Ok(shown(resolve::first([(From::Project, of.merge.batch)], 1))));
    let ready = Some(defaults.ready_worktrees).filter(|count| *count != built_in.ready_worktrees);
    let ready = resolve::first([(From::Settings, ready)], built_in.ready_worktrees);
    add("ready_worktrees", Ok(shown(ready)));
    add("max_parallel", Ok(shown(resolve::first([(From::Project, of.max_parallel)], 1))));
    let in_all = Some(settings.max_parallel).filter(|most| *most > 0).map(|most| most.to_string());
    add("max_parallel, in all", Ok(shown(resolve::first([(From::Settings, in_all)], "no limit".to_owned()))));
    add("time_limit", Ok(shown(resolve::first([(From::Project, of.time_limit.clone())], "none".to_owned()))));
    add("stall_after", Ok(shown(resolve::first([(From::Project, of.stall_after.clone())], "5m".to_owned()))));
    let on_limit = Some(defaults.on_limit).filter(|on_limit| *on_limit != built_in.on_limit);
    let on_limit =
        resolve::first([(From::Project, of.on_limit), (From::Settings, on_limit)], built_in.on_limit);
    add("on_limit", Ok(shown(on_limit)));
    let amount = |of: Option<Dollars>| {
        Ok(shown(resolve::first([(From::Settings, of.map(|it| it.to_string()))], "no limit".to_owned())))
    };
    add("budget.task", amount(settings.budget.task));
    add("budget.day", amount(settings.budget.day));
    for (name, list) in [
        ("setup", &of.setup),
        ("verify", &of.verify),
        ("share", &of.share),
        ("copy", &of.copy),
        ("protected", &of.protected),
    ] {
        let list = (!list.is_empty()).then(|| list.join("; "));
        add(name, Ok(shown(resolve::first([(From::Project, list)], "nothing".to_owned()))));
    }
    // Before the line for the home, which is no setting.
    let json = lines.iter().map(|line| json!({ "name": line.name, "value": line.text })).collect();
    let mut home_line = Line::new(State::Plain, "home", home.display().to_string());
    if project.is_none() {
        home_line.more.push("no project is read here: these are the settings for any".to_owned());
    }
    lines.insert(0, home_line);
    Section { heading: "settings", lines, json }
}

fn shown<T: Display>(resolved: Resolved<T>) -> (String, From) {
    (resolved.value.to_string(), resolved.from)
}
