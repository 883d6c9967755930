//! The Agent Client Protocol: what real agents said in it, what others might, and what comes of that.

use serde_json::{Value, json};
use watchfire_backends::acp::{AcpDialogue, Opening};
use watchfire_core::backend::{Dialogue, Fact, IssueKind, Message, Move, Part, Role, Status, conformance};
use watchfire_core::conformance::check;

/// A conversation and all that came of it.
struct Talk {
    dialogue: AcpDialogue,
    moves: Vec<Move>,
}

impl Talk {
    fn new(opening: Opening) -> Self {
        let mut dialogue = AcpDialogue::new(opening);
        let moves = dialogue.open();
        Self { dialogue, moves }
    }

    /// As far as a session that waits for a text.
    fn open() -> Self {
        let mut talk = Self::new(Opening::new("/w"));
        talk.hear(json!({ "id": 1, "result": { "protocolVersion": 1 } }));
        talk.hear(json!({ "id": 2, "result": { "sessionId": "s1" } }));
        assert!(talk.dialogue.is_ready());
        talk
    }

    fn hear(&mut self, message: Value) -> Vec<Move> {
        let moves = self.dialogue.hear(&message.to_string());
        self.moves.extend(moves.clone());
        moves
    }

    fn say(&mut self, text: &str) -> Vec<Move> {
        let moves = self.dialogue.say(text);
        self.moves.extend(moves.clone());
        moves
    }

    fn update(&mut self, update: Value) -> Vec<Move> {
        self.hear(json!({ "method": "session/update", "params": { "sessionId": "s1", "update": update } }))
    }

    fn parts(&self) -> Vec<(Role, Part)> {
        let messages =
            self.moves.iter().filter_map(|it| if let Move::Message(it) = it { Some(it) } else { None });
        messages.flat_map(|it| it.parts.iter().map(|part| (it.role, part.clone()))).collect()
    }

    fn facts(&self) -> Vec<&Fact> {
        self.moves.iter().filter_map(|it| if let Move::Fact(it) = it { Some(it) } else { None }).collect()
    }
}

