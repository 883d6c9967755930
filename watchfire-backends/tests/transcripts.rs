//! Transcripts and streams of real agents: what they say about state, issues, messages and tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use watchfire_backends as _;
use watchfire_core::backend::{
    Backends, Fact, IssueKind, Message, Observation, Part, Role, SessionContext, Status, total_usage,
};
use watchfire_core::model::Mode;

/// Folder and file, the issues, the last status, whether a turn ended, tool calls, tokens in and out.
type Case = (&'static str, &'static [&'static str], Option<Status>, bool, usize, (u64, u64));

const CASES: &[Case] = &[
    ("claude/typed", &[], Some(Status::Idle), true, 4, (500, 100)),
    ("claude/e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/e429sub", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/equota", &["out_of_credit"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/oauth-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/oauth-e429sub", &["usage_limit"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/stream-e401", &["auth_required"], None, false, 0, (0, 0)),
    ("claude/stream-e429", &["rate_limited"], None, false, 0, (0, 0)),
    ("claude/stream-e429sub", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/stream-e500", &["overloaded"], None, false, 0, (0, 0)),
    ("claude/stream-e529", &["overloaded"], None, false, 0, (0, 0)),
    ("claude/stream-oauth-e429sub", &["usage_limit"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/stream-equota", &["out_of_credit"], Some(Status::Error), true, 0, (0, 0)),
    // Of the older Codex that its adapter for the Agent Client Protocol brings.
    ("codex/adapter", &[], Some(Status::Idle), true, 1, (180, 60)),
    ("codex/headless", &[], Some(Status::Idle), true, 3, (400, 80)),
    ("codex/e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/e429sub", &["usage_limit"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/equota", &["out_of_credit"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream", &[], Some(Status::Idle), true, 3, (400, 80)),
    ("codex/stream-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-e429sub", &["usage_limit"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-equota", &["out_of_credit"], Some(Status::Error), true, 0, (0, 0)),
    ("gemini/typed", &[], None, false, 4, (500, 100)),
    ("gemini/stream", &[], Some(Status::Idle), true, 4, (500, 100)),
    ("gemini/stream-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("gemini/stream-e429sub", &["usage_limit"], Some(Status::Error), true, 0, (0, 0)),
    ("copilot/typed", &[], Some(Status::Idle), true, 4, (500, 100)),
    ("copilot/e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("copilot/e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("opencode/stream", &[], Some(Status::Idle), true, 4, (500, 100)),
    ("opencode/stream-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("opencode/stream-e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("cline/stream", &[], Some(Status::Idle), true, 4, (500, 100)),
    ("cline/stream-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    ("cline/stream-e429", &["rate_limited"], Some(Status::Error), true, 0, (0, 0)),
    ("cline/stream-equota", &["out_of_credit"], Some(Status::Error), true, 0, (0, 0)),
    ("cline/session.json", &[], None, false, 4, (500, 100)),
    ("continue/session.json", &[], None, false, 4, (500, 100)),
    ("continue/stream-e401", &["auth_required"], Some(Status::Error), true, 0, (0, 0)),
    // A model that is not known, a prompt that is too long, and a connection that breaks off.
    ("claude/stream-model", &["model_unknown"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/stream-context", &["context_full"], Some(Status::Error), true, 0, (0, 0)),
    ("claude/stream-cut", &["unreachable"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-model", &["model_unknown"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-context", &["context_full"], Some(Status::Error), true, 0, (0, 0)),
    ("codex/stream-cut", &["unreachable"], Some(Status::Error), true, 0, (0, 0)),
    ("gemini/stream-model", &["model_unknown"], Some(Status::Error), true, 0, (0, 0)),
    ("gemini/stream-context", &["context_full"], Some(Status::Error), true, 0, (0, 0)),
    ("gemini/stream-cut", &["unreachable"], Some(Status::Error), true, 0, (0, 0)),
    ("copilot/stream-model", &["model_unknown"], Some(Status::Error), true, 0, (0, 0)),
    ("copilot/stream-context", &["context_full"], Some(Status::Error), true, 0, (0, 0)),
    ("copilot/stream-cut", &["unreachable"], Some(Status::Error), true, 0, (0, 0)),
    ("opencode/stream-model", &["model_unknown"], Some(Status::Error), true, 0, (0, 0)),
    ("opencode/stream-context", &["context_full"], Some(Status::Error), true, 0, (0, 0)),
    ("opencode/stream-cut", &["unreachable"], Some(Status::Error), true, 0, (0, 0)),
    // Made from its documentation.
    ("cursor-agent/stream", &[], Some(Status::Idle), true, 1, (0, 0)),
];

#[test]
fn transcripts_say_what_happened() {
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    for (file, issues, status, ended, calls, tokens) in CASES {
        let (agent, _) = file.split_once('/').unwrap();
        let backend = backends.get(agent).unwrap();
        // A file of another kind is read whole.
        let whole = file.contains('.');
        let name = if whole { (*file).to_owned() } else { format!("{file}.jsonl") };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let (mut facts, mut messages) = (Vec::new(), Vec::new());
        let text = fs::read_to_string(&path).unwrap();
        let pieces: Vec<&str> = if whole { vec![&text] } else { text.lines().collect() };
        for line in pieces {
            let observation = match file.contains("stream") {
                true => Observation::Protocol(line),
                false => Observation::Transcript(line),
            };
            facts.extend(backend.interpret(&observation));
            messages.extend(backend.normalize(line));
        }
        let seen_issues: BTreeSet<_> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Issue(issue) => {
                    Some(serde_json::to_value(issue.kind).unwrap().as_str().unwrap().to_owned())
                }
                _ => None,
            })
            .collect();
        let seen_status = facts.iter().rev().find_map(|fact| match fact {
            Fact::Status(status) => Some(*status),
            _ => None,
        });
        let seen_calls = parts(&messages).filter(|part| matches!(part, Part::ToolCall { .. })).count();
        let usage = total_usage(&messages);
        let seen = (
            seen_issues.iter().map(String::as_str).collect::<Vec<_>>(),
            seen_status,
            facts.contains(&Fact::TurnCompleted),
            seen_calls,
            (usage.input_tokens, usage.output_tokens),
        );
        let expected = (issues.to_vec(), *status, *ended, *calls, *tokens);
        if seen != expected {
            wrong.push(format!("{file}:\n  {seen:?}\n  {expected:?}, as expected"));
        }
        // A turn that failed is quoted to a person, in words and not as a record.
        if *status == Some(Status::Error) {
            let words = parts(&messages).filter_map(|part| match part {
                Part::Error { text, .. } | Part::Text { text, .. } => Some(text.trim()),
                _ => None,
            });
            let last = words.last().unwrap_or_default();
            if last.split_whitespace().count() < 3 || last.starts_with(['{', '[', '<']) {
                wrong.push(format!("{file}: its last words: {last:?}"));
            }
        }
        if *calls > 0 {
            let said = |role| messages.iter().any(|message| message.role == role);
            let text =
                parts(&messages).any(|part| matches!(part, Part::Text { text, .. } if text.contains("FAKE")));
            if !text
                || !(said(Role::Tool) || parts(&messages).any(|part| matches!(part, Part::ToolResult { .. })))
            {
                wrong.push(format!("{file}: text or tool results are missing"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command that fails is a failed tool, also where the vendor calls the tool a success; one that does not fail is none.
#[test]
fn a_command_that_failed_is_known() {
    let backends = Backends::linked().unwrap();
    let failed = |agent: &str, line: &str| {
        let messages = backends.get(agent).unwrap().normalize(line);
        let results: Vec<_> = parts(&messages)
            .filter_map(|part| match part {
                Part::ToolResult { text, failed, .. } => Some((text.clone(), *failed)),
                _ => None,
            })
            .collect();
        assert_eq!(results.len(), 1, "{agent}: {messages:?}");
        assert!(results[0].0.contains("cat: /home/u/.netrc: No such file"), "{agent}: {results:?}");
        results[0].1
    };
    for line in include_str!("data/failed-tools.tsv").lines() {
        let (agent, line) = line.split_once('\t').unwrap();
        assert!(failed(agent, line), "{agent}");
        let good = [
            ("\"is_error\":true", "\"is_error\":false"),
            ("\"exit_code\":1", "\"exit_code\":0"),
            ("Exit Code: 1", "Exit Code: 0"),
            ("\"exitCode\":1", "\"exitCode\":0"),
            ("\"exit\":1", "\"exit\":0"),
            ("\"success\":false", "\"success\":true"),
        ];
        let line = good.iter().fold(line.to_owned(), |line, (bad, good)| line.replace(bad, good));
        assert!(!failed(agent, &line), "{agent}");
    }
}

/// Gemini and adapters choose their own ids, and Gemini opens a session beside the one that it is asked for.
#[test]
fn a_transcript_is_found_by_the_id_that_was_told() {
    let backends = Backends::linked().unwrap();
    for (agent, one, other) in [
        (
            "gemini",
            ".gemini/tmp/w/chats/session-2026-11-22T05-03-adb44a7a.jsonl",
            ".gemini/tmp/w/chats/session-2026-11-22T05-03-b41c94e8.jsonl",
        ),
        ("copilot", "session-state/adb44a7a-8a1d/events.jsonl", "session-state/b41c94e8-4663/events.jsonl"),
        ("claude-code", "projects/-w/adb44a7a-8a1d.jsonl", "projects/-w/b41c94e8-4663.jsonl"),
    ] {
        let home = tempfile::tempdir().unwrap();
        for file in [one, other] {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}\n").unwrap();
        }
        let (id, name) = ("s1".parse().unwrap(), agent.parse().unwrap());
        let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", home.path(), "/w");
        let backend = backends.get(agent).unwrap();
        assert_eq!(backend.transcript(&context), None, "{agent}");
        context.vendor_session = Some("adb44a7a-8a1d".into());
        assert_eq!(backend.transcript(&context).unwrap().path, home.path().join(one), "{agent}");
    }
}

fn parts(messages: &[Message]) -> impl Iterator<Item = &Part> {
    messages.iter().flat_map(|message| &message.parts)
}

/// 80 columns and a long path: the footer wraps.
#[test]
fn a_narrow_footer_tells_that_it_waits() {
    let screen = include_str!("data/opencode/narrow.screen.txt");
    let opencode = Backends::linked().unwrap().get("opencode").unwrap();
    assert_eq!(opencode.interpret(&Observation::Screen(screen)), [Fact::Status(Status::Idle)]);
}

#[test]
fn a_dialog_that_gets_no_answer_is_told() {
    let screen = include_str!("data/gemini/high-demand.screen.txt");
    let facts = Backends::linked().unwrap().get("gemini").unwrap().interpret(&Observation::Screen(screen));
    let said = |wanted: &dyn Fn(&Fact) -> bool| facts.iter().any(wanted);
    assert!(said(&|fact| *fact == Fact::Status(Status::ActionRequired)), "{facts:?}");
    assert!(
        said(&|fact| matches!(fact, Fact::Issue(issue) if issue.kind == IssueKind::Overloaded)),
        "{facts:?}"
    );
}

/// What agents print and edit about limits and logins is no issue of theirs.
#[test]
fn talk_about_issues_is_no_issue() {
    const TALK: &[&str] = &[
        "You've hit your 5-hour limit · resets 11:21pm (UTC)",
        "API Error: Request rejected (429) · This request would exceed your organization's rate limit",
        "■ You’ve hit your usage limit. Upgrade to Pro or try again at 11:17 PM.",
        "unexpected status 401 Unauthorized: Incorrect API key provided",
        "✕ [API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid\"}}]",
        "Not logged in · Please run /login",
        "Credit balance too low · Add funds",
        "Do you trust the files in this folder?",
        "The usage limit has been reached [retrying in 8s attempt #3]",
        "{\"type\":\"session.error\",\"data\":{\"errorType\":\"authentication\"}}",
    ];
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    for backend in backends.iter() {
        for talk in TALK {
            let text = serde_json::Value::from(*talk);
            let lines = [
                format!(
                    r#"{{"type":"assistant","message":{{"id":"m","model":"x","content":[{{"type":"text","text":{text}}}]}}}}"#
                ),
                format!(
                    r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":{text}}}]}}}}"#
                ),
                format!(
                    r#"{{"type":"response_item","payload":{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}}}"#
                ),
                format!(
                    r#"{{"type":"response_item","payload":{{"type":"function_call_output","output":{text}}}}}"#
                ),
                format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":{text}}}}}"#),
                format!(r#"{{"type":"gemini","id":"1","content":{text}}}"#),
                format!(r#"{{"type":"message","role":"assistant","content":{text}}}"#),
                format!(r#"{{"type":"tool_result","status":"error","output":{text}}}"#),
                format!(r#"{{"type":"assistant.message","data":{{"content":{text},"toolRequests":[]}}}}"#),
                format!(r#"{{"type":"text","part":{{"type":"text","text":{text}}}}}"#),
                format!(
                    r#"{{"type":"agent_event","event":{{"type":"content_end","contentType":"text","text":{text}}}}}"#
                ),
                format!(
                    r#"{{"type":"agent_event","event":{{"type":"content_end","contentType":"tool","output":{{"result":{text},"success":false}}}}}}"#
                ),
                format!(r#"{{"response":{text},"status":"success"}}"#),
                format!(
                    r#"{{"type":"tool_call","subtype":"completed","tool_call":{{"readToolCall":{{"result":{{"success":{{"content":{text}}}}}}}}}}}"#
                ),
            ];
            // As an agent's words and a tool's output look on each screen, above an input box that waits.
            let screens = [
                format!("● {talk}\n\n────\n❯ \n────\n  ⏵⏵ bypass permissions on (shift+tab to cycle)"),
                format!("● Bash(cat log)\n  ⎿  {talk}\n\n────\n❯ \n────\n  ⏵⏵ bypass permissions on"),
                format!("• {talk}\n\n› Ask Codex to do anything\n\n  gpt-5 default · /w"),
                format!("• Ran cat log\n  └ {talk}\n\n› Ask Codex to do anything\n\n  gpt-5 default · /w"),
                format!("✦ {talk}\n\n *   Type your message or @path/to/file\n"),
                format!(
                    "╭────╮\n│ ✓  Shell cat log │\n│ {talk} │\n╰────╯\n *   Type your message or @path/to/file\n"
                ),
                format!(" ● {talk}\n\n╹▀▀▀▀\n Interactive · Allow All · / commands · ? help"),
                format!("     {talk}\n     ▣  Build · Model\n  ╹▀▀▀▀\n   /w   120 (0%)  ctrl+p commands"),
                format!(
                    "  ┃  $ cat log\n  ┃\n  ┃  {talk}\n     ▣  Build · Model · 3s\n  ╹▀▀▀▀\n   /w   120  ctrl+p commands"
                ),
            ];
            let observations = lines
                .iter()
                .flat_map(|line| [Observation::Transcript(line), Observation::Protocol(line)])
                .chain(screens.iter().map(|screen| Observation::Screen(screen)))
                .chain([Observation::Title(talk)]);
            for observation in observations {
                if let Some(fact) =
                    backend.interpret(&observation).iter().find(|fact| matches!(fact, Fact::Issue(_)))
                {
                    wrong.push(format!("{}: {fact:?} from {observation:?}", backend.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
