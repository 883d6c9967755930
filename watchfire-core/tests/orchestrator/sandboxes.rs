//! A sandbox of another crate, chosen by its name.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::Trial;
use watchfire_core::orchestrator::{ConfineRequest, Orchestrator};
use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::{
    Confined, Control, ControlState, NoSandbox, PolicyReport, Probe, Sandbox, SandboxChoice, SandboxPolicy,
    SandboxSet,
};
use watchfire_core::schedule::resolve::From;
use watchfire_core::workspace::Workspace;
use watchfire_core::{Error, Result};

use crate::support::{Shell, fake, make_project, within};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("a_sandbox_of_another_crate_is_chosen_by_name", chosen_by_name)]
}

/// Confines nothing. The second one says that it cannot keep a folder read-only inside of another.
#[derive(Debug)]
struct Firejail(&'static str);

impl Sandbox for Firejail {
    fn name(&self) -> &'static str {
        self.0
    }

    fn probe(&self) -> Probe {
        Probe::new(self.name(), true, Vec::new())
    }

    fn explain(&self, policy: &SandboxPolicy) -> Result<PolicyReport> {
        let report = PolicyReport::new(self.name(), policy.enforcement);
        Ok(match self.0 {
            "weak" => report.with_control(Control::new(Control::READ_ONLY, ControlState::Open)),
            _ => report,
        })
    }

    fn prepare(&self, policy: &SandboxPolicy, command: CommandSpec) -> Result<Confined> {
        NoSandbox.prepare(policy, command)
    }
}

async fn start(temp: &Path) -> Orchestrator {
    let fake = fake(temp);
    let sandboxes: Vec<Arc<dyn Sandbox>> = vec![Arc::new(Firejail("firejail")), Arc::new(Firejail("weak"))];
    Orchestrator::builder()
        .home(temp.join("home"))
        .linked_backends(false)
        .backend(Shell)
        .default_backend("shell")
        .sandboxes(SandboxSet::new(sandboxes, |_| Ok(SandboxPolicy::builder())))
        .workspaces(move |_| Ok(Arc::clone(&fake) as Arc<dyn Workspace>))
        .start()
        .await
        .unwrap()
}

/// Returns which sandbox a chat would get, and which level chose it.
async fn asked(temp: &Path, root: &Path, request: ConfineRequest) -> Result<(String, From)> {
    // Started anew, since one that runs notices a changed file only a moment later.
    let orchestrator = start(temp).await;
    let confinement = within(async {
        loop {
            match orchestrator.confine(root, request.clone()).await {
                // The lock of the confinement before goes when its last task has ended.
                Err(error) if error.code() == "locked" => tokio::task::yield_now().await,
                asked => return asked,
            }
        }
    })
    .await?;
    let chosen = (confinement.explain().await?.sandbox, confinement.choice().from);
    drop(confinement);
    orchestrator.shutdown().await;
    Ok(chosen)
}

async fn chosen_by_name() {
    let temp = tempfile::tempdir().unwrap();
    let root = make_project(temp.path()).await;
    let settings = |name: &str| {
        let text = format!("version: 1\ndefaults:\n  default_sandbox: {name}\n");
        std::fs::write(temp.path().join("home/settings.yaml"), text).unwrap();
    };
    let chat = ConfineRequest::chat;
    let unknown = |error: Error, file: Option<&str>| {
        assert_eq!((error.code(), error.detail("file")), ("unknown_sandbox", file), "{}", error.report());
        assert_eq!(error.detail("known"), Some("auto, firejail, weak, none"));
    };

    settings("none");
    let flag = chat().with_sandbox("firejail".into());
    assert_eq!(asked(temp.path(), &root, flag).await.unwrap(), ("firejail".into(), From::Flag));
    let flag = chat().with_sandbox(SandboxChoice::Named("bwrap".into()));
    unknown(asked(temp.path(), &root, flag).await.unwrap_err(), None);

    // What a chat in the root writes, the person's git would run.
    let error = asked(temp.path(), &root, chat().with_sandbox("weak".into())).await.unwrap_err();
    assert_eq!(error.code(), "not_supported");
    assert!(error.detail("hint").is_some_and(|hint| hint.contains("chat --worktree")), "{}", error.report());

    settings("firejail");
    assert_eq!(asked(temp.path(), &root, chat()).await.unwrap(), ("firejail".into(), From::Settings));
    settings("landlock");
    unknown(asked(temp.path(), &root, chat()).await.unwrap_err(), Some("settings.yaml"));

    settings("none");
    let file = root.join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("sandbox:")).collect();
    let project = |name: &str| {
        std::fs::write(&file, format!("{}\nsandbox: {name}\n", kept.join("\n"))).unwrap();
    };
    project("firejail");
    assert_eq!(asked(temp.path(), &root, chat()).await.unwrap(), ("firejail".into(), From::Project));
    project("off");
    let error = asked(temp.path(), &root, chat()).await.unwrap_err();
    assert_eq!(error.detail("hint"), Some("to run without a sandbox write none"));
    unknown(error, Some("project.yaml"));
}