/// What was written, as JSON.
fn written(moves: &[Move]) -> Vec<Value> {
    let lines = moves.iter().filter_map(|it| if let Move::Write(line) = it { Some(line) } else { None });
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn facts_of(moves: &[Move]) -> Vec<Fact> {
    moves.iter().filter_map(|it| if let Move::Fact(it) = it { Some(it.clone()) } else { None }).collect()
}

/// Plays what an agent once said, with two texts said to it.
fn replay(agent: &str) -> Talk {
    let path = format!("{}/tests/data/acp/{agent}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let mut talk = Talk::new(Opening::new("/w"));
    let mut texts = ["Implement Task #0001: say hello", "once again"].into_iter();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if talk.dialogue.is_ready()
            && let Some(text) = texts.next()
        {
            talk.say(text);
        }
        talk.moves.extend(talk.dialogue.hear(line));
    }
    talk
}

#[test]
fn what_real_agents_said_becomes_one_story() {
    for agent in ["claude", "codex", "copilot", "gemini", "opencode"] {
        let talk = replay(agent);
        let parts = talk.parts();
        let texts = |role| {
            let of = parts.iter().filter(|(by, _)| *by == role);
            of.filter_map(
                |(_, part)| if let Part::Text { text, .. } = part { Some(text.as_str()) } else { None },
            )
            .collect::<Vec<_>>()
        };
        assert_eq!(texts(Role::User), ["Implement Task #0001: say hello", "once again"], "{agent}");
        assert_eq!(texts(Role::Assistant), ["On it.", "All is done.", "Again it is."], "{agent}");
        let calls: Vec<_> = parts.iter().filter(|(_, part)| matches!(part, Part::ToolCall { .. })).collect();
        let [(_, Part::ToolCall { name, input, .. })] = calls[..] else { panic!("{agent}: {calls:?}") };
        assert!(input.contains("echo hello > hello.txt && git add -A"), "{agent}: {input}");
        assert_eq!(name, "execute", "{agent}");
        let results: Vec<_> = parts.iter().filter(|(role, _)| *role == Role::Tool).collect();
        let [(_, Part::ToolResult { text, failed: false, .. })] = results[..] else {
            panic!("{agent}: {results:?}")
        };
        // Gemini does not show it.
        assert!(text.contains("ok") || agent == "gemini", "{agent}: {text}");

        let facts = talk.facts();
        assert!(matches!(facts[0], Fact::VendorSession(id) if id.len() > 20), "{agent}: {facts:?}");
        let ends = facts.iter().filter(|fact| ***fact == Fact::TurnCompleted).count();
        assert_eq!((ends, facts.last()), (2, Some(&&Fact::Status(Status::Idle))), "{agent}");
        assert!(talk.dialogue.is_ready(), "{agent}");
    }
}

#[test]
fn tokens_count_once_whatever_the_cache() {
    for (agent, counted) in [
        ("claude", Some((120, 40, 80))),
        ("opencode", Some((60, 20, 40))),
        ("copilot", Some((120, 40, 80))),
        ("codex", None),
    ] {
        let talk = replay(agent);
        let usage = talk
            .moves
            .iter()
            .find_map(|it| if let Move::Message(Message { usage, .. }) = it { *usage } else { None });
        let usage = usage.map(|it| (it.input_tokens, it.output_tokens, it.cache_read_tokens));
        assert_eq!(usage, counted, "{agent}");
    }
}

#[test]
fn errors_become_issues() {
    for (agent, kind) in [
        ("claude-e401", IssueKind::AuthRequired),
        ("claude-e429", IssueKind::RateLimited),
        ("codex-e401", IssueKind::AuthRequired),
        ("gemini-e401", IssueKind::AuthRequired),
        ("opencode-e401", IssueKind::AuthRequired),
    ] {
        let talk = replay(agent);
        let issues: Vec<_> = talk
            .facts()
            .into_iter()
            .filter_map(|it| if let Fact::Issue(it) = it { Some(it) } else { None })
            .collect();
        let [issue] = issues[..] else { panic!("{agent}: {issues:?}") };
        assert_eq!(issue.kind, kind, "{agent}: {issue:?}");
        assert!(
            !issue.message.contains("Internal error") && !issue.message.contains('{'),
            "{agent}: {issue:?}"
        );
        // The next text got its answer.
        assert!(talk.facts().contains(&&Fact::IssueCleared(kind)), "{agent}");
        assert_eq!(talk.facts().last(), Some(&&Fact::Status(Status::Idle)), "{agent}");
    }
}

#[test]
fn whatever_an_agent_asks_for_is_answered_and_never_done() {
    let mut talk = Talk::open();
    talk.say("go");
    for method in
        ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x/y", ""]
    {
        let params = json!({ "sessionId": "s1", "path": "/etc/passwd", "command": "id", "content": "x" });
        let moves = talk.hear(json!({ "id": "q", "method": method, "params": params }));
        let [answer] = &written(&moves)[..] else { panic!("{method}: {moves:?}") };
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("q"), &json!(-32601)), "{method}");
        assert_eq!(moves.len(), 1, "{method}");
    }
    // One that could not be kept in memory gets none.
    assert!(talk.hear(json!({ "id": "x".repeat(1 << 20), "method": "m" })).is_empty());
    assert!(talk.hear(json!({ "id": { "a": 1 }, "method": "m" })).is_empty());
    let Value::Object(first) = &written(&talk.moves)[0] else { panic!() };
    assert_eq!(
        first["params"]["clientCapabilities"]["fs"],
        json!({ "readTextFile": false, "writeTextFile": false })
    );
    assert_eq!(first["params"]["clientCapabilities"]["terminal"], false);
}

