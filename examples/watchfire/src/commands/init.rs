//! `watchfire init`: makes a folder a project, and asks the person for what the flags leave open.

mod cautions;
mod proposals;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use watchfire_core::model::{BackendName, Project, Settings, Timestamp};
use watchfire_core::store::{Home, NewProject, Patch, ProjectPatch, TaskStore as _};
use watchfire_core::workspace::Workspace as _;
use watchfire_core::{Error, ErrorKind, Result as CoreResult};
use watchfire_git::GitOptions;
use watchfire_git::init::{Earlier, Initialized, check_plain, init_plain};
use watchfired::{Repositories, earlier};

use super::backup::WARNING;
use super::program::schema;
use super::settings;
use super::task::ask;
use crate::context::{Context, workspace};
use crate::failure::{Exit, Failure, Result};
use crate::{compose, git, terminal, text};

#[derive(Args, Debug, Default)]
#[command(after_help = "\
Makes a git repository if there is none, `.watchfire/` with project.yaml, and a line in .gitignore, in a commit of
exactly that line. Nothing of yours that is staged or changed goes into the commit, and no hook runs.

With --plain the folder gets no repository. Snapshots of it, kept in the Watchfire home, take the place of commits: tasks work
on copies, and what they did comes back into the folder by a merge. Left out of snapshots, and unseen by tasks, are what
.gitignore lists, repositories inside the folder, and files with the usual names of secrets.

Examples:
  watchfire init                                         asks a few questions, on a terminal
  watchfire init --yes                                   takes the defaults
  watchfire init --plain                                 for a folder without git
  watchfire init --yes --verify 'cargo test' --max-parallel 2
  watchfire -C ../other init --yes --name other --no-auto-merge")]
pub(crate) struct InitArgs {
    /// Ask nothing
    #[arg(short, long)]
    yes: bool,
    /// The project's name; the folder's if not given
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Description of the project, for agents
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    definition: Option<String>,
    /// Keep finished work on its branch instead of merging it
    #[arg(long)]
    no_auto_merge: bool,
    /// Keep worktree and branch after a merge
    #[arg(long)]
    no_auto_delete_branch: bool,
    /// Do not start tasks by themselves when they become ready
    #[arg(long)]
    no_auto_start: bool,
    /// The branch that work is merged into; if not given, the checked-out one
    #[arg(long, value_name = "BRANCH")]
    default_branch: Option<String>,
    /// The agent of this project
    #[arg(long, value_name = "NAME")]
    agent: Option<BackendName>,
    /// A command that prepares a task's folder, such as `npm ci`; may be given several times
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    setup: Vec<String>,
    /// A command that merged work must pass; may be given several times
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    verify: Vec<String>,
    /// An ignored folder that tasks see as a copy-on-write view; may be given several times
    #[arg(long, value_name = "FOLDER")]
    share: Vec<String>,
    /// An ignored file that tasks get a copy of; may be given several times
    #[arg(long, value_name = "FILE")]
    copy: Vec<String>,
    /// Number of tasks that may run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: Option<u32>,
    /// Work with snapshots of a folder without git instead of commits, and make no repository
    #[arg(long, conflicts_with_all = ["default_branch", "no_commit", "force"])]
    plain: bool,
    /// Leave the line in .gitignore for you to commit
    #[arg(long)]
    no_commit: bool,
    /// Give a copy of a project an id of its own
    #[arg(long)]
    new_id: bool,
    /// Begin a new project where a backup has an earlier one; its tasks get other numbers
    #[arg(long)]
    fresh: bool,
    /// Make even the home folder, or `/`, a project
    #[arg(long)]
    force: bool,
}

/// Offers to make the folder a project, and returns whether it is one now.
pub(crate) async fn offer(context: &Context) -> Result<bool> {
    let root = context.directory()?;
    let asked =
        format!("{} is no Watchfire project yet. Make it one?", text::line(&root.display().to_string()));
    if !ask::yes(&asked, true)? {
        return Ok(false);
    }
    run(context, InitArgs::default()).await?;
    Ok(true)
}

