//! Completion in shells: of commands and options, and of the tasks and agents that there are.
//!
//! The shell runs this program with the variable `WATCHFIRE_COMPLETE` at each Tab. Nothing is made or changed then.

mod nushell;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_complete::env::{Bash, Elvish, Fish, Powershell, Shells, Zsh};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate};
use watchfire_core::backend::Backends;
use watchfire_core::model::{KEYS, KeyFile, KeyKind, PromptSection, Settings, TaskNumber};
use watchfire_core::{Error, ErrorKind, Result};

use crate::args::Cli;
use crate::commands::settings;
use crate::compose;
use crate::context::{find_project, home_path, open_home};
use crate::git::git;

/// The variable by which a shell asks.
const ASKED: &str = "WATCHFIRE_COMPLETE";
/// Name of the program.
const NAME: &str = "watchfire";

const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &nushell::Nushell, &Powershell, &Zsh]);

/// Completes at the first Tab, where the file is loaded by its name.
const ZSH: &[u8] = b"\n[[ ${funcstack[1]} = _watchfire ]] && _clap_dynamic_completer_watchfire \"$@\"\n";

/// Answers a shell that asks for completions, and ends the program then.
pub(crate) fn run_if_asked() {
    CompleteEnv::with_factory(|| completing(Cli::command())).var(ASKED).shells(SHELLS).complete();
}

/// Returns the script that a shell loads to complete our commands.
pub(crate) fn script(shell: &str) -> Result<Vec<u8>> {
    let completer = SHELLS.completer(shell).ok_or_else(|| {
        let known = SHELLS.names().collect::<Vec<_>>().join(", ");
        Error::new(ErrorKind::InvalidInput, "no completions for this shell")
            .with("shell", shell)
            .with("known", known)
    })?;
    let mut script = Vec::new();
    completer
        .write_registration(ASKED, NAME, NAME, NAME, &mut script)
        .map_err(|e| Error::io("writing completions", e))?;
    if shell == "zsh" {
        // zsh runs the file at the first Tab, which only registers the function: that Tab would complete nothing.
        script.extend_from_slice(ZSH);
    }
    Ok(script)
}

/// Completes names of commands, and the values of arguments, which it knows by the names that help shows for them.
fn completing(command: Command) -> Command {
    let is_of_trash = ["restore", "purge"].contains(&command.get_name());
    without_aliases(command)
        .mut_args(|arg| {
            let names = arg.get_value_names().unwrap_or_default();
            let parts: Vec<_> = names.first().into_iter().flat_map(|name| name.split(['|', ','])).collect();
            let is_task = parts.iter().any(|part| ["N", "TARGET"].contains(part));
            match arg.get_id().as_str() {
                "agent" => arg.add(ArgValueCandidates::new(agents)),
                "sandbox" => arg.add(ArgValueCandidates::new(sandboxes)),
                "shell" => arg.add(ArgValueCandidates::new(|| words(SHELLS.names()))),
                "section" => arg.add(ArgValueCandidates::new(|| {
                    words(PromptSection::ALL.iter().map(|section| section.as_str()))
                })),
                _ if is_task && is_of_trash => arg.add(ArgValueCandidates::new(|| tasks(true))),
                _ if is_task && parts.contains(&"all") => arg.add(ArgValueCandidates::new(|| {
                    let all = CompletionCandidate::new("all").help(Some("All ready tasks".into()));
                    tasks(false).into_iter().chain([all]).collect()
                })),
                _ if is_task => arg.add(ArgValueCandidates::new(|| tasks(false))),
                "label" | "labels" => arg.add(ArgValueCandidates::new(labels)),
                "status" => arg.add(ArgValueCandidates::new(|| words(["draft", "ready", "done"]))),
                "key" => arg.add(ArgValueCandidates::new(keys)),
                "value" => arg.add(ArgValueCandidates::new(values)),
                // A rescued branch gets a name that there is not yet.
                id if id != "branch" && parts == ["BRANCH"] => arg.add(ArgValueCandidates::new(branches)),
                _ => arg,
            }
        })
        .mut_subcommands(completing)
}

/// Hides the aliases of a command: of a command and its aliases only the first in the alphabet would be offered.
fn without_aliases(command: Command) -> Command {
    // A program that answers a shell ends right after, and clap takes no names that end before.
    let aliases: Vec<&'static str> =
        command.get_all_aliases().map(|alias| &*alias.to_owned().leak()).collect();
    // `None` removes all of them.
    command.alias(None).aliases(aliases)
}

fn words(words: impl IntoIterator<Item = &'static str>) -> Vec<CompletionCandidate> {
    words.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the folder in which the command line that is completed would work.
fn folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let named = match text.strip_prefix("--directory=").or_else(|| text.strip_prefix("-C")) {
            _ if text == "-C" || text == "--directory" => words.next(),
            named => named.map(Into::into),
        };
        if let Some(named) = named {
            return Some(here.join(named));
        }
    }
    Some(here)
}

