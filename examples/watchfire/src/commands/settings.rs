//! `watchfire settings`: shows and changes the settings of the project, and with `--global` those of the person.

use clap::Args;
use serde_json::{Value, json};
use watchfire_core::model::{
    KEYS, Key, KeyFile, Project, ProjectStatus, Settings, Timestamp, in_words, unknown_keys,
};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::store::{Patch, ProjectPatch, TaskStore as _};
use watchfire_core::{Error, ErrorKind, Result as CoreResult};
use watchfire_tui::keymap::Keymap;

use super::doctor;
use super::task::ask;
use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Result};
use crate::{compose, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal it asks for each setting of the project; Enter keeps it. `watchfire doctor` shows what holds, and from where.

Examples:
  watchfire settings
  watchfire settings auto_merge false
  watchfire settings default_agent ''        leaves the agent to your own settings
  watchfire settings status archived         no agent starts in it until the next command here
  watchfire settings --list
  watchfire settings --global defaults.default_agent codex
  watchfire settings --global budget.day 20")]
pub(crate) struct SettingsArgs {
    /// A setting
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Its new value; an empty one removes the setting
    #[arg(value_name = "VALUE", requires = "key", allow_hyphen_values = true)]
    value: Option<String>,
    /// Your own settings, for all projects, instead of the project's
    #[arg(long)]
    global: bool,
    /// Print all settings that have a value, even on a terminal
    #[arg(long, conflicts_with = "value")]
    list: bool,
}

/// The settings of a project that can be changed here, and what to ask.
const OF_PROJECT: &[(&str, &str)] = &[
    ("name", "Project name"),
    ("color", "Colour (#rrggbb)"),
    ("default_branch", "Default branch (empty: the one that is checked out)"),
    ("default_agent", "Agent (empty: that of your own settings)"),
    ("auto_merge", "Auto-merge after task completion (true, false, empty: as in your own settings)"),
    ("auto_delete_branch", "Auto-delete worktrees after merge (true, false, empty)"),
    ("auto_start_tasks", "Auto-start agent when task set to ready (true, false, empty)"),
    ("max_parallel", "Tasks at the same time (empty: 1)"),
    ("time_limit", "Time limit of a session, such as 2h (empty: none)"),
    ("stall_after", "Silence after which an agent may be stalled, such as 10m (empty: 5m)"),
    ("sandbox", "Sandbox (empty: that of your own settings)"),
    ("status", "Status (active, archived)"),
];

/// Further ones, which are not asked for.
const MORE_OF_PROJECT: [&str; 5] = ["setup", "verify", "on_limit", "merge.strategy", "merge.batch"];

/// Returns the names of the settings of a project that can be changed here.
pub(crate) fn keys_of_project() -> impl Iterator<Item = &'static str> {
    OF_PROJECT.iter().map(|(name, _)| *name).chain(MORE_OF_PROJECT)
}

pub(crate) async fn run(context: &Context, args: SettingsArgs) -> Result<Exit> {
    if args.global {
        return global(context, args).await;
    }
    let place = context.project().await?;
    let now = place.store.project().await?.value;
    let patch = match (&args.key, &args.value) {
        (Some(key), Some(value)) => {
            let patch = with(ProjectPatch::new(), &now, key, value)?;
            would_work(context, &place, &now, &patch).await?;
            patch
        }
        (None, _) if !args.list && !context.out.json && terminal::is_interactive() => {
            questions(context, &place, &now).await?
        }
        (key, _) => return show(context, &json_of(&now)?, KeyFile::Project, key.as_deref()),
    };
    let changes = patch != ProjectPatch::new();
    if changes {
        place.store.update_project(patch, None, None).await?;
    }
    saved(context, changes);
    Ok(Exit::Good)
}

