//! Every backend of this crate against the suite of the contract.

use watchfire_backends::{
    Aider, ClaudeCode, Cline, Codex, Command, Continue, Copilot, CursorAgent, Gemini, OpenCode, Scripted,
};
use watchfire_core::backend::{Backends, PromptDelivery, SessionContext, Transport, conformance};
use watchfire_core::model::{Mode, Settings};

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
        #[cfg(feature = "acp")]
        r#"{"path":"x","transport":"acp"}"#,
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

/// Every agent that speaks it is prepared for it where it is built in, and refused where it is not.
#[test]
fn the_agent_client_protocol_is_built_in_or_refused() {
    let backends = Backends::linked().unwrap();
    let speak = ["claude-code", "codex", "copilot", "gemini", "opencode", "scripted"];
    for backend in backends.iter() {
        let home = tempfile::tempdir().unwrap();
        let mut context = SessionContext::new(
            "s1".parse().unwrap(),
            backend.name().parse().unwrap(),
            Mode::Task,
            "/bin/agent",
            home.path(),
            "/w",
        );
        context.settings = serde_json::from_str(r#"{"transport":"acp","model":"m"}"#).unwrap();
        context.helper = vec!["/helper".into()];
        context.first_prompt = Some("a text\nof two lines".into());
        let prepared = backend.prepare(&context);
        match (speak.contains(&backend.name()), cfg!(feature = "acp")) {
            (false, _) => assert_eq!(prepared.unwrap_err().code(), "invalid_input", "{}", backend.name()),
            (true, false) => assert_eq!(prepared.unwrap_err().code(), "not_supported", "{}", backend.name()),
            (true, true) => {
                let launch = prepared.unwrap();
                assert!(matches!(launch.transport, Transport::Dialogue { .. }), "{launch:?}");
                assert!(matches!(&launch.prompt, PromptDelivery::Typed(text) if text.ends_with("two lines")));
                assert!(backend.dialogue(&context).is_some(), "{}", backend.name());
            }
        }
        context.settings = Default::default();
        assert!(backend.dialogue(&context).is_none(), "{}", backend.name());
    }
}
