//! The access rights and the variables of one session.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::backend::{Grant, Launch};
use crate::endpoint::client::OUTBOX;
use crate::files::make_private;
use crate::model::{Extra, KEYS, Key, KeyFile, Mode, Phase, Project, SandboxSettings, Settings};
use crate::orchestrator::shared::ProjectShared;
use crate::sandbox::{
    Bind, Control, ControlState, Enforcement, EnvironmentPolicy, PolicyInputs, Rule, RuleAccess,
    SandboxChoice, SandboxPolicy, SandboxSet,
};
use crate::schedule::{RunOptions, resolve};
use crate::session::SessionDirectory;
use crate::workspace::{Isolation, OpenRequest, OpenedPart};
use crate::{Error, ErrorKind, Result};

/// Extent of a session's write access to the project.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scope {
    /// Its workspace, for agents that work on a task.
    Workspace,
    /// The root, because a chat is the person's own tool, but not the parts of git that make it run something or look
    /// elsewhere.
    Root,
    /// Nothing at all, not even caches, for agents that only read, think, and report in the session's folder.
    Nothing,
}

impl Scope {
    pub(crate) fn of(mode: Mode, phase: Option<Phase>) -> Self {
        match (mode, phase) {
            (Mode::Chat, _) => Self::Root,
            (Mode::GenerateDefinition | Mode::GenerateTasks, _)
            | (Mode::Wildfire, Some(Phase::Refine | Phase::Generate)) => Self::Nothing,
            (Mode::Task | Mode::StartAll | Mode::Wildfire, _) => Self::Workspace,
        }
    }
}

/// Parts of a repository in the root that a chat cannot change. Through each, git of the person would run or believe
/// something.
const WIRING: [&str; 8] = [
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info",
    ".git/objects/info",
    ".git/modules",
    ".git/worktrees",
];

/// Parts from which a session's policy is composed.
pub(crate) struct PolicyParts<'a> {
    pub(crate) sandboxes: &'a SandboxSet,
    pub(crate) enforcement: Enforcement,
    pub(crate) scope: Scope,
    /// Our environment: the location of the home folder and of parts that lie elsewhere.
    pub(crate) environment: &'a BTreeMap<OsString, OsString>,
    pub(crate) watchfire_home: &'a Path,
    pub(crate) project_root: &'a Path,
    /// The person's settings, tightened by the project.
    pub(crate) settings: &'a SandboxSettings,
    pub(crate) project: &'a Project,
    /// `state/<project_id>`.
    pub(crate) state_dir: &'a Path,
    /// The folder with the repository's lock, claims and fences, which no agent may see.
    pub(crate) shared_dir: Option<&'a Path>,
    /// `None` for commands of the project that are no sessions.
    pub(crate) directory: Option<&'a SessionDirectory>,
    /// The agent's working directory. `None` without an agent.
    pub(crate) cwd: Option<&'a Path>,
    /// The agent's folders in other repositories.
    pub(crate) others: &'a [OpenedPart],
    pub(crate) workspace_rules: &'a [Rule],
    pub(crate) workspace_binds: &'a [Bind],
    pub(crate) grants: &'a [Grant],
    /// Our own program, which runs as a hook inside the sandbox.
    pub(crate) helper: &'a Path,
}