/// Refuses what no run could start with.
async fn would_work(
    context: &Context,
    place: &OpenProject,
    now: &Project,
    patch: &ProjectPatch,
) -> Result<()> {
    let named = |field: &'static str| {
        move |error: Error| {
            // Some errors name them already.
            let missing = [("file", "project.yaml"), ("field", field)]
                .into_iter()
                .filter(|(name, _)| error.detail(name).is_none())
                .collect::<Vec<_>>();
            missing.into_iter().fold(error, |error, (name, value)| error.with(name, value))
        }
    };
    if let Patch::Set(agent) = &patch.default_agent {
        let settings = context.home().await?.settings().await?;
        compose::check_agent(agent, &settings).map_err(named("default_agent"))?;
    }
    if let Some(sandbox) = &patch.sandbox {
        let choice = compose::sandboxes()?.parse(sandbox).map_err(named("sandbox"))?;
        // The file comes with the repository.
        if choice == Some(SandboxChoice::None) {
            let error = Error::new(ErrorKind::InvalidInput, "a project cannot turn the sandbox off");
            let hint = "watchfire settings --global defaults.default_sandbox none does, for all of yours";
            return Err(named("sandbox")(error.with("hint", hint)).into());
        }
    }
    // Only of what is changed: the mending of one may come before that of another.
    let mut next = now.clone();
    patch.apply(&mut next, &Timestamp::from_unix_millis(0));
    let changed = json_of(&next)?;
    let before = json_of(now)?;
    for (field, error) in doctor::faults(&place.root, &next).await {
        if changed.get(field) != before.get(field) {
            return Err(named(field)(error).into());
        }
    }
    Ok(())
}

/// Changes or shows the person's own settings.
async fn global(context: &Context, args: SettingsArgs) -> Result<Exit> {
    let home = context.home().await?;
    let now = home.settings().await?;
    let (Some(key), Some(value)) = (&args.key, args.value) else {
        return show(context, &json_of(&now)?, KeyFile::Settings, args.key.as_deref());
    };
    let changed = placed(&now, key, &value)?;
    let named = |error: Error| error.with("file", "settings.yaml").with("field", key);
    let (before, next) = (&now.defaults, &changed.defaults);
    if next.default_sandbox != before.default_sandbox {
        compose::sandboxes()?.parse(&next.default_sandbox).map_err(named)?;
    }
    if next.default_agent != before.default_agent && !next.default_agent.trim().is_empty() {
        compose::check_agent(&next.default_agent.trim().parse().map_err(named)?, &changed).map_err(named)?;
    }
    let (key, changes) = (key.clone(), changed != now);
    // Read anew with each try: another program may have changed something else.
    let set = move |settings: &mut Settings| {
        if let Ok(next) = placed(settings, &key, &value) {
            *settings = next;
        }
    };
    home.update_settings(set).await?;
    saved(context, changes);
    Ok(Exit::Good)
}

/// Returns the settings with one value at a path such as `defaults.auto_merge`.
fn placed(settings: &Settings, path: &str, value: &str) -> CoreResult<Settings> {
    let bad = |why: String| {
        Error::new(ErrorKind::InvalidInput, why)
            .with("file", "settings.yaml")
            .with("field", path)
            .with("value", format_args!("{value:?}"))
    };
    let mut all = json_of(settings)?;
    let mut at = &mut all;
    let (folders, name) = path.rsplit_once('.').map_or((None, path), |(folders, name)| (Some(folders), name));
    for folder in folders.into_iter().flat_map(|folders| folders.split('.')) {
        let Value::Object(fields) = at else { return Err(bad("it is inside of a value".to_owned())) };
        at = fields.entry(folder).or_insert_with(|| json!({}));
    }
    let Value::Object(fields) = at else { return Err(bad("it is inside of a value".to_owned())) };
    if value.is_empty() {
        fields.remove(name);
    } else {
        // As YAML would read it: numbers, booleans and lists are what they look like.
        fields.insert(name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)));
    }
    let read: Settings = serde_json::from_value(all).map_err(|error| bad(in_words(&error.to_string())))?;
    let known = compose::unknown_settings(settings);
    if let Some(unknown) = compose::unknown_settings(&read).into_iter().find(|key| !known.contains(key)) {
        return Err(bad(unknown.to_string()));
    }
    match Keymap::new(&read.tui.keys) {
        Err(refused) if path.starts_with("tui.") => {
            Err(bad(format!("{}: {}", refused.name, refused.because)))
        }
        _ => Ok(read),
    }
}

/// Asks for each setting, again after an answer that cannot be taken.
async fn questions(context: &Context, place: &OpenProject, now: &Project) -> Result<ProjectPatch> {
    let all = json_of(now)?;
    let mut patch = ProjectPatch::new();
    for (key, question) in OF_PROJECT {
        let before = shown(all.get(key));
        loop {
            let answer = ask::line(question, &text::line(&before))?;
            if answer == before {
                break;
            }
            match answered(context, place, now, key, &answer).await {
                Ok(()) => {
                    patch = with(patch, now, key, &answer)?;
                    break;
                }
                Err(failure) => failure.print(false),
            }
        }
    }
    Ok(patch)
}

