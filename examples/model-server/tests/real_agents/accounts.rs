//! Agents with a person's login instead of a key.

use serde_json::{Value, json};
use watchfire_model_server::Login;

use super::agents::{Agent, CODEX, OPENCODE, PLAIN};

/// Agents with a login that has expired, which they renew with their vendor: a program in the vendor's place gives them
/// tokens that work once.
pub(crate) const RENEWING: &[&Agent] = &[&CLAUDE_RENEWS, &CODEX_RENEWS, &GEMINI_RENEWS, &OPENCODE_RENEWS];

const CLAUDE_RENEWS: Agent = Agent {
    name: "claude-code",
    login: Some(|_| claude(&Login::EXPIRED.access(), &Login::EXPIRED.refresh(), 1000)),
    renews: true,
    rewrites: Some(".claude/.credentials.json"),
    ..CLAUDE_WITH_LOGIN
};

/// Claude Code with a login that is good for long.
pub(crate) const CLAUDE_WITH_LOGIN: Agent = Agent {
    name: "claude-code",
    settings: |url| json!({ "env": { "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_MAX_RETRIES": "1" } }),
    login: Some(|_| claude("sk-ant-oat01-fake-0123456789", "sk-ant-ort01-fake", 4_102_444_800_000)),
    ..PLAIN
};

fn claude(access: &str, refresh: &str, expires: u64) -> (&'static str, String) {
    let login = json!({
        "accessToken": access, "refreshToken": refresh, "expiresAt": expires,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
    });
    (".claude/.credentials.json", json!({ "claudeAiOauth": login }).to_string())
}

const CODEX_RENEWS: Agent = Agent {
    settings: |url| {
        let mut settings = (CODEX.settings)(url);
        settings["env"] = json!({ "CODEX_REFRESH_TOKEN_URL_OVERRIDE": format!("{url}/oauth/token") });
        for arg in settings["args"].as_array_mut().into_iter().flatten() {
            if arg.as_str().is_some_and(|arg| arg.contains("env_key")) {
                *arg = "model_providers.fake.requires_openai_auth=true".into();
            }
        }
        settings
    },
    login: Some(|_| {
        let login = Login::EXPIRED;
        let tokens = json!({
            "id_token": login.access(), "access_token": login.access(), "refresh_token": login.refresh(),
            "account_id": "account",
        });
        let auth =
            json!({ "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2020-01-01T00:00:00Z" });
        (".codex/auth.json", auth.to_string())
    }),
    renews: true,
    rewrites: Some(".codex/auth.json"),
    ..CODEX
};

const GEMINI_RENEWS: Agent = Agent {
    name: "gemini",
    settings: |_| json!({ "model": "gemini-2.5-pro" }),
    login: Some(|_| {
        let login = Login::EXPIRED;
        let tokens = json!({
            "access_token": login.access(), "refresh_token": login.refresh(), "expiry_date": 1000,
            "token_type": "Bearer", "scope": "https://www.googleapis.com/auth/cloud-platform",
        });
        (".gemini/oauth_creds.json", tokens.to_string())
    }),
    renews: true,
    rewrites: Some(".gemini/oauth_creds.json"),
    ..PLAIN
};

const OPENCODE_RENEWS: Agent = Agent {
    settings: |_| {
        let model: Value = json!({ "name": "Fake", "tool_call": true });
        let config = json!({ "provider": { "openai": { "models": { "gpt-5.2-codex": model } } } });
        json!({
            "model": "openai/gpt-5.2-codex",
            "env": { "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_MODELS_FETCH": "1" },
        })
    },
    login: Some(|_| {
        let login = Login::EXPIRED;
        let tokens = json!({
            "type": "oauth", "access": login.access(), "refresh": login.refresh(), "expires": 1000,
            "accountId": "account",
        });
        (".local/share/opencode/auth.json", json!({ "openai": tokens }).to_string())
    }),
    renews: true,
    rewrites: Some(".local/share/opencode/auth.json"),
    ..OPENCODE
};