impl PolicyParts<'_> {
    /// Composes the policy: the base, then the rules of the mode, the workspace, the session and the backend.
    pub(crate) fn compose(&self) -> Result<SandboxPolicy> {
        check_keys(self.settings, self.project)?;
        let mut inputs = inputs(self.environment, self.watchfire_home, self.project_root, self.settings);
        inputs.project_deny.clone_from(&self.project.sandbox_rules.deny);
        let caches = self.state_dir.join("caches");
        inputs.own_caches = Some(caches.clone());
        let mut base = self.sandboxes.base_policy(&inputs)?.build()?;
        // After the base is built, since the rules that it writes by default are among those to weaken.
        if self.scope == Scope::Nothing {
            let rules = base.rules.iter_mut().map(|rule| &mut rule.access);
            let all = rules.chain(base.binds.iter_mut().map(|bind| &mut bind.access));
            all.for_each(|access| *access = (*access).min(RuleAccess::Read));
        }
        let kept = base.kept.take().filter(|_| self.scope != Scope::Nothing);
        let mut policy = base
            .to_builder()
            .keep(kept)
            .enforcement(self.enforcement)
            .deny(self.project_root.join(".watchfire"), "the project's task files are not the agent's")
            .read(self.helper, "our own program")
            .rules(self.workspace_rules.iter().cloned());
        // A task has a worktree of its own. The checkout may hold ignored files with secrets.
        if self.scope == Scope::Workspace && self.cwd.is_none_or(|cwd| cwd != self.project_root) {
            policy = policy.deny(self.project_root, "the main checkout is not the task's");
        }
        if let Some(shared) = self.shared_dir {
            policy = policy.deny(shared, "what orchestrators share is not the agent's");
        }
        if self.scope == Scope::Root {
            policy = policy.write(self.project_root, "chat: the project root");
            // A rule for a path below the root outranks that of the root, so these stay read-only. Private copies go
            // with their session, whatever it writes there.
            let wiring = WIRING.iter().filter(|_| self.workspace_binds.is_empty());
            policy = wiring
                .map(|name| self.project_root.join(name))
                .fold(policy, |policy, path| policy.read(path, "chat: git's own wiring"));
            let held = held_in_a_chat(self.project_root, self.project);
            policy = held.fold(policy, |policy, path| policy.read(path, "project.yaml: protected"));
        }
        if let Some(directory) = self.directory {
            policy = policy
                .write(directory.files(), "the session's own files")
                .read(directory.files().join("inbox"), "messages to the agent")
                .read(directory.bin(), "the agent's commands")
                .write(directory.home(), "the session's home")
                .write(directory.tmp(), "the session's temporary files");
            if let Some(cwd) = self.cwd {
                let shown = self.project_root.join(".watchfire");
                policy = policy
                    .bind(Bind::new(directory.files(), &shown, RuleAccess::Write, "the session's own files"))
                    .read(shown.join("inbox"), "messages to the agent");
                // The bind above hides everything below `.watchfire`, including the worktree.
                let folders = self.others.iter().map(|part| part.cwd.as_path());
                for folder in [cwd].into_iter().chain(folders).filter(|folder| folder.starts_with(&shown)) {
                    policy =
                        policy.bind(Bind::new(folder, folder, RuleAccess::Write, "where the agent works"));
                }
            }
        }
        for bind in self.workspace_binds {
            policy = policy.bind(bind.clone());
        }
        for grant in self.grants {
            let rule = match grant {
                Grant::Read(path) => Rule::new(path, RuleAccess::Read, "backend"),
                Grant::Write(path) => Rule::new(path, RuleAccess::Write, "backend"),
                Grant::Credential(path) => Rule::new(path, RuleAccess::Write, "backend: its own credentials"),
            };
            policy = policy.rule(rule);
        }
        let policy = policy.build()?;
        // A bind needs a source of the kind of its target: a folder for a folder, a file for a file.
        let mut own = policy.binds.iter().filter(|bind| bind.source.starts_with(&caches));
        own.try_for_each(|bind| make_like(&bind.source, &bind.target))?;
        Ok(policy)
    }
}

/// Returns the protected paths that a chat, which works in the root, cannot change: those that are there. A place that is
/// closed before it exists would be cleared by the sandbox, and the person may be the one who fills it.
fn held_in_a_chat(root: &Path, project: &Project) -> impl Iterator<Item = PathBuf> {
    let paths = project.protected.iter().map(|entry| root.join(entry.trim_end_matches('/')));
    paths.filter(|path| path.symlink_metadata().is_ok())
}