/// Refuses an answer that could not be saved, or with which no run could start.
async fn answered(
    context: &Context,
    place: &OpenProject,
    now: &Project,
    key: &str,
    answer: &str,
) -> Result<()> {
    let patch = with(ProjectPatch::new(), now, key, answer)?;
    let mut next = now.clone();
    patch.apply(&mut next, &Timestamp::from_unix_millis(0));
    // The file is read with the same rules.
    serde_json::from_value::<Project>(json_of(&next)?).map_err(|error| {
        Error::new(ErrorKind::InvalidInput, in_words(&error.to_string()))
            .with("file", "project.yaml")
            .with("field", key)
    })?;
    would_work(context, place, now, &patch).await
}

/// Adds a change of `now` to a patch.
fn with(mut patch: ProjectPatch, now: &Project, key: &str, value: &str) -> CoreResult<ProjectPatch> {
    let bad = |expected: &str| {
        Error::new(ErrorKind::InvalidInput, format!("expected {expected}"))
            .with("file", "project.yaml")
            .with("field", key)
            .with("value", format_args!("{value:?}"))
    };
    let flag = || match value {
        "" => Ok(Patch::Clear),
        "true" | "yes" | "on" | "y" => Ok(Patch::Set(true)),
        "false" | "no" | "off" | "n" => Ok(Patch::Set(false)),
        _ => Err(bad("true or false")),
    };
    let text = || Some(value.to_owned());
    match key {
        "name" if value.trim().is_empty() => return Err(bad("a name")),
        "name" => patch.name = text(),
        "color" => patch.color = text(),
        "default_branch" => patch.default_branch = text(),
        "sandbox" => patch.sandbox = text(),
        "definition" => patch.definition = text(),
        "auto_merge" => patch.auto_merge = flag()?,
        "auto_delete_branch" => patch.auto_delete_branch = flag()?,
        "auto_start_tasks" => patch.auto_start_tasks = flag()?,
        "default_agent" => {
            patch.default_agent = if value.is_empty() { Patch::Clear } else { Patch::Set(value.parse()?) };
        }
        "setup" => patch.setup = Some(commands(value).ok_or_else(|| bad(COMMANDS))?),
        "verify" => patch.verify = Some(commands(value).ok_or_else(|| bad(COMMANDS))?),
        "on_limit" if value.is_empty() => patch.on_limit = Patch::Clear,
        "on_limit" => {
            let on_limit = serde_json::from_value(value.into()).map_err(|_| bad("ask, wait or stop"))?;
            patch.on_limit = Patch::Set(on_limit);
        }
        "merge.strategy" => {
            let mut merge = now.merge.clone();
            let word = if value.is_empty() { Value::Null } else { value.into() };
            merge.strategy = serde_json::from_value::<Option<_>>(word)
                .map_err(|_| bad("merge, squash, rebase or fast-forward-only"))?
                .unwrap_or_default();
            patch.merge = Some(merge);
        }
        "merge.batch" => {
            let mut merge = now.merge.clone();
            merge.batch = match value {
                "" => None,
                _ => Some(count(value).ok_or_else(|| bad("a number from 1 on"))?),
            };
            patch.merge = Some(merge);
        }
        "max_parallel" if value.is_empty() => patch.max_parallel = Patch::Clear,
        "max_parallel" => {
            patch.max_parallel = Patch::Set(count(value).ok_or_else(|| bad("a number from 1 on"))?);
        }
        "time_limit" if value.is_empty() => patch.time_limit = Patch::Clear,
        "time_limit" => patch.time_limit = Patch::Set(value.to_owned()),
        "stall_after" if value.is_empty() => patch.stall_after = Patch::Clear,
        "stall_after" => patch.stall_after = Patch::Set(value.to_owned()),
        "status" => {
            patch.status = Some(match value {
                "active" => ProjectStatus::Active,
                "archived" => ProjectStatus::Archived,
                _ => return Err(bad("active or archived")),
            });
        }
        _ => {
            let error = Error::new(ErrorKind::InvalidInput, "not a setting that can be changed here")
                .with("field", key);
            if let Some(place) = place_of(key).or_else(|| meant(KeyFile::Project, key)) {
                return Err(error.with("hint", place));
            }
            let names: Vec<_> = keys_of_project().collect();
            return Err(error
                .with("expected", names.join(", "))
                .with("hint", "all others are in .watchfire/project.yaml; docs/project.md lists them"));
        }
    }
    Ok(patch)
}