pub(crate) async fn run(context: &Context, args: InitArgs) -> Result<Exit> {
    // Before anything is asked or made.
    git::require()?;
    let root = context.directory()?;
    let home = context.home().await?;
    let settings = home.settings().await?;
    home.check_root(&root, args.force).map_err(|error| match error.detail("hint") {
        None => error.with("hint", "make the project in a folder of its own, or say --force"),
        Some(_) => error,
    })?;
    args.agent.iter().try_for_each(|agent| compose::check_agent(agent, &settings))?;
    let exists = root.join(".watchfire/project.yaml").is_file();
    let plain = args.plain || is_plain(&home, &root).await?;
    if args.plain {
        // The folder of a project that is still to be made is not known. It lies in the home, which is what counts.
        let store = home.snapshots_dir(&root).await?.unwrap_or_else(|| home.path().join("state/snapshots"));
        check_plain(&root, store)?;
    }
    let is_new = !exists && !plain;
    let earlier = if is_new { earlier(&home, &root, args.fresh).await? } else { Earlier::default() };
    // The person is asked before anything is made, because Ctrl+C may be the answer.
    let asks = !exists && !args.yes && !context.out.json && terminal::is_interactive();
    let seen = if exists { Seen::default() } else { Seen::of(&root).await };
    let setup = seen.setup;
    let new = match asks {
        true => questions(&args, plain, &root, seen, &settings)?,
        false => from_flags(&args, seen.share),
    };

    let (folder, commit) = (root.clone(), !args.no_commit);
    // It reads and writes files, which blocks.
    let prepare = move || if plain { Ok(Initialized::default()) } else { prepare(&folder, commit) };
    let prepared = tokio::task::spawn_blocking(prepare).await.map_err(cut_off)??;
    let mut changed = Vec::new();
    let project = if exists {
        let project = match args.new_id {
            true => home.renew_id(&root).await?,
            false => home.import_project(&root).await?,
        };
        let patch = asked(&args);
        let mut next = project.clone();
        patch.apply(&mut next, &Timestamp::from_unix_millis(0));
        changed = changes(&project, &next)?;
        // Where no flag changes anything the project stays as it is: no write, no new revision.
        match changed.is_empty() {
            true => project,
            false => home.open_store(&root, None).await?.update_project(patch, None, None).await?.value,
        }
    } else {
        let project = home.init_project(&root, new.with_after(earlier.highest)).await?;
        match args.max_parallel {
            Some(parallel) => {
                let store = home.open_store(&root, None).await?;
                store.update_project(ProjectPatch::new().with_max_parallel(parallel), None, None).await?.value
            }
            None => project,
        }
    };
    schema::write(&root)?;
    let snapshots = match (args.plain, home.snapshots_dir(&root).await?) {
        (true, Some(store)) => {
            let (folder, to) = (root.clone(), store.clone());
            let make = move || init_plain(folder, to, &GitOptions::default());
            let nested = tokio::task::spawn_blocking(make).await.map_err(cut_off)??;
            Some((store, nested.iter().map(ToString::to_string).collect()))
        }
        _ => None,
    };
    // A backup that fails is no reason to fail: the project exists.
    let saved = match workspace(&root, GitOptions::default()).await {
        Ok(workspace) => workspace.back_up().await.is_ok(),
        Err(_) => false,
    };
    // The person who gave a setup command needs no proposal.
    let proposed = setup.filter(|_| project.setup.is_empty());
    let cautions = cautions::of(&root, &project, &settings).await;
    report(
        context,
        &root,
        &project,
        &prepared,
        Found { existed: exists, saved: saved && !plain, proposed, changed, cautions, snapshots },
    );
    Ok(Exit::Good)
}

/// The settings that have a flag.
const WITH_FLAG: [&str; 12] = [
    "name",
    "definition",
    "default_branch",
    "default_agent",
    "setup",
    "verify",
    "share",
    "copy",
    "max_parallel",
    "auto_merge",
    "auto_delete_branch",
    "auto_start_tasks",
];

/// Returns the names of the settings that differ.
fn changes(before: &Project, after: &Project) -> CoreResult<Vec<&'static str>> {
    let (before, after) = (settings::json_of(before)?, settings::json_of(after)?);
    Ok(WITH_FLAG.into_iter().filter(|name| before.get(name) != after.get(name)).collect())
}

