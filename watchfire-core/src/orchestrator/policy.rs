//! What one session may touch, and which variables it gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::project::ProjectShared;
use super::request::RunOptions;
use crate::backend::{Grant, Launch};
use crate::endpoint::client::OUTBOX;
use crate::model::{Mode, Project, SandboxSettings, Settings};
use crate::sandbox::{
    Bind, Control, ControlState, Enforcement, EnvironmentPolicy, PolicyInputs, Rule, RuleAccess,
    SandboxPolicy, SandboxSet,
};
use crate::schedule::resolve;
use crate::session::{SessionDirectory, make_private};
use crate::workspace::OpenRequest;
use crate::{Error, Result};

/// What a session's policy is made from.
pub(super) struct PolicyParts<'a> {
    pub(super) sandboxes: &'a SandboxSet,
    pub(super) enforcement: Enforcement,
    pub(super) mode: Mode,
    pub(super) user_home: Option<&'a Path>,
    pub(super) watchfire_home: &'a Path,
    pub(super) project_root: &'a Path,
    /// Those of the person, tightened by the project.
    pub(super) settings: &'a SandboxSettings,
    pub(super) project: &'a Project,
    /// `state/<project_id>`.
    pub(super) state_dir: &'a Path,
    /// None for commands of the project that are no sessions.
    pub(super) directory: Option<&'a SessionDirectory>,
    /// Where the agent works; none for what is no agent.
    pub(super) cwd: Option<&'a Path>,
    pub(super) workspace_rules: &'a [Rule],
    pub(super) workspace_binds: &'a [Bind],
    pub(super) grants: &'a [Grant],
    /// Our own program, which hooks run inside.
    pub(super) helper: &'a Path,
}

impl PolicyParts<'_> {
    /// Composes the policy: the base, then what the mode, the workspace, the session and the backend need.
    pub(super) fn compose(&self) -> Result<SandboxPolicy> {
        let mut inputs = inputs(self.user_home, self.watchfire_home, self.project_root, self.settings);
        inputs.project_deny.clone_from(&self.project.sandbox_rules.deny);
        let caches = self.state_dir.join("caches");
        inputs.own_caches = Some(caches.clone());
        let mut policy = self
            .sandboxes
            .base_policy(&inputs)?
            .enforcement(self.enforcement)
            .deny(self.project_root.join(".watchfire"), "the project's task files are not the agent's")
            .read(self.helper, "our own program")
            .rules(self.workspace_rules.iter().cloned());
        if self.mode == Mode::Chat {
            policy = policy.write(self.project_root, "chat: the project root");
        }
        if let Some(directory) = self.directory {
            policy = policy
                .write(directory.files(), "the session's own files")
                .read(directory.files().join("inbox"), "messages to the agent")
                .write(directory.home(), "the session's home")
                .write(directory.tmp(), "the session's temporary files");
            if let Some(cwd) = self.cwd {
                let shown = self.project_root.join(".watchfire");
                policy = policy
                    .bind(Bind::new(directory.files(), &shown, RuleAccess::Write, "the session's own files"))
                    .read(shown.join("inbox"), "messages to the agent");
                if cwd.starts_with(&shown) {
                    policy = policy.bind(Bind::new(cwd, cwd, RuleAccess::Write, "where the agent works"));
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
        let mut own = policy.binds.iter().filter(|bind| bind.source.starts_with(&caches));
        own.try_for_each(|bind| make_like(&bind.source, &bind.target))?;
        Ok(policy)
    }
}

/// Makes an empty folder or file, as the one at `like` is.
fn make_like(path: &Path, like: &Path) -> Result<()> {
    if like.is_dir() {
        return make_private(path);
    }
    path.parent().map_or(Ok(()), make_private)?;
    let made = std::fs::File::options().append(true).create(true).open(path).map(|_| ());
    made.map_err(|error| Error::io("making a cache of the project's own", error).with_path(path))
}

fn inputs(
    user_home: Option<&Path>,
    watchfire_home: &Path,
    project_root: &Path,
    settings: &SandboxSettings,
) -> PolicyInputs {
    let mut inputs = PolicyInputs::new();
    inputs.home = user_home.map(Path::to_path_buf);
    inputs.watchfire_home = Some(watchfire_home.to_path_buf());
    inputs.project_root = Some(project_root.to_path_buf());
    inputs.settings = settings.clone();
    inputs
}

/// Says in a request for a workspace what the session's sandbox can do for it. Blocks.
pub(super) fn isolate(
    request: OpenRequest,
    shared: &ProjectShared,
    project: &Project,
    settings: &Settings,
    options: &RunOptions,
) -> Result<OpenRequest> {
    let inner = &shared.inner;
    let choice = resolve::sandbox(options.sandbox.clone(), project, settings)?.value;
    let sandbox = inner.sandboxes.choose(&choice)?;
    let some = &shared.state_dir;
    let policy = SandboxPolicy::builder().bind(Bind::new(some, some, RuleAccess::Read, "a trial")).build()?;
    if sandbox.explain(&policy)?.state(Control::BINDS) != Some(ControlState::Enforced) {
        return Ok(request);
    }
    let inputs = inputs(inner.user_home.as_deref(), &inner.home, &shared.root, &settings.sandbox);
    let hidden = inner.sandboxes.base_policy(&inputs)?.build()?.patterns;
    Ok(request.with_isolated(true).with_hidden(hidden))
}

/// Those of our variables that pass to a session. The size of our own terminal is not the session's.
///
/// `pass` names variables that the backend or the person lets through although the base policy does not.
pub(super) fn environment<'a>(
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

/// What every agent gets to know, and what keeps its git from asking or pushing.
pub(super) fn session_variables(directory: &SessionDirectory) -> Vec<(&'static str, OsString)> {
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