/// Returns the entries of `protected` that no rule can hold in a chat: patterns, and paths that do not exist.
pub(crate) fn open_in_a_chat(root: &Path, project: &Project) -> Vec<String> {
    let held: Vec<_> = held_in_a_chat(root, project).collect();
    let is_open = |entry: &&String| !held.contains(&root.join(entry.trim_end_matches('/')));
    project.protected.iter().filter(is_open).cloned().collect()
}

/// Rejects unknown keys of the person's sandbox and the project's.
fn check_keys(settings: &SandboxSettings, project: &Project) -> Result<()> {
    let project = &project.sandbox_rules;
    refuse_unknown(KeyFile::Settings, "sandbox", &settings.extra)?;
    refuse_unknown(KeyFile::Settings, "sandbox.limits", &settings.limits.extra)?;
    refuse_unknown(KeyFile::Project, "sandbox_rules", &project.extra)?;
    refuse_unknown(KeyFile::Project, "sandbox_rules.limits", &project.limits.extra)
}

/// Rejects unknown keys: a typo such as `dney` would otherwise deny nothing.
fn refuse_unknown(file: KeyFile, section: &str, extra: &Extra) -> Result<()> {
    let Some(field) = extra.keys().next() else { return Ok(()) };
    let error = Error::new(ErrorKind::InvalidInput, "an unknown key of the sandbox's settings");
    let of_section = |key: &&'static Key| key.path.rsplit_once('.').is_some_and(|(at, _)| at == section);
    let known = KEYS.iter().filter(|key| key.file == file).filter(of_section);
    let known: Vec<_> = known.filter_map(|key| key.path.rsplit('.').next()).collect();
    let section = format!("{file}: {section}");
    Err(error.with("section", section).with("field", field).with("known", known.join(", ")))
}

/// Creates an empty folder or file, of the kind of `like`. A missing `like` counts as a folder.
fn make_like(path: &Path, like: &Path) -> Result<()> {
    if !like.is_file() {
        return make_private(path);
    }
    path.parent().map_or(Ok(()), make_private)?;
    let made = std::fs::File::options().append(true).create(true).open(path).map(|_| ());
    made.map_err(|error| Error::io("making a cache of the project's own", error).with_path(path))
}

fn inputs(
    environment: &BTreeMap<OsString, OsString>,
    watchfire_home: &Path,
    project_root: &Path,
    settings: &SandboxSettings,
) -> PolicyInputs {
    let mut inputs = PolicyInputs::new();
    inputs.home = environment.get(OsStr::new("HOME")).map(PathBuf::from);
    inputs.environment.clone_from(environment);
    inputs.watchfire_home = Some(watchfire_home.to_path_buf());
    inputs.project_root = Some(project_root.to_path_buf());
    inputs.settings = settings.clone();
    inputs
}

/// Returns the policy of the person and the project alone, without the rules of any session. Blocks.
pub(crate) fn own_policy(
    shared: &ProjectShared,
    project: &Project,
    settings: &Settings,
) -> Result<SandboxPolicy> {
    check_keys(&settings.sandbox, project)?;
    let inner = &shared.inner;
    let mut inputs = inputs(&inner.environment, &inner.home, &shared.root, &settings.sandbox);
    inputs.project_deny.clone_from(&project.sandbox_rules.deny);
    inner.sandboxes.base_policy(&inputs)?.build()
}

/// Adds to a request for a workspace what the session's sandbox can do for its git. Blocks.
pub(crate) fn isolate(
    request: OpenRequest,
    shared: &ProjectShared,
    project: &Project,
    settings: &Settings,
    options: &RunOptions,
) -> Result<OpenRequest> {
    let isolation = isolation(shared, project, settings, options)?;
    let request = request.with_isolation(isolation);
    if isolation != Isolation::Bound {
        return Ok(request);
    }
    let hidden = own_policy(shared, project, settings)?.patterns;
    Ok(request.with_hidden(hidden))
}

