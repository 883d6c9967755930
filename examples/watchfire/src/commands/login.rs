//! `watchfire login`: the sign-in of an agent's own program.

use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;
use watchfire_client::daemon_proto::ProjectId;
use watchfire_client::{ApiError, Daemon};
use watchfire_core::backend::ProgramSearch;
use watchfire_core::model::{AgentSettings, Key};
use watchfire_core::{Error, ErrorKind};

use crate::compose;
use crate::context::{Context, home_path, open_home};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::terminal;

#[derive(Args, Debug)]
#[command(after_help = "\
The agent's own program signs you in, in your own home and without a sandbox, as if you had started it. Every session gets the
login from there. Once it succeeds, work of this project that the daemon keeps for a login goes on.

Examples:
  watchfire login claude-code
  watchfire login codex")]
pub(crate) struct LoginArgs {
    /// The agent
    agent: String,
}

pub(crate) async fn run(context: &Context, args: LoginArgs) -> Result<Exit> {
    if context.out.json || !terminal::is_interactive() {
        return Err(Failure::usage("a sign-in needs a terminal", "run it where you can type and see"));
    }
    let home = open_home(home_path()?).await?;
    let settings = home.settings().await?;
    let backend = compose::backends(&settings)?.get(&args.agent)?;
    let name = backend.name().to_owned();
    let Some(sign_in) = backend.sign_in() else {
        let hint = format!("see how it takes its key, and pass that on: agents.{name}.pass_env");
        return Err(Failure::usage(format!("{name} has no sign-in of its own"), hint));
    };
    let own = settings.agents.get(&name).cloned().unwrap_or_default();
    let search = ProgramSearch::new(std::env::var_os("PATH"), std::env::var_os("HOME").map(Into::into));
    let located = backend.locate(&search.with_settings(vendors(own, &name)?))?;
    // Ctrl+C is for the program, which tells us how it ended.
    let _interrupts = Interrupts::listen()?;
    let mut command = Command::new(&located.program);
    command.args(sign_in).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    let ended =
        ended.map_err(|error| Error::new(ErrorKind::Internal, "waiting for a sign-in").with_source(error))?;
    let ended =
        ended.map_err(|error| Error::io("starting the sign-in", error).with_path(&located.program))?;
    if !ended.success() {
        return Err(
            Error::new(ErrorKind::Unauthorized, format!("the sign-in of {name} ended with {ended}")).into()
        );
    }
    let goes_on = resume(context, &home_path()?).await?;
    context.out.report(json!({ "agent": name }), |_| match goes_on {
        true => format!("signed in to {name}; what waits here goes on\n"),
        false => format!("signed in to {name}\n"),
    });
    Ok(Exit::Good)
}

/// Returns the settings with which the vendor's own program is found, and not the adapter of a protocol.
fn vendors(own: AgentSettings, name: &str) -> Result<AgentSettings> {
    let transport = Key::listed_for_agents("transport");
    let transport = transport.map(|key| own.option::<String>(name, key)).transpose()?.flatten();
    Ok(if transport.as_deref() == Some("acp") { AgentSettings::default() } else { own })
}

/// Continues what waits in this project, if the daemon has it. Returns false without a daemon or a project.
async fn resume(context: &Context, home: &std::path::Path) -> Result<bool> {
    let (Ok(project), Ok(daemon)) = (context.project().await, Daemon::connect(home).await) else {
        return Ok(false);
    };
    let project = ProjectId { meta: None, project_id: project.id.to_string(), session_id: String::new() };
    daemon.agents().resume_agent(project).await.map_err(ApiError::from)?;
    Ok(true)
}