/// Returns the branches of the repository.
fn branches() -> Vec<CompletionCandidate> {
    let Some(folder) = folder() else { return Vec::new() };
    let listed = git(&folder, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    // Nothing is merged into the branches of agents.
    let own = |branch: &&str| !branch.starts_with("watchfire/");
    listed.unwrap_or_default().lines().filter(own).map(CompletionCandidate::new).collect()
}

/// Returns the file whose settings are meant.
fn file() -> KeyFile {
    match std::env::args_os().any(|word| word == "--global") {
        true => KeyFile::Settings,
        false => KeyFile::Project,
    }
}

/// Returns the values of the setting that the command line names, where they can be listed.
fn values() -> Vec<CompletionCandidate> {
    let named = |word: std::ffi::OsString| KEYS.iter().find(|key| key.file == file() && word == key.path);
    let Some(key) = std::env::args_os().find_map(named) else { return Vec::new() };
    match (key.path.trim_start_matches("defaults."), key.kind) {
        ("default_agent", _) => agents(),
        ("default_branch", _) => branches(),
        ("default_sandbox" | "sandbox", _) => sandboxes(),
        (_, KeyKind::Flag) => words(["true", "false"]),
        (_, KeyKind::OneOf(those)) => words(those.iter().copied()),
        _ => Vec::new(),
    }
}

/// Returns the settings that `watchfire settings` changes.
fn keys() -> Vec<CompletionCandidate> {
    if file() == KeyFile::Settings {
        let own = KEYS.iter().filter(|key| key.file == KeyFile::Settings && key.kind != KeyKind::Section);
        // `*` stands for a name of the person's choice.
        let named = own.filter(|key| !key.path.contains('*'));
        return named.map(|key| CompletionCandidate::new(key.path).help(Some(key.meaning.into()))).collect();
    }
    settings::keys_of_project().map(CompletionCandidate::new).collect()
}

/// Returns the labels of the tasks of the project.
fn labels() -> Vec<CompletionCandidate> {
    let all: BTreeSet<_> = task_files().iter().filter_map(|path| read_labels(path)).flatten().collect();
    all.into_iter().map(CompletionCandidate::new).collect()
}

fn read_labels(path: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let (_, below) = text.split_once("\nlabels:")?;
    let first = below.lines().next()?.trim();
    let words: Vec<_> = match first.strip_prefix('[') {
        Some(list) => list.trim_end_matches(']').split(',').collect(),
        None => below.lines().skip(1).map_while(|line| line.trim().strip_prefix("- ")).collect(),
    };
    Some(words.into_iter().map(|word| crate::text::line(word.trim().trim_matches(['"', '\'']))).collect())
}

/// Returns the files of the tasks of the project.
fn task_files() -> Vec<PathBuf> {
    let Some(root) = folder().and_then(|folder| find_project(&folder).ok()) else { return Vec::new() };
    let entries = fs::read_dir(root.join(".watchfire/tasks")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the tasks of the project, or those in its trash. Reads single lines alone: a shell waits for it.
fn tasks(deleted: bool) -> Vec<CompletionCandidate> {
    let mut tasks: Vec<_> = task_files().iter().filter_map(|path| task(path, deleted)).collect();
    tasks.sort_by_key(|(number, _)| *number);
    let candidate = |(number, title): (TaskNumber, String)| {
        CompletionCandidate::new(number.value().to_string()).help(Some(title.into()))
    };
    tasks.into_iter().map(candidate).collect()
}

fn task(path: &Path, deleted: bool) -> Option<(TaskNumber, String)> {
    let number = path.file_name()?.to_str()?.strip_suffix(".yaml")?.parse().ok()?;
    let text = fs::read_to_string(path).ok()?;
    let value = |key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        found.trim().trim_matches(['"', '\''])
    };
    let is_deleted = !["", "null", "~"].contains(&value("deleted_at:"));
    (is_deleted == deleted).then(|| (number, crate::text::line(value("title:"))))
}

/// Returns the sandboxes of this build, and what stands for one.
fn sandboxes() -> Vec<CompletionCandidate> {
    let sandboxes = compose::sandboxes();
    let names = sandboxes.iter().flat_map(|all| all.iter()).map(|sandbox| sandbox.name().to_owned());
    let all: BTreeSet<_> = names.chain(["auto", "none"].map(str::to_owned)).collect();
    all.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the built-in agents and the ones of the settings.
fn agents() -> Vec<CompletionCandidate> {
    let settings = configured().unwrap_or_default();
    let agents = Backends::linked().and_then(|linked| linked.with_configured(&settings));
    // Bad settings are reported by the commands, not here.
    let agents = agents.or_else(|_| Backends::linked()).unwrap_or_default();
    agents.iter().map(|agent| CompletionCandidate::new(agent.name())).collect()
}

/// Returns the person's settings. A home that was never used is not made one.
fn configured() -> Option<Settings> {
    let home = home_path().ok().filter(|home| home.join("installation_id").is_file())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { open_home(home).await.ok()?.settings().await.ok() })
}