/// Returns the isolation that the session's sandbox makes possible. Blocks.
fn isolation(
    shared: &ProjectShared,
    project: &Project,
    settings: &Settings,
    options: &RunOptions,
) -> Result<Isolation> {
    let inner = &shared.inner;
    let choice = resolve::sandbox(options.sandbox.clone(), project, settings, &inner.sandboxes)?.value;
    if choice == SandboxChoice::None {
        return Ok(Isolation::None);
    }
    let sandbox = inner.sandboxes.choose(&choice)?;
    // Binds cannot be asked for in general, so a policy with one bind is explained.
    let some = &shared.state_dir;
    let policy = SandboxPolicy::builder().bind(Bind::new(some, some, RuleAccess::Read, "a trial")).build()?;
    let binds = sandbox.explain(&policy)?.state(Control::BINDS) == Some(ControlState::Enforced);
    Ok(if binds { Isolation::Bound } else { Isolation::Linked })
}

/// Returns true if the session's sandbox can show private copies at the real paths, for a chat in the root. Blocks.
///
/// # Errors
/// `not_supported` for a sandbox that can also keep nothing read-only there: the chat would write what the person's git runs.
pub(crate) fn isolates_root(
    shared: &ProjectShared,
    project: &Project,
    settings: &Settings,
    options: &RunOptions,
) -> Result<bool> {
    if isolation(shared, project, settings, options)? == Isolation::Bound {
        return Ok(true);
    }
    let inner = &shared.inner;
    let choice = resolve::sandbox(options.sandbox.clone(), project, settings, &inner.sandboxes)?.value;
    let policy = SandboxPolicy::builder()
        .write(&shared.root, "a trial")
        .read(shared.root.join(".git"), "a trial")
        .build()?;
    let report = inner.sandboxes.choose(&choice)?.explain(&policy)?;
    if choice != SandboxChoice::None && report.state(Control::READ_ONLY) == Some(ControlState::Open) {
        let message =
            "this sandbox keeps nothing read-only in the root: a chat there could write what your git runs";
        return Err(Error::new(ErrorKind::NotSupported, message)
            .with("hint", "watchfire chat --worktree has a folder of its own; watchfire sandbox setup shows how to get more"));
    }
    Ok(false)
}

/// Returns our variables that pass to a session. `COLUMNS` and `LINES` describe our own terminal, not the session's.
///
/// `pass` names variables that the backend or the person allows in addition to the base policy.
pub(crate) fn environment<'a>(
    ours: &BTreeMap<OsString, OsString>,
    base: &EnvironmentPolicy,
    launch: &Launch,
    pass: impl IntoIterator<Item = &'a String>,
) -> BTreeMap<OsString, OsString> {
    let mut policy = base.clone();
    policy.allow.extend(launch.pass.iter().cloned());
    policy.allow.extend(pass.into_iter().cloned());
    let mut environment = policy.filter(ours);
    environment.retain(|name, _| !launch.unset.contains(name) && name != "COLUMNS" && name != "LINES");
    environment
}

