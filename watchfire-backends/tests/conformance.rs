//! Every backend of this crate against the suite of the contract.

use watchfire_backends::{
    Aider, ClaudeCode, Cline, Codex, Command, Continue, Copilot, CursorAgent, Gemini, OpenCode, Scripted,
};
use watchfire_core::backend::Backend;
use watchfire_core::backend::conformance::CASES;
use watchfire_core::conformance::Suites;

/// Programs that settings configure, each in another way.
const CONFIGURED: &[(&str, &str)] = &[
    ("program", r#"{"path":"no-such-agent"}"#),
    (
        "prompt_as_argument",
        r#"{"path":"/no/such/agent","prompt_mode":"arg","args":["-s","{system_prompt_file}","{prompt}"]}"#,
    ),
    ("prompt_in_file", r#"{"path":"x","prompt_mode":"file","args":["{prompt_file}"],"env":{"KEY":"k"}}"#),
    (
        "prompt_on_stdin",
        r#"{"path":"x","prompt_mode":"stdin","args":["--id","{session_id}"],"resume_args":["-r","{session_id}"]}"#,
    ),
    #[cfg(feature = "acp")]
    ("acp", r#"{"path":"x","transport":"acp"}"#),
    ("ready_by_screen", r#"{"path":"x","framing":"literal","ready":["> "],"transcript":"{home}/*.jsonl"}"#),
];

fn main() {
    let suites = Suites::new()
        .with("aider", CASES, || Box::new(Aider))
        .with("claude_code", CASES, || Box::new(ClaudeCode))
        .with("cline", CASES, || Box::new(Cline))
        .with("codex", CASES, || Box::new(Codex))
        .with("continue_cli", CASES, || Box::new(Continue))
        .with("copilot", CASES, || Box::new(Copilot))
        .with("cursor_agent", CASES, || Box::new(CursorAgent))
        .with("gemini", CASES, || Box::new(Gemini))
        .with("opencode", CASES, || Box::new(OpenCode))
        .with("scripted", CASES, || Box::new(Scripted));
    let configured = CONFIGURED.iter().fold(suites, |suites, (name, entry)| {
        let make = move || -> Box<dyn Backend> {
            let entry = serde_json::from_str(entry).unwrap();
            Box::new(Command::from_settings("my-agent".parse().unwrap(), &entry).unwrap())
        };
        suites.with(&format!("command::{name}"), CASES, make)
    });
    configured.run()
}
