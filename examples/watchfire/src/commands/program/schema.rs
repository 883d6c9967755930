//! `watchfire schema`: prints the JSON Schema of a file that people write, from the table of its keys.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use watchfire_core::model::{KEYS, Key, KeyFile, KeyKind};
use watchfire_core::{Error, Result as CoreResult};

use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
Editors with the YAML language server complete and check a file whose first line names its schema:
  # yaml-language-server: $schema=project.schema.json

Examples:
  watchfire schema settings > ~/.watchfire/settings.schema.json
  watchfire schema project > .watchfire/project.schema.json
  watchfire schema task")]
pub(crate) struct SchemaArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: File,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum File {
    Settings,
    Project,
    Task,
}

pub(in crate::commands) fn run(context: &Context, args: &SchemaArgs) -> Result<Exit> {
    let file = match args.file {
        File::Settings => KeyFile::Settings,
        File::Project => KeyFile::Project,
        File::Task => KeyFile::Task,
    };
    let schema = schema(file);
    let text = format!("{schema:#}\n");
    context.out.report(json!({ "json_schema": schema }), |_| text);
    Ok(Exit::Good)
}

/// Name of the schema beside `project.yaml`.
const BESIDE: &str = "project.schema.json";

/// Returns the comment by which `project.yaml` names the schema beside it.
pub(in crate::commands) fn comment() -> String {
    format!("yaml-language-server: $schema={BESIDE}")
}

/// Writes the schema into `.watchfire/`, if `project.yaml` names it.
pub(in crate::commands) fn write(root: &Path) -> CoreResult<()> {
    let folder = root.join(".watchfire");
    let place = folder.join(BESIDE);
    let failed = |error| Error::io("writing a schema", error).with_path(&place);
    if !std::fs::read_to_string(folder.join("project.yaml")).map_err(failed)?.contains(BESIDE) {
        return Ok(());
    }
    // Renamed into place: whatever a repository of somebody else has put there is replaced and never followed.
    let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(failed)?;
    writeln!(file, "{:#}", schema(KeyFile::Project)).map_err(failed)?;
    file.as_file().set_permissions(PermissionsExt::from_mode(0o644)).map_err(failed)?;
    file.persist(&place).map(drop).map_err(|error| failed(error.error))
}

/// Returns the schema of a file. Keys that are not in the table are allowed, as in the file itself.
fn schema(file: KeyFile) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": file.to_string(),
        "type": "object",
    });
    // The table names a section before the keys in it.
    for key in KEYS.iter().filter(|key| key.file == file) {
        let (above, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        let mut section = &mut schema;
        for part in above.split('.').filter(|part| !part.is_empty()) {
            section = child(section, part);
        }
        *child(section, name) = of(key);
    }
    // Settings are all optional.
    let is_required = |key: &&Key| key.file == file && !key.path.contains('.') && key.default.is_empty();
    let required = KEYS.iter().filter(is_required).filter(|key| key.kind != KeyKind::Section);
    schema["required"] = required.map(|key| key.path).collect();
    schema
}

/// Returns the schema of a key in a section; `*` stands for any name.
fn child<'a>(section: &'a mut Value, name: &str) -> &'a mut Value {
    match name {
        "*" => &mut section["additionalProperties"],
        _ => &mut section["properties"][name],
    }
}

fn of(key: &Key) -> Value {
    let mut schema = match key.kind {
        KeyKind::Flag => json!({ "type": ["boolean", "null"] }),
        KeyKind::Number => json!({ "type": ["integer", "null"], "minimum": 0 }),
        KeyKind::Count => json!({ "type": ["integer", "null"], "minimum": 1 }),
        KeyKind::Amount => json!({ "type": ["number", "null"], "minimum": 0 }),
        KeyKind::List => json!({ "type": ["array", "null"], "items": { "type": "string" } }),
        KeyKind::Numbers => json!({ "type": ["array", "null"], "items": { "type": "integer" } }),
        KeyKind::Map => json!({ "type": ["object", "null"], "additionalProperties": { "type": "string" } }),
        KeyKind::Section => json!({ "type": ["object", "null"] }),
        KeyKind::Color => json!({ "type": ["string", "null"], "pattern": "^(#[0-9A-Fa-f]{6})?$" }),
        KeyKind::Duration => {
            json!({ "type": ["string", "integer", "null"], "minimum": 1, "pattern": "^ *([0-9]+(ms|s|m|h|d)?)? *$" })
        }
        KeyKind::OneOf(words) => json!({ "enum": words }),
        _ => json!({ "type": ["string", "null"] }),
    };
    schema["description"] = key.meaning.into();
    if key.kind != KeyKind::Section {
        // What is no JSON is text.
        let example = serde_json::from_str(key.example).unwrap_or_else(|_| Value::from(key.example));
        schema["examples"] = json!([example]);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_its_schema() {
        for key in KEYS {
            let pointer: String = key
                .path
                .split('.')
                .map(|part| match part {
                    "*" => "/additionalProperties".to_owned(),
                    _ => format!("/properties/{part}"),
                })
                .collect();
            let schema = schema(key.file);
            let found = schema.pointer(&pointer).unwrap_or_else(|| panic!("{}", key.path));
            assert_eq!(found["description"], key.meaning);
        }
    }
}
