//! Completion in nushell, which clap_complete does not have: a completer for external programs that asks us for ours.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::env::{EnvCompleter, Fish};

/// The nushell as a shell that asks.
pub(super) struct Nushell;

impl EnvCompleter for Nushell {
    fn name(&self) -> &'static str {
        "nushell"
    }

    fn is(&self, name: &str) -> bool {
        ["nushell", "nu"].contains(&name)
    }

    fn write_registration(
        &self,
        var: &str,
        _: &str,
        bin: &str,
        completer: &str,
        to: &mut dyn io::Write,
    ) -> io::Result<()> {
        // There is one completer for all programs: the one before ours goes on completing the others.
        write!(
            to,
            r#"export-env {{
    let others = $env.config?.completions?.external?.completer?
    $env.config.completions.external.enable = true
    $env.config.completions.external.completer = {{|words|
        if ($words | first) == "{bin}" {{
            with-env {{ {var}: nushell }} {{ ^{completer} -- ...$words }} | lines | each {{|line|
                let parts = ($line | split row --number 2 "\t")
                {{ value: $parts.0, description: ($parts.1? | default "") }}
            }}
        }} else if $others != null {{
            do $others $words
        }}
    }}
}}
"#
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        to: &mut dyn io::Write,
    ) -> io::Result<()> {
        // A line for each candidate: its value, a tab, its meaning.
        Fish.write_complete(command, words, folder, to)
    }
}