/// Returns the changes that the flags ask for in an existing project.
fn asked(args: &InitArgs) -> ProjectPatch {
    let mut patch = ProjectPatch::new();
    patch.name.clone_from(&args.name);
    patch.definition.clone_from(&args.definition);
    patch.default_branch.clone_from(&args.default_branch);
    let named = |list: &Vec<String>| Some(list.clone()).filter(|list| !list.is_empty());
    patch.setup = named(&args.setup);
    patch.verify = named(&args.verify);
    patch.share = named(&args.share);
    patch.copy = named(&args.copy);
    let off = |flag: bool| if flag { Patch::Set(false) } else { Patch::Keep };
    patch.auto_merge = off(args.no_auto_merge);
    patch.auto_delete_branch = off(args.no_auto_delete_branch);
    patch.auto_start_tasks = off(args.no_auto_start);
    patch.default_agent = args.agent.clone().map_or(Patch::Keep, Patch::Set);
    patch.max_parallel = args.max_parallel.map_or(Patch::Keep, Patch::Set);
    patch
}

/// Returns true if the project at `root` is a folder without git already.
async fn is_plain(home: &Home, root: &Path) -> Result<bool> {
    match Repositories::own(home, root, GitOptions::default()).await {
        Ok(own) => Ok(own.has_snapshots()),
        // A folder that was a repository, or whose snapshots are elsewhere, gets no repository by mistake.
        Err(error) if matches!(error.kind(), ErrorKind::WorkspaceBroken | ErrorKind::Conflict) => {
            Err(error.into())
        }
        // What else is wrong is found where the repository is prepared.
        Err(_) => Ok(false),
    }
}

fn cut_off(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "preparing the folder").with_source(error)
}

/// Prepares the repository and its `.gitignore`.
fn prepare(root: &Path, commit: bool) -> CoreResult<Initialized> {
    watchfire_git::init::init(root, commit, &GitOptions::default())
}

/// Folders and files of the checkout that tasks usually need and that git ignores.
#[derive(Default)]
struct Seen {
    share: Vec<String>,
    copy: Vec<String>,
    /// Command that installs dependencies, if no folder of the checkout has them.
    setup: Option<&'static str>,
}

impl Seen {
    async fn of(root: &Path) -> Self {
        let plain = |name: &&str, folder: bool| {
            let found = root.join(name).symlink_metadata();
            found.is_ok_and(|found| if folder { found.is_dir() } else { found.is_file() })
        };
        let Ok(workspace) = workspace(root, GitOptions::default()).await else { return Self::default() };
        let paths = FOLDERS.iter().filter(|name| plain(name, true));
        let paths = paths.chain(FILES.iter().filter(|name| plain(name, false)));
        // Folders that git tracks are in every worktree anyway.
        let ignored = workspace.ignored(paths.map(std::path::PathBuf::from).collect()).await;
        let ignored = ignored.unwrap_or_default();
        let of = |names: &[&str]| -> Vec<String> {
            let names = names.iter().filter(|name| ignored.iter().any(|path| path.as_os_str() == **name));
            names.map(|name| (*name).to_owned()).collect()
        };
        let (share, copy) = (of(FOLDERS), of(FILES));
        let needed = INSTALLS.iter().filter(|(file, ..)| plain(file, false));
        // A shared folder already has the dependencies.
        let mut needed = needed.filter(|(_, folder, _)| share.iter().all(|shared| shared != folder));
        Self { setup: needed.next().map(|(.., command)| *command), share, copy }
    }
}

/// Folders of dependencies and results that a fresh worktree lacks.
const FOLDERS: &[&str] = &["node_modules", "target", "vendor"];
/// Lock files, the folder of the dependencies that they list, and the command that fills that folder.
const INSTALLS: &[(&str, &str, &str)] = &[
    ("package-lock.json", "node_modules", "npm ci"),
    ("pnpm-lock.yaml", "node_modules", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "node_modules", "yarn install --frozen-lockfile"),
    ("bun.lock", "node_modules", "bun install --frozen-lockfile"),
    ("uv.lock", ".venv", "uv sync --frozen"),
    ("poetry.lock", ".venv", "poetry install"),
    ("composer.lock", "vendor", "composer install"),
];
/// Files that tests read and that are not committed.
const FILES: &[&str] = &[".env.test"];

