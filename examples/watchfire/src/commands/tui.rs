//! `watchfire` without a command: the terminal interface of the project at hand.

use std::sync::Arc;

use clap::Args;
use watchfire_core::{Error, ErrorKind};
use watchfire_tui::Options;

use super::{daemon, init};
use crate::context::{Context, find_project, home_path};
use crate::failure::{Exit, Failure, Result};
use crate::terminal;

#[derive(Args, Debug, Default)]
pub(crate) struct TuiArgs {
    /// Do not start a chat where nothing runs
    #[arg(long)]
    no_chat: bool,
}

pub(crate) async fn run(context: &Context, args: TuiArgs) -> Result<Exit> {
    if context.out.json || !terminal::is_interactive() {
        return Err(Failure::usage(
            "the terminal interface needs a terminal",
            "watchfire --help lists the commands",
        ));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(Failure::usage(
            "this terminal cannot place a cursor",
            "set TERM to what it is, or use the commands: watchfire --help",
        ));
    }
    if std::process::Command::new("git").arg("--version").output().is_err() {
        let error = Error::new(ErrorKind::ProgramMissing, "Git is required. Install git and try again.");
        return Err(error.with("program", "git").into());
    }
    // Where there is no project, the questions of `init` come first.
    if find_project(&context.directory()?).is_err() && !init::offer(context).await? {
        let error = Error::new(ErrorKind::NotFound, "Not a Watchfire project. Run `watchfire init` first.");
        return Err(error.with_path(context.directory()?).into());
    }
    let project = context.project().await?;
    let id = project.id.to_string();
    // The daemon opens the store itself.
    drop(project);
    let home = home_path()?;
    let command = Arc::new(daemon::command(&watchfired::DaemonArgs::default())?);
    let connect = move || {
        let (home, command) = (home.clone(), Arc::clone(&command));
        let connecting = async move { watchfire_client::Daemon::find_or_start(&home, &command).await };
        Box::pin(connecting) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    };
    let mut options = Options::new(id, Arc::new(connect));
    options.chat = !args.no_chat;
    options.plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    options.dark = is_dark();
    watchfire_tui::run(options).await.map_err(|error| Error::io("drawing on the terminal", error))?;
    Ok(Exit::Good)
}

/// Returns whether the background is dark, as terminals tell it in `COLORFGBG`. Most are, and most say nothing.
fn is_dark() -> bool {
    let told = std::env::var("COLORFGBG").ok();
    let background = told.as_deref().and_then(|told| told.rsplit(';').next()?.parse::<u8>().ok());
    !matches!(background, Some(7 | 9..=15))
}
