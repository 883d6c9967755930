//! `watchfire definition`: what every agent is told about the project.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use watchfire_core::Error;
use watchfire_core::store::{ProjectPatch, TaskStore as _};

use super::task::ask;
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::{editor, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
Without a flag it opens $VISUAL or $EDITOR on a terminal, and prints the definition elsewhere.

Examples:
  watchfire definition
  watchfire definition --set 'A web shop in Rust. Tests: cargo test.'
  watchfire definition --file README.md")]
pub(crate) struct DefinitionArgs {
    /// Replace it with this text; `-` reads standard input
    #[arg(long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    set: Option<String>,
    /// Replace it with the text of a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print it, also on a terminal
    #[arg(long, conflicts_with_all = ["set", "file"])]
    print: bool,
}

pub(crate) async fn run(context: &Context, args: DefinitionArgs) -> Result<Exit> {
    let place = context.project().await?;
    let before = place.store.project().await?;
    let definition = &before.value.definition;
    let given = ask::given(args.set, args.file.as_deref())?;
    let edits = given.is_none() && !args.print && !context.out.json && terminal::is_interactive();
    let save = async |next: String, revision| {
        let changes = next.trim_end() != definition.trim_end();
        if changes {
            let patch = ProjectPatch::new().with_definition(next);
            place.store.update_project(patch, revision, None).await?;
        }
        Ok::<_, Error>(changes)
    };
    let changes = match given {
        Some(given) => save(given, None).await?,
        // With the revision that the editor showed: a change by another program since then is not overwritten.
        None if edits => {
            editor::edit(definition, "definition", async |next| save(next, Some(&before.revision)).await)
                .await?
        }
        None => {
            let value = json!({ "definition": definition });
            context.out.report(value, |_| format!("{}\n", text::lines(definition.trim_end())));
            return Ok(Exit::Good);
        }
    };
    context.out.report(json!({ "changed": changes }), |out| match changes {
        true => format!("{} the definition is saved\n", out.style.green("✓")),
        false => "nothing is changed\n".to_owned(),
    });
    Ok(Exit::Good)
}
