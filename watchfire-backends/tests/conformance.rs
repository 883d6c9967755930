//! Every backend of this crate against the suite of the contract.

use watchfire_backends::{
    Aider, ClaudeCode, Cline, Codex, Command, Continue, Copilot, CursorAgent, Gemini, OpenCode, Scripted,
};
use watchfire_core::backend::{Backends, conformance};
use watchfire_core::model::Settings;

#[test]
fn scripted() {
    conformance::check(&Scripted).unwrap();
}

#[test]
fn claude_code() {
    conformance::check(&ClaudeCode).unwrap();
}

#[test]
fn codex() {
    conformance::check(&Codex).unwrap();
}

#[test]
fn copilot() {
    conformance::check(&Copilot).unwrap();
}

#[test]
fn gemini() {
    conformance::check(&Gemini).unwrap();
}

#[test]
fn opencode() {
    conformance::check(&OpenCode).unwrap();
}

#[test]
fn aider() {
    conformance::check(&Aider).unwrap();
}

#[test]
fn cline() {
    conformance::check(&Cline).unwrap();
}

#[test]
fn continue_cli() {
    conformance::check(&Continue).unwrap();
}

#[test]
fn cursor_agent() {
    conformance::check(&CursorAgent).unwrap();
}

#[test]
fn command() {
    for entry in [
        r#"{"path":"no-such-agent"}"#,
        r#"{"path":"/no/such/agent","prompt_mode":"arg","args":["-s","{system_prompt_file}","{prompt}"]}"#,
        r#"{"path":"x","prompt_mode":"file","args":["{prompt_file}"],"env":{"KEY":"k"}}"#,
        r#"{"path":"x","prompt_mode":"stdin","args":["--id","{session_id}"],"resume_args":["-r","{session_id}"]}"#,
        r#"{"path":"x","framing":"literal","ready":["> "],"transcript":"{home}/*.jsonl"}"#,
    ] {
        let entry = serde_json::from_str(entry).unwrap();
        let command = Command::from_settings("my-agent".parse().unwrap(), &entry).unwrap();
        conformance::check(&command).unwrap();
    }
}

#[test]
fn settings_make_backends_and_aliases_find_them() {
    let mut settings = Settings::default();
    for (name, entry) in [("claude-code", r#"{"path":"/x"}"#), ("mine", r#"{"path":"/y"}"#), ("other", "{}")]
    {
        settings.agents.insert(name.into(), serde_json::from_str(entry).unwrap());
    }
    let backends = Backends::linked().unwrap().with_configured(&settings).unwrap();
    for (alias, name) in [("claude", "claude-code"), ("cn", "continue"), ("cursor", "cursor-agent")] {
        assert_eq!(backends.get(alias).unwrap().name(), name);
    }
    assert_eq!(backends.get("claude-code").unwrap().display_name(), "Claude Code");
    assert_eq!(backends.get("mine").unwrap().name(), "mine");
    assert_eq!(backends.get("other").unwrap_err().code(), "unknown_backend");
    settings.agents.insert("Bad Name".into(), serde_json::from_str(r#"{"path":"/y"}"#).unwrap());
    assert!(Backends::linked().unwrap().with_configured(&settings).is_err());
}
