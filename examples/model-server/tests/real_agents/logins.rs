//! Programs in the place of agents that renew their login inside of a session, in each of the ways in which programs
//! write files: what they renewed is in the person's own file afterwards. Needs no agent.

use std::path::Path;

use super::agents::{Agent, PLAIN};
use super::harness::{Checked, must};
use super::orchestrated;

/// An agent's login: the backend, where it is below the person's home, where the program finds it, and two of its states.
pub(crate) const LOGINS: &[Renewed] = &[
    Renewed {
        agent: "claude-code",
        real: ".claude/.credentials.json",
        inside: "$CLAUDE_CONFIG_DIR/.credentials.json",
        old: r#"{"claudeAiOauth":{"accessToken":"old","expiresAt":1000}}"#,
        new: r#"{"claudeAiOauth":{"accessToken":"new","expiresAt":2000}}"#,
    },
    Renewed {
        agent: "codex",
        real: ".codex/auth.json",
        inside: "$CODEX_HOME/auth.json",
        old: r#"{"last_refresh":"2026-01-01T00:00:00Z"}"#,
        new: r#"{"last_refresh":"2026-02-01T00:00:00Z"}"#,
    },
    Renewed {
        agent: "gemini",
        real: ".gemini/oauth_creds.json",
        inside: "$GEMINI_CLI_HOME/.gemini/oauth_creds.json",
        old: r#"{"access_token":"old","expiry_date":1000}"#,
        new: r#"{"access_token":"new","expiry_date":2000}"#,
    },
    Renewed {
        agent: "opencode",
        real: ".local/share/opencode/auth.json",
        inside: "$XDG_DATA_HOME/opencode/auth.json",
        old: r#"{"openai":{"type":"oauth","expires":1000}}"#,
        new: r#"{"openai":{"type":"oauth","expires":2000}}"#,
    },
    Renewed {
        agent: "continue",
        real: ".continue/auth.json",
        inside: "$CONTINUE_GLOBAL_DIR/auth.json",
        old: r#"{"accessToken":"old","expiresAt":1000}"#,
        new: r#"{"accessToken":"new","expiresAt":2000}"#,
    },
];

pub(crate) struct Renewed {
    pub(crate) agent: &'static str,
    pub(crate) real: &'static str,
    inside: &'static str,
    old: &'static str,
    new: &'static str,
}

/// How a program writes a file.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    InPlace,
    /// A sibling that takes its name, as careful programs do.
    Renamed,
}

impl Way {
    pub(crate) const ALL: [(&str, Self); 2] = [("in_place", Self::InPlace), ("by_renaming", Self::Renamed)];
}

pub(crate) fn renews(login: &'static Renewed, way: Way) -> Checked {
    let Renewed { agent, real, inside, old, new } = *login;
    let write = match way {
        Way::InPlace => format!("printf '%s' '{new}' > \"{inside}\""),
        Way::Renamed => format!("printf '%s' '{new}' > \"{inside}.tmp\" && mv \"{inside}.tmp\" \"{inside}\""),
    };
    let program = format!("#!/bin/sh\n{write} || exit 9\n{}\n", orchestrated::WORK);
    let agent = Agent {
        name: agent,
        settings: |_| serde_json::json!({ "path": "~/program/agent" }),
        rewrites: Some(real),
        ..PLAIN
    };
    let check = move |user: &Path| {
        let kept = std::fs::read_to_string(user.join(real)).map_err(|error| error.to_string())?;
        must(kept == new, &format!("the renewed login is lost: {kept}"))
    };
    orchestrated::in_its_place(agent, program, (real, old), check)
}
