//! The agents, and how each is pointed to the model server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An agent under test.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) settings: fn(&str) -> serde_json::Value,
    /// What stands in the person's own home: file and content, given the server's URL.
    pub(crate) login: Option<HomeFile>,
    /// The file in the person's home with their instructions for all projects.
    pub(crate) instructions: Option<&'static str>,
    /// Its login must be renewed before it works, and is then in the file that [`rewrites`](Self::rewrites) names. Every
    /// host that it asks is the model server.
    pub(crate) renews: bool,
    /// It has no tools, and edits files by what its model says.
    pub(crate) writes: bool,
    /// The file with its login, which it writes itself.
    pub(crate) rewrites: Option<&'static str>,
    /// The ways to reach it.
    pub(crate) transports: &'static [&'static str],
    /// The transports by which it tells neither words nor tokens; and its screen may not come to rest before the session
    /// is ended, which happens soon after it said that it is done.
    pub(crate) silent: &'static [&'static str],
    /// The transports in which itself counts no tokens: its transcript does.
    pub(crate) uncounted: &'static [&'static str],
    /// What it does not offer or tell: the transport, the check, and why.
    pub(crate) lacks: &'static [(&'static str, &'static str, &'static str)],
}

/// A file in the person's own home and its content, given the server's URL.
pub(crate) type HomeFile = fn(&str) -> (&'static str, String);

pub(crate) const AGENTS: &[Agent] =
    &[CLAUDE_CODE, CODEX, GEMINI, COPILOT, OPENCODE, CLINE, CONTINUE, AIDER, CURSOR_AGENT];

impl Agent {
    /// How long until it can go on with a session that has just ended: no time, or until the next minute. Over its protocol Gemini writes a file with the name
    /// of the one that it is to read, which has the minute in it in which the session began.
    pub(crate) fn rest(&self, transport: &str) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_so = (self.name, transport) == ("gemini", "acp");
        Duration::from_secs(if is_so { 61 - now.as_secs() % 60 } else { 0 })
    }

    /// Why a check cannot be asked of it.
    pub(crate) fn lack(&self, transport: &str, check: &str) -> Option<&'static str> {
        let named = |(at, what, _): &&(&str, &str, &str)| {
            (*at, *what) == (transport, check) || (*at, *what) == (ANY, check)
        };
        self.lacks.iter().find(named).map(|(_, _, reason)| *reason)
    }
}

/// In any transport.
const ANY: &str = "";

const UNTOLD: &str = "its screen does not tell it from what the model says";
const SILENT: &str = "it retries in silence";
const NOT_APART: &str = "it tells high demand, whatever the reason";
const NOTHING_LEFT: &str = "killed in its first turn it leaves nothing to go on with";
const NO_RESUME: &str = "it cannot resume";
const AT_ITS_END: &str = "what it said is read when its session has ended";
const NO_TOOLS: &str = "it has no tools";

/// What most have in common.
pub(crate) const PLAIN: Agent = Agent {
    name: "",
    settings: |_| serde_json::json!({}),
    login: None,
    instructions: None,
    renews: false,
    writes: false,
    rewrites: None,
    transports: &["pty", "stream"],
    silent: &[],
    uncounted: &[],
    lacks: &[],
};

/// The three ways.
const ALL: &[&str] = &["pty", "stream", "acp"];

const AIDER: Agent = Agent {
    name: "aider",
    settings: |url| {
        serde_json::json!({
            "model": "openai/fake-model",
            "args": ["--edit-format", "diff"],
            "env": { "OPENAI_API_BASE": format!("{url}/v1"), "OPENAI_API_KEY": "fake" },
        })
    },
    writes: true,
    silent: &["pty", "stream"],
    lacks: &[
        (ANY, "does_a_task", "it has no tools; `is_merged` has its work"),
        (ANY, "uses_its_tools", NO_TOOLS),
        (ANY, "answers_when_waited_for", AT_ITS_END),
        (ANY, "is_interrupted", NO_TOOLS),
        (ANY, "outlives_its_orchestrator", NO_TOOLS),
        (ANY, "works_in_every_mode", NO_TOOLS),
        (ANY, "resumes", NO_RESUME),
        (ANY, "goes_on_with_a_chat", NO_RESUME),
        (ANY, "goes_on_after_a_failed_verification", NO_RESUME),
        (ANY, "goes_on_after_a_kill", NO_RESUME),
        (ANY, "starts_anew", NO_RESUME),
        (ANY, "tells_a_refusal", NO_TOOLS),
        (ANY, "tells_unauthorized", UNTOLD),
        (ANY, "tells_rate_limit", UNTOLD),
        (ANY, "tells_usage_limit", UNTOLD),
        (ANY, "tells_no_credit", UNTOLD),
        (ANY, "tells_overloaded", UNTOLD),
    ],
    ..PLAIN
};

/// It cannot be installed from a registry: its cases run where someone has it.
const CURSOR_AGENT: Agent = Agent { name: "cursor-agent", settings: |_| serde_json::json!({}), ..PLAIN };

