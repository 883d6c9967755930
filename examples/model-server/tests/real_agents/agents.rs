//! The agents, and how each is pointed to the model server.

use watchfire_model_server::Login;

/// An agent under test.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) settings: fn(&str) -> serde_json::Value,
    /// What stands in the person's own home: file and content, given the server's URL.
    pub(crate) login: Option<HomeFile>,
    /// Its login must be renewed before it works.
    pub(crate) renews: bool,
    /// It has no tools, and edits files by what its model says.
    pub(crate) writes: bool,
    /// The file with its login, which it writes itself.
    pub(crate) rewrites: Option<&'static str>,
    /// The transports by which it tells neither words nor tokens; and its screen may not come to rest before the session
    /// is ended, which happens soon after it said that it is done.
    pub(crate) silent: &'static [&'static str],
    /// What it cannot do, and why.
    pub(crate) skipped: &'static [(&'static str, &'static str)],
}

/// A file in the person's own home and its content, given the server's URL.
pub(crate) type HomeFile = fn(&str) -> (&'static str, String);

pub(crate) const AGENTS: &[Agent] =
    &[CLAUDE_CODE, CODEX, GEMINI, COPILOT, OPENCODE, CLINE, CONTINUE, AIDER, CURSOR_AGENT];

const UNTOLD: &str = "its screen does not tell it from what the model says";
const SILENT: &str = "it retries in silence";
const STREAM_ONLY: &str = "it has no terminal transport";

const NO_RESUME: &str = "it cannot resume";
const NO_TOOLS: &str = "it has no tools";

const AIDER: Agent = Agent {
    name: "aider",
    settings: |url| {
        serde_json::json!({
            "model": "openai/fake-model",
            "args": ["--edit-format", "diff"],
            "env": { "OPENAI_API_BASE": format!("{url}/v1"), "OPENAI_API_KEY": "fake" },
        })
    },
    login: None,
    renews: false,
    writes: true,
    rewrites: None,
    silent: &["pty", "stream"],
    skipped: &[
        ("does_a_task_on_a_terminal", NO_TOOLS),
        ("does_a_task_as_a_stream", NO_TOOLS),
        ("is_interrupted", NO_TOOLS),
        ("resumes", NO_RESUME),
        ("resumes_after_a_failed_verification", NO_RESUME),
        ("resumes_as_a_stream", NO_RESUME),
        ("starts_anew_where_it_cannot_resume", NO_RESUME),
        ("tells_unauthorized", UNTOLD),
        ("tells_rate_limit", UNTOLD),
        ("tells_no_credit", UNTOLD),
        ("tells_overloaded", UNTOLD),
    ],
};

/// It cannot be installed from a registry: its cases run where someone has it.
const CURSOR_AGENT: Agent = Agent {
    name: "cursor-agent",
    settings: |_| serde_json::json!({}),
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[],
};

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
    renews: false,
    writes: false,
    rewrites: Some(".cline/data/settings/providers.json"),
    silent: &[],
    skipped: &[
        ("does_a_task_on_a_terminal", STREAM_ONLY),
        ("is_merged_from_a_terminal", STREAM_ONLY),
        ("types_into_an_empty_box_only", STREAM_ONLY),
        ("is_interrupted", STREAM_ONLY),
        ("resumes", NO_RESUME),
        ("resumes_after_a_failed_verification", NO_RESUME),
        ("resumes_as_a_stream", NO_RESUME),
        ("starts_anew_where_it_cannot_resume", NO_RESUME),
    ],
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
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[
        ("resumes", "it goes on under a new id"),
        ("starts_anew_where_it_cannot_resume", "on a terminal it starts anew without saying so"),
        ("tells_rate_limit", SILENT),
        ("tells_no_credit", SILENT),
        ("tells_overloaded", SILENT),
        ("tells_unauthorized", UNTOLD),
    ],
};

const GEMINI: Agent = Agent {
    name: "gemini",
    settings: |url| {
        serde_json::json!({
            "model": "gemini-2.5-pro",
            "env": { "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "fake-key" },
        })
    },
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[("tells_rate_limit", SILENT), ("tells_no_credit", SILENT), ("tells_overloaded", SILENT)],
};

const COPILOT: Agent = Agent {
    name: "copilot",
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
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[],
};

const OPENCODE: Agent = Agent {
    name: "opencode",
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
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &["pty"],
    skipped: &[],
};

const CODEX: Agent = Agent {
    name: "codex",
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
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[],
};

/// Codex with a login whose tokens the server renews, as a stream: on a terminal it also wants to know its workspace from
/// its vendor. The token services of the others cannot be pointed elsewhere.
pub(crate) const CODEX_WITH_LOGIN: Agent = Agent {
    name: "codex",
    settings: |url| {
        let mut settings = (CODEX.settings)(url);
        settings["env"] =
            serde_json::json!({ "CODEX_REFRESH_TOKEN_URL_OVERRIDE": format!("{url}/oauth/token") });
        if let Some(args) = settings["args"].as_array_mut() {
            for arg in args {
                if arg.as_str().is_some_and(|arg| arg.contains("env_key")) {
                    *arg = "model_providers.fake.requires_openai_auth=true".into();
                }
            }
        }
        settings
    },
    login: Some(|_| {
        let login = Login::EXPIRED;
        let tokens = serde_json::json!({
            "id_token": login.access(), "access_token": login.access(), "refresh_token": login.refresh(),
            "account_id": "account",
        });
        let auth = serde_json::json!({
            "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2020-01-01T00:00:00Z",
        });
        (".codex/auth.json", auth.to_string())
    }),
    renews: true,
    writes: false,
    rewrites: Some(".codex/auth.json"),
    silent: &[],
    skipped: &[],
};

/// Claude Code with a login that is good for long.
pub(crate) const CLAUDE_WITH_LOGIN: Agent = Agent {
    name: "claude-code",
    settings: |url| serde_json::json!({ "env": { "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_MAX_RETRIES": "1" } }),
    login: Some(|_| {
        let login = serde_json::json!({
            "accessToken": LOGIN_TOKEN, "refreshToken": "sk-ant-ort01-fake", "expiresAt": 4_102_444_800_000_u64,
            "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
        });
        (".claude/.credentials.json", serde_json::json!({ "claudeAiOauth": login }).to_string())
    }),
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[],
};

/// The token of that login.
pub(crate) const LOGIN_TOKEN: &str = "sk-ant-oat01-fake-0123456789";

const CLAUDE_CODE: Agent = Agent {
    name: "claude-code",
    settings: |url| {
        serde_json::json!({ "env": {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-fake-0123456789abcdefghijklmnopqrstuvwxyz",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        } })
    },
    login: None,
    renews: false,
    writes: false,
    rewrites: None,
    silent: &[],
    skipped: &[],
};