/// Reads a number from 1 on.
fn count(value: &str) -> Option<u32> {
    value.parse().ok().filter(|count| *count > 0)
}

/// The form of [`commands`].
const COMMANDS: &str = r#"a command, or several as ["one", "two"]"#;

/// Reads one command, or a list in JSON. Empty: none.
fn commands(value: &str) -> Option<Vec<String>> {
    match value.trim() {
        "" => Some(Vec::new()),
        list if list.starts_with('[') => serde_json::from_str(list).ok(),
        line => Some(vec![line.to_owned()]),
    }
}

/// Returns the keys of the table that stand for this one, also without a value.
fn keys(file: KeyFile, path: &str) -> impl Iterator<Item = &'static Key> {
    let names: Vec<_> = path.split('.').map(str::to_owned).collect();
    KEYS.iter().filter(move |key| {
        let parts: Vec<_> = key.path.split('.').collect();
        let is_same = |(part, name): (&&str, &String)| *part == "*" || part == name;
        key.file == file && parts.len() == names.len() && parts.iter().zip(&names).all(is_same)
    })
}

/// Says where a key belongs that is in the table, but not changed here.
fn place_of(key: &str) -> Option<String> {
    if keys(KeyFile::Project, key).next().is_some() {
        return Some("it is changed in .watchfire/project.yaml, by hand".to_owned());
    }
    keys(KeyFile::Settings, key).next()?;
    Some(format!("it is one of your own settings: watchfire settings --global {key} VALUE"))
}

/// Says which key was probably meant by an unknown one.
fn meant(file: KeyFile, key: &str) -> Option<String> {
    // As a file that has it.
    let record = key.rsplit('.').fold(json!(0), |inner, name| json!({ name: inner }));
    let mut unknown = unknown_keys(file, &record);
    if file == KeyFile::Settings {
        unknown.extend(serde_json::from_value(record).iter().flat_map(compose::unknown_settings));
    }
    unknown.iter().find(|key| key.nearest.is_some()).map(ToString::to_string)
}

/// Returns settings as they are in their file.
pub(super) fn json_of(value: &impl serde::Serialize) -> CoreResult<Value> {
    serde_json::to_value(value)
        .map_err(|e| Error::new(ErrorKind::Internal, "reading settings").with_source(e))
}

/// Shows one value, or all that are set.
fn show(context: &Context, all: &Value, file: KeyFile, key: Option<&str>) -> Result<Exit> {
    if let Some(key) = key {
        let value = key.split('.').try_fold(all, |at, name| at.get(name));
        if value.is_none() && keys(file, key).next().is_none() {
            let why = meant(file, key).unwrap_or_else(|| format!("no key of {file}"));
            return Err(Error::new(ErrorKind::InvalidInput, why).with("field", key).into());
        }
        let shown = shown(value);
        context.out.report(json!({ "key": key, "value": value }), |_| format!("{}\n", text::lines(&shown)));
        return Ok(Exit::Good);
    }
    let mut set = Vec::new();
    flatten("", all, &mut set);
    if file == KeyFile::Project {
        // Not what programs keep there, nor the definition, which is long.
        let is_setting = |name: &str| keys(file, name).any(|key| key.readers != "every program");
        set.retain(|(name, _)| is_setting(name) && name != "definition");
    }
    let value: Value = set.iter().map(|(name, value)| (name.clone(), (*value).clone())).collect();
    context.out.report(json!({ "settings": value }), |_| {
        let width = set.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, value): &(String, &Value)| {
            format!("{name:width$}  {}\n", text::line(&shown(Some(value))))
        };
        set.iter().map(line).collect()
    });
    Ok(Exit::Good)
}

/// Collects the values below `value` with their paths.
fn flatten<'a>(path: &str, value: &'a Value, into: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, into);
            }
        }
        Value::Null | Value::Object(_) => {}
        value => into.push((path.to_owned(), value)),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn saved(context: &Context, changes: bool) {
    context.out.report(json!({ "changed": changes }), |out| match changes {
        true => format!("{} saved\n", out.style.green("✓")),
        false => "nothing is changed\n".to_owned(),
    });
}
