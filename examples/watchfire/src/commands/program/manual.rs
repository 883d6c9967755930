//! `watchfire manual`: writes manual pages, one for each command.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use serde_json::json;
use watchfire_core::Error;

use crate::args::Cli;
use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire manual ~/.local/share/man/man1
  man watchfire-task-add")]
pub(crate) struct ManualArgs {
    /// The folder for the pages; it is made if it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(in crate::commands) fn run(context: &Context, args: &ManualArgs) -> Result<Exit> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder));
    written.map_err(|e| Error::io("writing manual pages", e).with_path(&args.folder))?;
    context.out.report(json!({ "folder": args.folder }), |_| {
        format!("manual pages are in {}\n", args.folder.display())
    });
    Ok(Exit::Good)
}
