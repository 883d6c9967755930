//! `watchfire` without a command: the terminal interface of the project at hand.

use std::sync::Arc;

use clap::Args;
use watchfire_core::model::TuiSettings;
use watchfire_core::{Error, ErrorKind};
use watchfire_tui::keymap::Keymap;
use watchfire_tui::theme::Depth;
use watchfire_tui::{Options, ascii};

use super::{daemon, init};
use crate::context::{Context, find_project, home_path};
use crate::failure::{Exit, Failure, Result};
use crate::{git, terminal};

#[derive(Args, Debug, Default)]
#[command(
    after_help = "Examples:\n  watchfire tui\n  watchfire tui --no-chat             do not start a chat"
)]
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
    if terminal::is_dumb() {
        return Err(Failure::usage(
            "this terminal cannot place a cursor",
            "set TERM to what it is, or use the commands: watchfire --help",
        ));
    }
    git::require()?;
    // Where there is no project, the questions of `init` come first.
    if find_project(&context.directory()?).is_err() && !init::offer(context).await? {
        let error = Error::new(ErrorKind::NotFound, "Not a Watchfire project. Run `watchfire init` first.");
        return Err(error.with_path(context.directory()?).into());
    }
    let project = context.project().await?;
    let id = project.id.to_string();
    let settings = project.home.settings().await?;
    // The daemon opens the store itself.
    drop(project);
    let home = home_path()?;
    let command = Arc::new(daemon::command(Vec::new())?);
    let connect = move || {
        let (home, command) = (home.clone(), Arc::clone(&command));
        let connecting = async move { watchfire_client::Daemon::find_or_start(&home, &command).await };
        Box::pin(connecting) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    };
    let mut options = Options::new(id, Arc::new(connect));
    options.chat = !args.no_chat && settings.tui.chat.unwrap_or(true);
    options.depth = depth();
    options.ascii = ascii::is_all();
    options.remote = std::env::var_os("SSH_CONNECTION").is_some();
    choose(&mut options, &settings.tui)?;
    let ended = watchfire_tui::run(options).await;
    match ended.map_err(|error| Error::io("drawing on the terminal", error))? {
        watchfire_tui::Ended::NoAgent(words) => {
            let hint = "`watchfire tui --no-chat` opens it without an agent; `watchfire doctor` lists those of this machine";
            Err(Error::new(ErrorKind::ProgramMissing, words).with("hint", hint).into())
        }
        _ => Ok(Exit::Good),
    }
}

/// Takes over what the person has set.
fn choose(options: &mut Options, set: &TuiSettings) -> Result<()> {
    let wrong = |field: String, because: String| {
        let error = Error::new(ErrorKind::InvalidInput, "invalid setting of the terminal interface");
        error.with("file", "settings.yaml").with("field", field).with("because", because)
    };
    options.dark = match set.theme.as_deref() {
        None => is_dark(),
        Some("dark") => Some(true),
        Some("light") => Some(false),
        Some(other) => {
            let because = format!("`{other}` is no theme; `dark` and `light` are");
            return Err(wrong("tui.theme".to_owned(), because).into());
        }
    };
    options.bell = set.bell.unwrap_or(true);
    let map = Keymap::new(&set.keys);
    options.keymap = map.map_err(|refused| wrong(format!("tui.keys.{}", refused.name), refused.because))?;
    Ok(())
}

/// Returns the colours that the terminal has, by `NO_COLOR`, `COLORTERM` and `TERM`.
fn depth() -> Depth {
    match supports_color::on(supports_color::Stream::Stdout) {
        None => Depth::Plain,
        Some(level) if level.has_16m => Depth::True,
        Some(level) if level.has_256 => Depth::Indexed,
        Some(_) => Depth::Sixteen,
    }
}

/// Returns true if `COLORFGBG` says that the background is dark, or `None` without it: then the terminal is asked.
fn is_dark() -> Option<bool> {
    let told = std::env::var("COLORFGBG").ok()?;
    let background = told.rsplit(';').next()?.parse::<u8>().ok()?;
    Some(!matches!(background, 7 | 9..=15))
}