fn from_flags(args: &InitArgs, share: Vec<String>) -> NewProject {
    // There is no flag to turn something on: that is the default.
    let off = |flag: bool| flag.then_some(false);
    let mut new = NewProject::new()
        .with_comment(schema::comment())
        .with_name(args.name.clone())
        .with_definition(args.definition.clone().unwrap_or_default())
        .with_default_branch(args.default_branch.clone().unwrap_or_default())
        .with_setup(args.setup.clone())
        .with_verify(args.verify.clone())
        .with_share(if args.share.is_empty() { share } else { args.share.clone() })
        // Only named files are copied: unlike folders of dependencies they may hold secrets.
        .with_copy(args.copy.clone());
    new.auto_merge = off(args.no_auto_merge);
    new.auto_delete_branch = off(args.no_auto_delete_branch);
    new.auto_start_tasks = off(args.no_auto_start);
    new.default_agent = args.agent.clone();
    new
}

/// Asks for everything that the flags leave open.
fn questions(
    args: &InitArgs,
    plain: bool,
    root: &Path,
    seen: Seen,
    settings: &Settings,
) -> Result<NewProject> {
    // Nothing is shared without an answer.
    let mut new = from_flags(args, Vec::new());
    // Made safe, because the question shows it.
    let folder = root.file_name().map(|name| text::line(&name.to_string_lossy())).unwrap_or_default();
    if new.name.is_none() {
        new.name = Some(ask::line("Project name", &folder)?);
    }
    if args.definition.is_none() {
        new.definition = ask::line("Project definition (optional)", "")?;
    }
    if args.agent.is_none() {
        new.default_agent = ask_agent(settings)?;
    }
    if args.verify.is_empty() {
        let usual = proposals::verify(root);
        let none = if usual.is_empty() { "" } else { ", or - for none" };
        let command = ask::line(&format!("Command that merged work must pass (optional{none})"), usual)?;
        new.verify =
            Some(command).filter(|command| !["", "-"].contains(&command.as_str())).into_iter().collect();
    }
    let ask = |question, given: Option<bool>| {
        given.map_or_else(|| ask::yes(question, true).map(Some), |given| Ok(Some(given)))
    };
    new.auto_merge = ask("Auto-merge after task completion?", new.auto_merge)?;
    new.auto_delete_branch = ask("Auto-delete worktrees after merge?", new.auto_delete_branch)?;
    new.auto_start_tasks = ask("Auto-start agent when task set to ready?", new.auto_start_tasks)?;
    if args.default_branch.is_none() && !plain {
        new.default_branch = ask::line(
            "Default branch (empty: the one that is checked out)",
            &settings.defaults.default_branch,
        )?;
    }
    if let Some(command) = seen.setup.filter(|_| args.setup.is_empty())
        && ask::yes(&format!("Run `{command}` in each task's folder before its agent?"), true)?
    {
        new.setup = vec![command.to_owned()];
    }
    for (given, seen, to, question, usual) in [
        (&args.share, seen.share, &mut new.share, "Show tasks a copy-on-write view of", true),
        // Off by default: the file may hold secrets. The settings must allow it too.
        (
            &args.copy,
            seen.copy,
            &mut new.copy,
            "Give each task a copy (`sandbox.read` in settings.yaml must allow it too) of",
            false,
        ),
    ] {
        for name in seen.into_iter().filter(|_| given.is_empty()) {
            if ask::yes(&format!("{question} {name}?"), usual)? {
                to.push(name);
            }
        }
    }
    let _ = std::io::stdout().flush();
    Ok(new)
}

