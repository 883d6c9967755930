//! Payloads of real hooks: what they say, and for which session.

use std::fs;
use std::path::Path;

use watchfire_backends as _;
use watchfire_core::backend::{Backends, Fact, Observation};

const CLAUDE: &str = "572231f0-ac63-4ba6-9d9e-c94731cea032";
const CODEX: &str = "01a1fffe-b0c8-7392-ae13-188181b2d86e";

/// Agent, the session as it is known, and what its recorded hooks say, in order.
const CASES: &[(&str, Option<&str>, &[&str])] = &[
    (
        "claude",
        None,
        &[
            "session 572231f0-ac63-4ba6-9d9e-c94731cea032",
            "processing",
            "turn",
            "idle",
            "session 52e41924-dc0f-4bb2-9716-e265f968f987",
            "processing",
            "rate_limited",
            "turn",
            "error",
        ],
    ),
    ("codex", Some(CODEX), &["turn"]),
    // Of threads that are not ours, or while ours is not known: nothing.
    ("codex", Some(CLAUDE), &[]),
    ("codex", None, &[]),
    ("gemini", None, &["session d29f353e-4247-4990-94f3-b6a8d083dcf8", "turn"]),
    ("copilot", None, &["session 3cf5748c-acb3-4c21-9bd6-77d0cc7f4949", "turn"]),
];

#[test]
fn recorded_hooks_say_what_happened() {
    let backends = Backends::linked().unwrap();
    for (agent, session, expected) in CASES {
        let backend = backends.get(agent).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(agent).join("hooks.tsv");
        let mut said = Vec::new();
        for line in fs::read_to_string(path).unwrap().lines() {
            let (event, payload) = line.split_once('\t').unwrap();
            let hook = Observation::hook(event, payload, *session);
            said.extend(backend.interpret(&hook).iter().map(word));
        }
        assert_eq!(said, *expected, "{agent} as {session:?}");
    }
}

fn word(fact: &Fact) -> String {
    match fact {
        Fact::Status(status) => status.as_str().to_owned(),
        Fact::TurnCompleted => "turn".to_owned(),
        Fact::VendorSession(id) => format!("session {id}"),
        Fact::Issue(issue) => serde_json::to_value(issue.kind).unwrap().as_str().unwrap().to_owned(),
        other => format!("{other:?}"),
    }
}

/// It comes as "too many requests"; only its words tell it from a rate limit.
#[test]
fn a_hook_tells_the_limit_of_a_plan_from_too_many_requests() {
    let backend = Backends::linked().unwrap().get("claude-code").unwrap();
    for (said, kind) in [
        ("You've hit your 5-hour limit · resets 3am (UTC)", "usage_limit"),
        ("API Error: Request rejected (429)", "rate_limited"),
    ] {
        let payload =
            serde_json::json!({ "error": "rate_limit", "last_assistant_message": said }).to_string();
        let hook = Observation::hook("StopFailure", &payload, None);
        let told: Vec<_> = backend.interpret(&hook).iter().map(word).collect();
        assert_eq!(told, [kind, "turn", "error"]);
    }
}
