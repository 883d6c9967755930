//! The backends that linking and settings make, and what their launches hold.

use watchfire_backends::{Codex, Gemini};
use watchfire_core::backend::{Backend, Backends, PromptDelivery, SessionContext, Transport};
use watchfire_core::model::{Mode, Settings};

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
    assert_eq!(backends.get("Codx").unwrap_err().detail("hint"), Some("did you mean codex?"));
    assert_eq!(backends.get("other").unwrap_err().detail("hint"), None);
    settings.agents.insert("Bad Name".into(), serde_json::from_str(r#"{"path":"/y"}"#).unwrap());
    assert!(Backends::linked().unwrap().with_configured(&settings).is_err());
}

/// Warnings name options of other agents, misspelt options, and entries that are no agent.
#[test]
fn settings_that_no_agent_reads() {
    let settings: Settings = serde_json::from_str(
        r#"{"agents": {
            "claude-code": {"model": "m", "transport": "pty", "carry": [], "x-mine": 1, "settle_ms": 5},
            "cline": {"provider": "p", "carry": []},
            "codex": {"modle": "m", "nonsense": true},
            "codx": {"model": "m"},
            "mine": {"path": "/y", "settle_ms": 5}
        }}"#,
    )
    .unwrap();
    let backends = Backends::linked().unwrap().with_configured(&settings).unwrap();
    let told: Vec<_> = backends.unread_settings(&settings).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "`agents.claude-code.settle_ms` is an option of other agents and changes nothing",
            "`agents.cline.carry` is an option of other agents and changes nothing",
            "`agents.codex.modle` is no key of settings.yaml and changes nothing; did you mean `agents.codex.model`?",
            "`agents.codex.nonsense` is no key of settings.yaml and changes nothing",
            "`agents.codx` is no key of settings.yaml and changes nothing",
        ]
    );
}

/// Codex without a daemon does not start with the flag that forbids one.
#[test]
fn codex_gets_the_flags_of_its_version() {
    for (version, expected) in [("0.150.1", false), ("0.155.0", false), ("0.156.1", true), ("1.0.0", true)] {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("bin/codex.js");
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(&program, "").unwrap();
        std::fs::write(dir.path().join("package.json"), format!(r#"{{"version":"{version}"}}"#)).unwrap();
        assert_eq!(args(&Codex, &program).contains(&"--no-daemon".to_owned()), expected, "{version}");
    }
    assert!(args(&Codex, "/bin/agent".as_ref()).contains(&"--no-daemon".to_owned()), "unknown");
}

/// Its own tools open nothing outside of its workspace.
#[test]
fn gemini_may_open_the_files_of_its_session() {
    let args = args(&Gemini, "/bin/agent".as_ref());
    // The flag takes every word up to the next flag.
    let shown =
        |words: &[String]| words[..2] == ["--include-directories", "/session"] && words[2].starts_with("--");
    assert!(args.windows(3).any(shown), "{args:?}");
}

/// Returns the arguments of a session on a terminal.
fn args(backend: &dyn Backend, program: &std::path::Path) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let (id, name) = ("s1".parse().unwrap(), backend.name().parse().unwrap());
    let mut context = SessionContext::new(id, name, Mode::Task, program, home.path(), "/w");
    context.session_dir = "/session".into();
    let launch = backend.prepare(&context).unwrap();
    launch.command.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
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
