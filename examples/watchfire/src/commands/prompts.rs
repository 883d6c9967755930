//! `watchfire prompts`: lists the sections of prompts that a project can replace.

use std::fs;
use std::path::Path;

use clap::Args;
use serde_json::json;
use watchfire_core::model::PromptSection;
use watchfire_core::store::{DocumentName, TaskStore as _};
use watchfire_core::{Error, ErrorKind};

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
A file .watchfire/prompts/<SECTION>.md takes the place of a section's text; an empty file leaves the section out.

Examples:
  watchfire prompts                   list the sections that can be replaced
  watchfire prompts test_integrity    show the text that agents get
  watchfire prompts scope_rules > rules.md
  mkdir -p .watchfire/prompts; mv rules.md .watchfire/prompts/scope_rules.md")]
pub(crate) struct PromptsArgs {
    /// The section to show
    #[arg(value_name = "SECTION")]
    section: Option<PromptSection>,
}

/// A section, with the project's own text if it has one.
struct Worded {
    section: PromptSection,
    own: Option<String>,
}

impl Worded {
    fn text(&self) -> &str {
        self.own.as_deref().unwrap_or_else(|| self.section.text())
    }
}

pub(crate) async fn run(context: &Context, args: PromptsArgs) -> Result<Exit> {
    let project = context.project().await?;
    let (mut sections, mut ignored) = (Vec::new(), Vec::new());
    for section in PromptSection::ALL.iter().copied().filter(|it| args.section.is_none_or(|one| one == *it)) {
        let own = match project.store.document(DocumentName::Prompt(section)).await {
            // Sessions get the built-in text then.
            Err(error) if error.kind() == ErrorKind::Malformed => {
                ignored.push(format!("{section}.md is ignored: {}", error.message()));
                None
            }
            own => own?,
        };
        sections.push(Worded { section, own: own.map(|document| document.value) });
    }
    // A file with a mistake in its name would change nothing in silence.
    let strays = strays(&project.root.join(".watchfire/prompts"))?;
    let listed: Vec<_> = sections
        .iter()
        .map(|it| json!({ "section": it.section.as_str(), "own": it.own.is_some(), "text": it.text() }))
        .collect();
    let is_one = args.section.is_some();
    context.out.report(json!({ "sections": listed, "no_sections": strays, "ignored": ignored }), |out| {
        match is_one {
            // The bare text, so that it can be redirected to the project's file.
            true => sections.iter().map(|it| format!("{}\n", text::lines(it.text()).trim_end())).collect(),
            false => list(out, &sections, &strays, &ignored),
        }
    });
    Ok(Exit::Good)
}

fn list(out: Out, sections: &[Worded], strays: &[String], ignored: &[String]) -> String {
    let mut lines = String::new();
    for worded in sections {
        let name = worded.section.as_str();
        let from = match &worded.own {
            None => "built in".to_owned(),
            Some(own) if own.trim().is_empty() => format!("left out by .watchfire/prompts/{name}.md"),
            Some(_) => format!(".watchfire/prompts/{name}.md"),
        };
        lines.push_str(&format!("{}  {}\n", text::pad(name, 20), out.style.dim(&from)));
    }
    for stray in strays {
        let said = format!(".watchfire/prompts/{stray} changes nothing: there is no section of that name");
        lines.push_str(&format!("{}\n", out.style.yellow(&said)));
    }
    for what in ignored {
        let said = format!(".watchfire/prompts/{}", text::line(what));
        lines.push_str(&format!("{}\n", out.style.yellow(&said)));
    }
    lines
}

/// Returns the names of files in the folder that belong to no section.
fn strays(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // Most projects replace nothing and have no folder.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("listing the project's prompts", error).with_path(folder).into()),
    };
    let names = entries.flatten().map(|entry| text::line(&entry.file_name().to_string_lossy()));
    let is_section =
        |name: &str| name.strip_suffix(".md").is_some_and(|stem| stem.parse::<PromptSection>().is_ok());
    let mut strays: Vec<String> = names.filter(|name| !is_section(name)).collect();
    // The order of a folder's entries is arbitrary.
    strays.sort();
    Ok(strays)
}