#[test]
fn permission_is_granted_once_and_told() {
    let option = |kind: &str| json!({ "optionId": format!("id-{kind}"), "name": kind, "kind": kind });
    for (offered, chosen) in [
        (
            &["allow_always", "allow_once", "reject_once"][..],
            json!({ "outcome": "selected", "optionId": "id-allow_once" }),
        ),
        (&["reject_once", "allow_always"], json!({ "outcome": "selected", "optionId": "id-allow_always" })),
        (&["reject_always", "reject_once"], json!({ "outcome": "cancelled" })),
        (&[], json!({ "outcome": "cancelled" })),
    ] {
        let mut talk = Talk::open();
        talk.say("go");
        let options: Vec<Value> = offered.iter().map(|kind| option(kind)).collect();
        let call = json!({ "toolCallId": "t", "title": "rm -rf /", "kind": "execute" });
        let params = json!({ "sessionId": "s1", "toolCall": call, "options": options });
        let moves = talk.hear(json!({ "id": 0, "method": "session/request_permission", "params": params }));
        assert_eq!(written(&moves), [json!({ "jsonrpc": "2.0", "id": 0, "result": { "outcome": chosen } })]);
        let told = moves.iter().find_map(|it| {
            if let Move::Event { name, payload, .. } = it { Some((name, payload)) } else { None }
        });
        let (name, payload) = told.unwrap();
        assert_eq!(
            (name.as_str(), payload),
            (
                "permission",
                &json!({ "for": "rm -rf /", "granted": chosen != json!({ "outcome": "cancelled" }) })
            )
        );
    }
    let moves = Talk::open()
        .hear(json!({ "id": 5, "method": "session/request_permission", "params": { "options": 1 } }));
    assert_eq!(written(&moves)[0]["error"]["code"], -32602);
}

#[test]
fn a_session_is_gone_on_with_as_the_agent_can() {
    let resume = || Talk::new(Opening::new("/w").with_resume(Some("old".into())));
    let can = |can: Value| json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": can } });
    let mut talk = resume();
    let moves = talk.hear(can(json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } })));
    assert_eq!(written(&moves)[0]["method"], "session/resume");
    let mut talk = resume();
    let moves = talk.hear(can(json!({ "loadSession": true })));
    assert_eq!(
        (&written(&moves)[0]["method"], &written(&moves)[0]["params"]["sessionId"]),
        (&json!("session/load"), &json!("old"))
    );
    // It says again what was said, before it answers with nothing.
    let again =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "old words" } });
    let params = json!({ "sessionId": "old", "update": again });
    assert!(talk.hear(json!({ "method": "session/update", "params": params })).is_empty());
    let moves = talk.hear(json!({ "id": 2, "result": null }));
    assert_eq!(facts_of(&moves), [Fact::VendorSession("old".into()), Fact::Status(Status::Idle)]);
    assert!(talk.dialogue.is_ready() && talk.parts().is_empty());
    // What cannot be gone on with is not begun anew.
    let mut talk = resume();
    assert!(matches!(talk.hear(can(json!({})))[..], [_, Move::GiveUp(_)]));
    let mut talk = resume();
    talk.hear(can(json!({ "loadSession": true })));
    let moves = talk.hear(json!({ "id": 2, "error": { "code": -32002, "message": "no such session" } }));
    assert!(matches!(&moves[..], [_, Move::GiveUp(why)] if why == "no such session"), "{moves:?}");
}

