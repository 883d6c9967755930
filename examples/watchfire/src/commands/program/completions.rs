//! `watchfire completions`: prints the script with which a shell completes our commands.

use clap::Args;
use serde_json::json;

use crate::complete;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
Commands, options, task numbers with their titles, agents and branches are completed.

Examples:
  bash     watchfire completions bash > ~/.local/share/bash-completion/completions/watchfire
  zsh      watchfire completions zsh > ~/.zfunc/_watchfire       (with fpath+=~/.zfunc before compinit)
  fish     watchfire completions fish > ~/.config/fish/completions/watchfire.fish
  elvish   eval (watchfire completions elvish | slurp)           in rc.elv
  nushell  watchfire completions nushell | save -f watchfire.nu  and `use watchfire.nu` in config.nu")]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish, powershell or nushell
    #[arg(value_name = "SHELL")]
    shell: String,
}

pub(in crate::commands) fn run(context: &Context, args: &CompletionsArgs) -> Result<Exit> {
    let script = complete::script(&args.shell).map_err(|error| {
        let known = error.detail("known").unwrap_or_default().to_owned();
        Failure::usage(format!("{}: {}", error.message(), args.shell), known)
    })?;
    let script = String::from_utf8_lossy(&script);
    context.out.verbatim(json!({ "shell": args.shell, "script": script }), &script);
    Ok(Exit::Good)
}