/// Asks for the agent, and shows those that are installed. `None` leaves the choice to the settings.
fn ask_agent(settings: &Settings) -> Result<Option<BackendName>> {
    let own = settings.defaults.default_agent.trim();
    let found = proposals::agents(settings);
    let usual = match own {
        "" => found.first().map(|(name, _)| name.clone()).unwrap_or_default(),
        own => own.to_owned(),
    };
    let listed: Vec<_> =
        found.iter().map(|(name, version)| format!("{name} {version}").trim().to_owned()).collect();
    let here = if listed.is_empty() { "none is installed".to_owned() } else { listed.join(", ") };
    loop {
        let answer = ask::line(&format!("Agent (here: {})", text::line(&here)), &usual)?;
        if answer.is_empty() || answer == own {
            return Ok(None);
        }
        let name = answer.parse::<BackendName>();
        match name.and_then(|name| compose::check_agent(&name, settings).map(|()| name)) {
            Ok(name) => return Ok(Some(name)),
            Err(error) => Failure::from(error).print(false),
        }
    }
}

/// Findings that the person should know.
struct Found {
    /// Names of the settings that were changed in a project that existed.
    changed: Vec<&'static str>,
    cautions: Vec<String>,
    existed: bool,
    saved: bool,
    /// A setup command that the project may need.
    proposed: Option<&'static str>,
    /// The folder of the snapshots that were begun, and the repositories that they leave out.
    snapshots: Option<(PathBuf, Vec<String>)>,
}

fn report(context: &Context, root: &Path, project: &Project, git: &Initialized, found: Found) {
    let Found { existed, saved, proposed, changed, cautions, snapshots } = found;
    let value = json!({
        "project": { "id": project.project_id, "name": project.name, "path": root.display().to_string() },
        "existed": existed,
        "repository_created": git.created,
        "snapshots": snapshots.as_ref().map(|(store, _)| store),
        "left_out": snapshots.as_ref().map(|(_, nested)| nested),
        "gitignore_changed": git.ignored,
        "commit": git.commit.as_ref().map(|commit| commit.as_str()),
        "not_committed_because": git.uncommitted,
        "share": project.share,
        "copy": project.copy,
        "setup": project.setup,
        "setup_proposed": proposed,
        "backed_up": saved,
        "changed": changed,
        "cautions": cautions,
    });
    context.out.report(value, |out| {
        let mut lines = Vec::new();
        let mut did = |what: String| lines.push(format!("  {} {what}", out.style.green("✓")));
        if git.created {
            did("made a git repository".to_owned());
        }
        if let Some((store, _)) = &snapshots {
            did(format!("took a snapshot of the folder, in {}", text::line(&store.display().to_string())));
        }
        if existed {
            did("found .watchfire/ and registered the project".to_owned());
            match changed.is_empty() {
                true => did("left its settings as they are".to_owned()),
                false => did(format!("changed {}", changed.join(", "))),
            }
        } else {
            did("made .watchfire/ and registered the project".to_owned());
        }
        if !existed && !project.share.is_empty() {
            did(format!("tasks see {} copy-on-write", text::line(&project.share.join(", "))));
        }
        match (&git.commit, git.ignored) {
            (Some(commit), _) => {
                did(format!("added .watchfire/ to .gitignore, in commit {}", commit.short()))
            }
            (None, true) => did("added .watchfire/ to .gitignore".to_owned()),
            (None, false) => {}
        }
        if let Some(reason) = &git.uncommitted {
            lines.push(format!(
                "  {} .gitignore is yours to commit: {}",
                out.style.yellow("!"),
                text::line(reason)
            ));
        }
        if let Some(command) = proposed {
            let what = format!(
                "a task's folder begins without its dependencies: watchfire init --setup '{command}'"
            );
            lines.push(format!("  {} {what}", out.style.dim("·")));
        }
        for nested in snapshots.iter().flat_map(|(_, nested)| nested) {
            let what =
                format!("{}/ is a git repository of its own, which tasks do not see", text::line(nested));
            lines.push(format!("  {} {what}", out.style.yellow("!")));
        }
        for caution in &cautions {
            lines.push(format!("  {} {}", out.style.yellow("!"), text::line(caution)));
        }
        if saved {
            lines.push(format!("  {} {WARNING}", out.style.dim("·")));
        }
        let name = out.style.bold(&text::line(&project.name));
        let place = text::line(&root.display().to_string());
        let next = out.style.dim("next: watchfire task add, then watchfire run all");
        format!("project {name} at {place}\n{}\n{next}\n", lines.join("\n"))
    });
}
