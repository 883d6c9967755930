//! `watchfire sandbox probe`: tries the sandboxes of this machine.

use clap::Args;
use serde_json::json;
use watchfire_core::{Error, ErrorKind};

use crate::commands::doctor;
use crate::compose;
use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
Each sandbox is tried in a child that ends right after; nothing is changed. auto takes the first that works.

Examples:
  watchfire sandbox probe
  watchfire sandbox probe --json | jq '.sandboxes[] | select(.available)'

Exit codes: 0 one that confines works, 3 none does.")]
pub(crate) struct ProbeArgs {}

pub(super) async fn run(context: &Context, _: ProbeArgs) -> Result<Exit> {
    let sandboxes = compose::sandboxes()?;
    // Each try starts a process and waits for it.
    let trying = tokio::task::spawn_blocking(move || doctor::sandboxes(&sandboxes)).await;
    let section =
        trying.map_err(|e| Error::new(ErrorKind::Internal, "looking at this machine").with_source(e))?;
    let works = section.is_well();
    let (value, text) = (json!({ "sandboxes": section.json() }), section);
    context.out.report(value, |out| text.render(out));
    Ok(if works { Exit::Good } else { Exit::NeedsPerson })
}