#[test]
fn a_mode_is_set_where_there_is_one() {
    let modes = |now: &str| json!({ "currentModeId": now, "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "free", "name": "Free" }] });
    let begin = |mode: &str, modes: Value| {
        let meta = json!({ "systemPrompt": { "append": "be good" } }).as_object().unwrap().clone();
        let mut talk = Talk::new(Opening::new("/w").with_mode(mode).with_meta(meta));
        let asked = talk.hear(json!({ "id": 1, "result": { "protocolVersion": 1 } }));
        assert_eq!(
            written(&asked)[0]["params"],
            json!({ "cwd": "/w", "mcpServers": [], "_meta": { "systemPrompt": { "append": "be good" } } })
        );
        let moves = talk.hear(json!({ "id": 2, "result": { "sessionId": "s1", "modes": modes } }));
        (talk, moves)
    };
    let (mut talk, moves) = begin("free", modes("ask"));
    assert_eq!(written(&moves)[0]["params"], json!({ "sessionId": "s1", "modeId": "free" }));
    assert!(!talk.dialogue.is_ready());
    talk.hear(json!({ "id": 3, "error": { "code": -32603, "message": "not for root" } }));
    assert!(talk.dialogue.is_ready());
    for (mode, modes) in
        [("free", modes("free")), ("other", modes("ask")), ("free", Value::Null), ("free", json!(7))]
    {
        let (talk, moves) = begin(mode, modes);
        assert!(talk.dialogue.is_ready() && written(&moves).is_empty());
    }
}

#[test]
fn what_cannot_begin_is_given_up() {
    let error = |code: i32, message: &str| json!({ "id": 2, "error": { "code": code, "message": message } });
    for (first, second, issue) in [
        (json!({ "id": 1, "result": { "protocolVersion": 2 } }), None, None),
        (json!({ "id": 1, "result": {} }), None, None),
        (json!({ "id": 1, "error": { "code": -32601, "message": "Method not found" } }), None, None),
        (
            json!({ "id": 1, "result": { "protocolVersion": 1 } }),
            Some(json!({ "id": 2, "result": { "sessionId": "" , "x": 1 } })),
            None,
        ),
        (
            json!({ "id": 1, "result": { "protocolVersion": 1 } }),
            Some(json!({ "id": 2, "result": {} })),
            None,
        ),
        (
            json!({ "id": 1, "result": { "protocolVersion": 1 } }),
            Some(error(-32000, "Authentication required: log in")),
            Some(IssueKind::AuthRequired),
        ),
        (
            json!({ "id": 1, "result": { "protocolVersion": 1 } }),
            Some(error(429, "slow down")),
            Some(IssueKind::RateLimited),
        ),
    ] {
        let mut talk = Talk::new(Opening::new("/w"));
        let mut moves = talk.hear(first);
        if let Some(second) = second.clone() {
            moves = talk.hear(second);
        }
        let kinds: Vec<_> = facts_of(&moves)
            .into_iter()
            .filter_map(|it| if let Fact::Issue(it) = it { Some(it.kind) } else { None })
            .collect();
        assert_eq!(kinds, Vec::from_iter(issue), "{moves:?}");
        assert!(matches!(moves.last(), Some(Move::GiveUp(_))), "{second:?}: {moves:?}");
        assert!(!talk.dialogue.is_ready());
        assert!(talk.hear(json!({ "id": 9, "method": "late" })).is_empty(), "all is said");
    }
}

/// As Gemini does without a login and a browser.
#[test]
fn a_login_that_is_asked_for_in_plain_text_is_an_issue() {
    let mut talk = Talk::new(Opening::new("/w"));
    assert!(talk.dialogue.hear("Loaded cached credentials.").is_empty());
    let moves = talk.dialogue.hear("Please visit the following URL to authorize the application:");
    let [Fact::Issue(issue), ..] = &facts_of(&moves)[..] else { panic!("{moves:?}") };
    assert_eq!(issue.kind, IssueKind::AuthRequired);
    assert!(matches!(moves.last(), Some(Move::GiveUp(_))), "{moves:?}");
}

#[test]
fn a_turn_ends_for_a_reason() {
    for (result, status, says) in [
        (json!({ "stopReason": "end_turn" }), Status::Idle, None),
        (json!({ "stopReason": "cancelled" }), Status::Idle, None),
        (json!({ "stopReason": "max_tokens" }), Status::Idle, Some("too long")),
        (json!({ "stopReason": "max_turn_requests" }), Status::Idle, Some("too many requests")),
        (json!({ "stopReason": "refusal" }), Status::Idle, Some("refuses")),
        (json!({ "stopReason": "tired" }), Status::Idle, None),
        (json!([]), Status::Idle, None),
    ] {
        let mut talk = Talk::open();
        assert_eq!(facts_of(&talk.say("go")), [Fact::Status(Status::Processing)]);
        assert!(!talk.dialogue.is_ready());
        // An answer to something else.
        assert!(talk.hear(json!({ "id": 2, "result": result })).is_empty());
        let moves = talk.hear(json!({ "id": 3, "result": result }));
        assert_eq!(facts_of(&moves), [Fact::TurnCompleted, Fact::Status(status)], "{result}");
        let error = talk
            .parts()
            .into_iter()
            .find_map(|(_, part)| if let Part::Error { text, .. } = part { Some(text) } else { None });
        assert_eq!(error.is_some(), says.is_some(), "{result}");
        assert!(error.unwrap_or_default().contains(says.unwrap_or_default()));
        assert!(talk.dialogue.is_ready());
        assert!(talk.hear(json!({ "id": 3, "result": result })).is_empty(), "it ends once");
    }
}

#[test]
fn only_a_running_turn_is_interrupted() {
    let mut talk = Talk::open();
    assert!(talk.dialogue.interrupt().is_empty());
    talk.say("go");
    let moves = talk.dialogue.interrupt();
    assert_eq!(
        written(&moves),
        [json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s1" } })]
    );
    talk.hear(json!({ "id": 3, "error": { "code": -32800, "message": "cancelled" } }));
    assert_eq!(talk.facts().last(), Some(&&Fact::Status(Status::Idle)));
}

#[test]
fn a_text_arrives_as_it_is() {
    let text = "  /not a command\r\n\u{1b}[201~\u{3} grüße 🔥 \"quoted\" \\ \u{0} end \n";
    let moves = Talk::open().say(text);
    let [asked] = &written(&moves)[..] else { panic!("{moves:?}") };
    assert_eq!(asked["params"]["prompt"], json!([{ "type": "text", "text": text }]));
}

#[test]
fn pieces_are_gathered_and_nothing_grows_without_end() {
    let mut talk = Talk::open();
    talk.say("go");
    let chunk = |kind: &str, text: &str| json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
    let first = talk.update(chunk("agent_thought_chunk", "hm"));
    assert!(facts_of(&first).contains(&Fact::IssueCleared(IssueKind::RateLimited)));
    assert!(talk.update(chunk("agent_thought_chunk", "m")).is_empty(), "told when it is whole");
    talk.update(chunk("agent_message_chunk", "Hello"));
    talk.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": "one", "priority": "high", "status": "pending" }] }));
    // Another session's words, and kinds that nobody knows.
    let params = json!({ "sessionId": "s2", "update": chunk("agent_message_chunk", "other") });
    assert!(talk.hear(json!({ "method": "session/update", "params": params })).is_empty());
    assert!(talk.update(json!({ "sessionUpdate": "dance" })).is_empty());
    talk.hear(json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let said: Vec<Part> = talk.parts().into_iter().skip(1).map(|(_, part)| part).collect();
    assert_eq!(said, [Part::thinking("hmm"), Part::text("Hello")]);
    assert!(talk.moves.iter().any(|it| matches!(it, Move::Event { name, .. } if name == "plan")));

    talk.say("flood");
    for n in 0..200 {
        talk.update(chunk("agent_message_chunk", &"x".repeat(1024)));
        talk.update(json!({ "sessionUpdate": "tool_call", "toolCallId": format!("call-{n}"), "title": "t" }));
    }
    for n in 0..200 {
        talk.update(chunk("agent_message_chunk", &"y".repeat(1024)));
        talk.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "x".repeat(1000), "title": format!("t{n}") }));
    }
    assert!(format!("{:?}", talk.dialogue).len() < 64 * 1024, "what it keeps is bounded");
}

#[test]
fn conforms() {
    judge(|| Box::new(AcpDialogue::new(Opening::new("/w"))));
    let resumed = Opening::new("/w").with_resume(Some("s1".into())).with_mode("free");
    judge(move || Box::new(AcpDialogue::new(resumed.clone())));
    // Also with a session that is open, whose agent has gone mad.
    judge(|| Box::new(Opened(Talk::open().dialogue)));
}

fn judge(make: impl Fn() -> Box<dyn Dialogue> + Clone + 'static) {
    check(conformance::DIALOGUE, || Box::new(make.clone())).unwrap();
}

/// A conversation whose opening is over.
#[derive(Debug)]
struct Opened(AcpDialogue);

impl Dialogue for Opened {
    fn open(&mut self) -> Vec<Move> {
        self.0.say("go")
    }

    fn hear(&mut self, line: &str) -> Vec<Move> {
        self.0.hear(line)
    }

    fn say(&mut self, text: &str) -> Vec<Move> {
        self.0.say(text)
    }

    fn interrupt(&mut self) -> Vec<Move> {
        self.0.interrupt()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}