const CLINE: Agent = Agent {
    name: "cline",
    settings: |_| serde_json::json!({ "provider": "openai-compatible", "model": "fake-model" }),
    login: Some(|url| {
        let settings = serde_json::json!({
            "provider": "openai-compatible", "apiKey": "fake", "model": "fake-model", "baseUrl": format!("{url}/v1"),
        });
        let providers = serde_json::json!({ "openai-compatible": {
            "settings": settings, "updatedAt": "2026-11-22T00:00:00.000Z", "tokenSource": "manual",
        } });
        let all = serde_json::json!({
            "version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": providers,
        });
        (".cline/data/settings/providers.json", all.to_string())
    }),
    rewrites: Some(".cline/data/settings/providers.json"),
    transports: &["stream"],
    lacks: &[
        (ANY, "resumes", NO_RESUME),
        (ANY, "goes_on_with_a_chat", NO_RESUME),
        (ANY, "goes_on_after_a_failed_verification", NO_RESUME),
        (ANY, "goes_on_after_a_kill", NO_RESUME),
        (ANY, "starts_anew", NO_RESUME),
    ],
    ..PLAIN
};

const CONTINUE: Agent = Agent {
    name: "continue",
    settings: |_| serde_json::json!({}),
    login: Some(|url| {
        let config = format!(
            "name: fake\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: fake\n    provider: openai\n    model: fake-model\n    \
             apiKey: fake\n    apiBase: {url}/v1\n    roles: [chat]\n    capabilities: [tool_use]\n"
        );
        (".continue/config.yaml", config)
    }),
    lacks: &[
        (ANY, "resumes", "it goes on under a new id"),
        (ANY, "goes_on_with_a_chat", "it goes on under a new id"),
        (ANY, "goes_on_after_a_kill", NOTHING_LEFT),
        (ANY, "starts_anew", "on a terminal it starts anew without saying so"),
        (ANY, "answers_when_waited_for", AT_ITS_END),
        (ANY, "tells_rate_limit", SILENT),
        (ANY, "tells_usage_limit", SILENT),
        (ANY, "tells_no_credit", SILENT),
        (ANY, "tells_overloaded", SILENT),
        (ANY, "tells_unauthorized", UNTOLD),
    ],
    ..PLAIN
};

pub(crate) const GEMINI: Agent = Agent {
    name: "gemini",
    instructions: Some(".gemini/GEMINI.md"),
    settings: |url| {
        serde_json::json!({
            "model": "gemini-2.5-pro",
            "env": { "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "fake-key" },
        })
    },
    transports: ALL,
    uncounted: &["acp"],
    lacks: &[("pty", "tells_rate_limit", NOT_APART), ("pty", "tells_no_credit", NOT_APART)],
    ..PLAIN
};

pub(crate) const COPILOT: Agent = Agent {
    name: "copilot",
    instructions: Some(".copilot/copilot-instructions.md"),
    settings: |url| {
        serde_json::json!({
            "model": "fake-model",
            "env": {
                "COPILOT_OFFLINE": "true",
                "COPILOT_PROVIDER_BASE_URL": format!("{url}/v1"),
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_API_KEY": "fake-key",
            },
        })
    },
    transports: ALL,
    uncounted: &["stream"],
    ..PLAIN
};

pub(crate) const OPENCODE: Agent = Agent {
    name: "opencode",
    instructions: Some(".config/opencode/AGENTS.md"),
    settings: |url| {
        let config = serde_json::json!({ "provider": { "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "fake-key" },
            "models": { "fake-model": { "name": "Fake", "tool_call": true } },
        } } });
        serde_json::json!({
            "model": "fake/fake-model",
            "env": { "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_MODELS_FETCH": "1" },
        })
    },
    transports: ALL,
    silent: &["pty"],
    lacks: &[
        ("pty", "goes_on_after_a_kill", "on a terminal it tells its session's id when it ends"),
        ("pty", "tells_a_refusal", "on a terminal it has no transcript"),
        ("pty", "answers_when_waited_for", "on a terminal it has no transcript"),
        ("acp", "tells_usage_limit", SILENT),
        ("acp", "tells_no_credit", SILENT),
        ("acp", "tells_overloaded", SILENT),
    ],
    ..PLAIN
};

pub(crate) const CODEX: Agent = Agent {
    name: "codex",
    instructions: Some(".codex/AGENTS.md"),
    settings: |url| {
        let provider = |key: &str, value: serde_json::Value| format!("model_providers.fake.{key}={value}");
        serde_json::json!({
            "model": "gpt-5.2-codex",
            "env": { "FAKE_KEY": "fake" },
            "args": [
                "-c", "model_provider=\"fake\"",
                "-c", provider("name", "Fake".into()),
                "-c", provider("base_url", format!("{url}/v1").into()),
                "-c", provider("env_key", "FAKE_KEY".into()),
                "-c", provider("wire_api", "responses".into()),
                "-c", provider("request_max_retries", 1.into()),
                "-c", provider("stream_max_retries", 1.into()),
            ],
        })
    },
    transports: ALL,
    uncounted: &["acp"],
    lacks: &[("acp", "tells_no_credit", "its Codex tells it as a rate limit")],
    ..PLAIN
};

pub(crate) const CLAUDE_CODE: Agent = Agent {
    name: "claude-code",
    instructions: Some(".claude/CLAUDE.md"),
    settings: |url| {
        serde_json::json!({ "env": {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-fake-0123456789abcdefghijklmnopqrstuvwxyz",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        } })
    },
    transports: ALL,
    ..PLAIN
};
