//! The person's settings.

use std::collections::HashMap;
use std::path::PathBuf;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::settings_service_server::SettingsService;
use watchfire_core::backend::{Backend, ProgramSearch};
use watchfire_core::model::{BackendName, Settings};
use watchfire_core::{Error, ErrorKind, Result};

use super::answer;
use super::convert::some;
use crate::Daemon;

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    /// Returns settings, with the agents of this machine.
    fn told_settings(&self, settings: &Settings) -> proto::Settings {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut agents = HashMap::new();
        for backend in self.orchestrator().backends().iter() {
            let of = settings.agents.get(backend.name()).cloned().unwrap_or_default();
            let path = of.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            // The same search as for a session, so that the answer is true.
            let search = ProgramSearch::new(std::env::var_os("PATH"), home.clone()).with_settings(of);
            let found = backend.locate(&search);
            agents.insert(
                backend.name().to_owned(),
                proto::AgentSettings {
                    path,
                    display_name: backend.display_name().to_owned(),
                    found_at: found.map(|it| it.program.display().to_string()).unwrap_or_default(),
                    install_hint: backend.install_hint().unwrap_or_default(),
                },
            );
        }
        let defaults = &settings.defaults;
        let defaults = proto::Defaults {
            auto_merge: Some(defaults.auto_merge),
            auto_delete_branch: Some(defaults.auto_delete_branch),
            auto_start_tasks: Some(defaults.auto_start_tasks),
            default_branch: Some(defaults.default_branch.clone()),
            default_sandbox: Some(defaults.default_sandbox.clone()),
            default_agent: Some(defaults.default_agent.clone()),
        };
        proto::Settings { meta: None, agents, defaults: Some(defaults) }
    }

    /// Finds the program of the agent that tasks get by default, or where none is named, of any.
    pub(super) fn find_an_agent(&self, settings: &Settings) -> Result<()> {
        let backends = self.orchestrator().backends().clone().with_configured(settings)?;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let find = |backend: &dyn Backend| {
            let of = settings.agents.get(backend.name()).cloned().unwrap_or_default();
            let search = ProgramSearch::new(std::env::var_os("PATH"), home.clone()).with_settings(of);
            let found = backend.locate(&search).map(drop);
            found.map_err(|error| match (error.detail("hint"), backend.install_hint()) {
                (None, Some(hint)) => error.with("hint", hint),
                _ => error,
            })
        };
        match settings.defaults.default_agent.trim() {
            // The scripted agent is always there, and does what a script says.
            "" if backends.iter().any(|it| it.name() != "scripted" && find(&**it).is_ok()) => Ok(()),
            "" => Err(Error::new(ErrorKind::ProgramMissing, "no agent is installed")
                .with("hint", "watchfire doctor lists those that are known")),
            name => find(&*backends.get(name)?),
        }
    }

    /// Reads the name of an agent that this machine knows, or none from an empty text.
    ///
    /// # Errors
    /// `invalid_input`, with the field.
    pub(super) async fn agent(&self, field: &str, name: &str) -> Result<Option<BackendName>> {
        let Some(name) = some(name) else { return Ok(None) };
        let settings = self.home().settings().await?;
        let backends = self.orchestrator().backends().clone().with_configured(&settings)?;
        let known = name.parse().and_then(|agent: BackendName| backends.get(agent.as_str()).map(|_| agent));
        known.map(Some).map_err(|error| {
            let error = error.with("field", field);
            error.with("hint", "watchfire doctor lists the agents of this machine")
        })
    }

    async fn read_settings(&self) -> Result<proto::Settings> {
        let settings = self.home().settings().await?;
        let daemon = self.clone();
        // It looks for the agents' programs on the disk.
        tokio::task::spawn_blocking(move || daemon.told_settings(&settings))
            .await
            .map_err(|error| Error::new(ErrorKind::Internal, "looking for agents").with_source(error))
    }

    async fn change_settings(&self, wanted: proto::Settings) -> Result<proto::Settings> {
        let now = self.home().settings().await?;
        let given = wanted.defaults.unwrap_or_default();
        if given.default_sandbox.is_some_and(|sandbox| sandbox != now.defaults.default_sandbox) {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "what confines agents is changed in the file",
            )
            .with("field", "defaults.default_sandbox")
            .with_path(self.home().path().join("settings.yaml")));
        }
        let agent = given.default_agent.as_deref().filter(|agent| *agent != now.defaults.default_agent);
        self.agent("defaults.default_agent", agent.unwrap_or_default()).await?;
        let mut paths = Vec::new();
        for (name, agent) in wanted.agents {
            self.orchestrator().backends().get(&name)?;
            let path = some(&agent.path).map(PathBuf::from);
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    "the path of an agent is absolute, or empty",
                )
                .with("field", format_args!("agents.{name}.path"))
                .with("value", format_args!("{:?}", agent.path)));
            }
            paths.push((name, path));
        }
        let change = move |settings: &mut Settings| {
            let defaults = &mut settings.defaults;
            defaults.auto_merge = given.auto_merge.unwrap_or(defaults.auto_merge);
            defaults.auto_delete_branch = given.auto_delete_branch.unwrap_or(defaults.auto_delete_branch);
            defaults.auto_start_tasks = given.auto_start_tasks.unwrap_or(defaults.auto_start_tasks);
            if let Some(branch) = &given.default_branch {
                defaults.default_branch.clone_from(branch);
            }
            if let Some(agent) = &given.default_agent {
                defaults.default_agent.clone_from(agent);
            }
            for (name, path) in &paths {
                settings.agents.entry(name.clone()).or_default().path.clone_from(path);
            }
        };
        self.home().update_settings(change).await?;
        self.read_settings().await
    }
}

#[tonic::async_trait]
impl SettingsService for Daemon {
    async fn get_settings(&self, _: Request<()>) -> Answer<proto::Settings> {
        answer(self.read_settings().await)
    }

    async fn update_settings(&self, request: Request<proto::Settings>) -> Answer<proto::Settings> {
        answer(self.change_settings(request.into_inner()).await)
    }
}