/// Returns the variables of every agent. The last three keep its git from prompting or opening an editor.
pub(crate) fn session_variables(directory: &SessionDirectory) -> Vec<(&'static str, OsString)> {
    let text = |text: &str| OsStr::new(text).to_owned();
    vec![
        ("TERM", text("xterm-256color")),
        ("COLORTERM", text("truecolor")),
        ("TMPDIR", directory.tmp().into_os_string()),
        ("WATCHFIRE_SESSION_DIR", directory.files().into_os_string()),
        ("WATCHFIRE_SIGNAL_DIR", directory.files().into_os_string()),
        (OUTBOX, directory.files().join("outbox").into_os_string()),
        ("GIT_TERMINAL_PROMPT", text("0")),
        ("GIT_ASKPASS", text("true")),
        ("GIT_EDITOR", text("true")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ProjectId, SessionId};
    use crate::sandbox::Access;

    /// Returns the paths that a session of that kind may write, for a project in `/p` with a worktree and a cache.
    fn writable(mode: Mode, phase: Option<Phase>) -> Vec<&'static str> {
        let state = tempfile::tempdir().unwrap();
        let directory = SessionDirectory::create(state.path(), &SessionId::random()).unwrap();
        let sandboxes = SandboxSet::new(Vec::new(), |_| {
            Ok(SandboxPolicy::builder().write("/h/.cache", "caches").deny("/h/.ssh", "keys"))
        });
        let scope = Scope::of(mode, phase);
        let worktree = Path::new("/p/.watchfire/worktrees/0001");
        let rules = [
            Rule::new(worktree, RuleAccess::Write, "the workspace"),
            Rule::new("/p/.git/objects", RuleAccess::Write, "git"),
        ];
        let at_work = scope == Scope::Workspace;
        let policy = PolicyParts {
            sandboxes: &sandboxes,
            enforcement: Enforcement::Required,
            scope,
            environment: &BTreeMap::from([("HOME".into(), "/h".into())]),
            watchfire_home: Path::new("/h/.watchfire"),
            project_root: Path::new("/p"),
            settings: &SandboxSettings::default(),
            project: &Project::new(ProjectId::random(), "p"),
            state_dir: state.path(),
            shared_dir: None,
            directory: Some(&directory),
            cwd: Some(if at_work { worktree } else { Path::new("/p") }),
            others: &[],
            workspace_rules: if at_work { &rules } else { &[] },
            workspace_binds: &[],
            grants: &[],
            helper: Path::new("/usr/bin/watchfire"),
        };
        let policy = policy.compose().unwrap();
        assert!(policy.allows(directory.files().join("signal.json"), Access::Write), "{mode}");
        assert!(!policy.allows(directory.files().join("inbox/x"), Access::Write), "{mode}");
        for path in ["/h/.ssh/id", "/p/.watchfire/tasks/0002.yaml"] {
            assert!(!policy.allows(path, Access::Read), "{mode} reads {path}");
        }
        assert_eq!(policy.allows("/p/src/a.rs", Access::Read), !at_work, "{mode} reads the checkout");
        assert_eq!(policy.allows("/p/.env.local", Access::Read), !at_work, "{mode} reads the checkout");
        let asked = [
            "/p/.watchfire/worktrees/0001/a.rs",
            "/p/src/a.rs",
            "/p/.git/objects/aa",
            "/p/.git/index.lock",
            "/p/.git/hooks/pre-commit",
            "/p/.git/config",
            "/h/.cache/x",
            "/h/.bashrc",
        ];
        asked.into_iter().filter(|path| policy.allows(path, Access::Write)).collect()
    }

    #[test]
    fn each_mode_writes_what_it_is_for() {
        let worktree = ["/p/.watchfire/worktrees/0001/a.rs", "/p/.git/objects/aa", "/h/.cache/x"];
        for (mode, phase) in [
            (Mode::Task, None),
            (Mode::StartAll, None),
            (Mode::Wildfire, None),
            (Mode::Wildfire, Some(Phase::Execute)),
        ] {
            assert_eq!(writable(mode, phase), worktree, "{mode} {phase:?}");
        }
        let root = ["/p/src/a.rs", "/p/.git/objects/aa", "/p/.git/index.lock", "/h/.cache/x"];
        assert_eq!(writable(Mode::Chat, None), root);
        for (mode, phase) in [
            (Mode::GenerateDefinition, None),
            (Mode::GenerateTasks, None),
            (Mode::Wildfire, Some(Phase::Refine)),
            (Mode::Wildfire, Some(Phase::Generate)),
        ] {
            assert_eq!(writable(mode, phase), [""; 0], "{mode} {phase:?}");
        }
    }
}
