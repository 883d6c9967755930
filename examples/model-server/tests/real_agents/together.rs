//! Four agents of four vendors on one project, which ask each other and the person. Each has its own task and its own model,
//! which waits for what the others were told where the work needs it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire_core::orchestrator::{ProjectHandle, RunRequest, Seen};
use watchfire_core::schedule::{Change, Ending, LifeState};
use watchfire_core::store::NewTask;
use watchfire_model_server::{Ask, ModelServer};

use super::agents::{Agent, CLAUDE_CODE, CODEX, COPILOT, GEMINI};
use super::harness::{Checked, git, must};
use super::stage::{Stage, failed, log, told};

const DEADLINE: Duration = Duration::from_secs(300);
/// What the person says to the question that only they can answer.
const DECISION: &str = "Use port 7070.";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/together.md");

/// One of the four: its agent and how it is reached, its name and its task.
struct Member {
    agent: &'static Agent,
    transport: &'static str,
    name: &'static str,
    task: &'static str,
}

/// All transports are among them.
const MEMBERS: [Member; 4] = [
    Member { agent: &CLAUDE_CODE, transport: "pty", name: "Claude Code", task: "Write the server" },
    Member { agent: &CODEX, transport: "stream", name: "Codex", task: "Write the client" },
    Member { agent: &GEMINI, transport: "acp", name: "Gemini", task: "Describe the client" },
    Member { agent: &COPILOT, transport: "pty", name: "Copilot", task: "Write the index" },
];

/// The agents that take part.
pub(crate) fn agents() -> impl Iterator<Item = (&'static Agent, &'static str)> {
    MEMBERS.iter().map(|member| (member.agent, member.transport))
}

pub(crate) fn run() -> Checked {
    told(story)
}

/// The turns of each. The first of each runs a command, because some connect to their servers while it is under way.
fn script() -> Value {
    let begin = |word: &str| json!({ "text": "On it.", "run": format!("echo {word} is ready") });
    let commit = |file: &str, line: &str| {
        let subject = format!("Add {file}");
        json!({ "run": format!("echo '{line}' > {file} && git add -A && git commit -qm '{subject}'") })
    };
    let ask = |task: &str, question: &str, awaits: &str| json!({ "tool": "ask_agent", "input": { "agent": task, "question": question }, "awaits": awaits });
    let listen = |awaits: &str| json!({ "tool": "list_agents", "input": {}, "awaits": awaits, "delay_ms": 1500, "until": "watchfire-agent answer" });
    let answer = |text: &str| json!({ "tool": "answer", "input": { "id": "{after:watchfire-agent answer}", "text": text } });
    let finish =
        |summary: &str| json!({ "tool": "finish", "input": { "success": true, "summary": summary } });
    let rule = |task: usize, turns: &[Value]| {
        let turns = [turns, &[json!({ "text": "All is done." })]].concat();
        json!({ "when": format!("Task #000{task}"), "turns": turns })
    };
    json!([
        rule(
            1,
            &[
                begin("server"),
                json!({ "tool": "ask_person", "input": { "question": "Which port should the server listen on?" } }),
                commit("server.txt", "listens on {after:Use port}"),
                listen("client is ready"),
                answer("It listens on port {after:Use port}, as the person decided."),
                finish("The server listens on the port that the person chose."),
            ]
        ),
        rule(
            2,
            &[
                begin("client"),
                ask("1", "Which port does the server listen on?", DECISION),
                commit("client.txt", "connects to {after:listens on port}"),
                listen("description is ready"),
                answer("The command is shop-client, and it connects to port {after:listens on port}."),
                finish("The client connects to the port of the server."),
            ]
        ),
        rule(
            3,
            &[
                begin("description"),
                ask("2", "What is the command of the client called?", "listens on port"),
                commit("client.md", "Run {after:command is}"),
                listen("index is ready"),
                answer("The description is in client.md."),
                finish("The client is described."),
            ]
        ),
        rule(
            4,
            &[
                begin("index"),
                ask("3", "Which file describes the client?", "command is"),
                json!({ "tool": "report_progress", "input": { "text": "The description is in {after:description is in}." } }),
                commit("index.md", "See {after:description is in}"),
                finish("The index names the description."),
            ]
        ),
    ])
}

async fn story(dir: PathBuf) -> Checked {
    let agents: Vec<_> = agents().collect();
    let stage = Stage::with(&agents, &script().to_string(), dir).await?;
    let settings = stage.root.join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&settings).map_err(|error| error.to_string())?;
    std::fs::write(&settings, format!("{text}max_parallel: 4\n")).map_err(|error| error.to_string())?;
    let mut tasks = Vec::new();
    for member in &MEMBERS {
        let name = member.agent.name.parse().map_err(|error| format!("{error}"))?;
        let task = NewTask::new(member.task).with_prompt(format!("{}.", member.task)).with_agent(name);
        let made = stage.project.store().create(task.with_ready(true), None).await.map_err(failed)?;
        tasks.push(made.value.task_number);
    }
    let person = tokio::spawn(decide(stage.project.clone()));
    let run = stage.project.run(RunRequest::all()).await.map_err(failed)?;
    let summary = tokio::time::timeout(DEADLINE, run.wait()).await;
    person.abort();
    let heard = || {
        let steps = steps(&stage.server);
        steps.iter().map(|step| format!("{step:?}\n")).collect::<String>()
    };
    let summary = match summary {
        Ok(summary) => summary.map_err(failed)?,
        Err(_) => {
            let screens = stage.project.sessions().into_iter().map(|session| session.snapshot().text());
            return Err(format!(
                "it takes too long\n{}\n{}",
                heard(),
                screens.collect::<Vec<_>>().join("\n")
            ));
        }
    };
    for task in &tasks {
        must(
            matches!(summary.endings.get(task), Some(Ending::Merged { .. })),
            &format!("{task} is not merged: {summary:?}\n{}\n{}", heard(), log(&stage.project)),
        )?;
    }
    for (file, content) in [
        ("server.txt", "listens on 7070\n"),
        ("client.txt", "connects to 7070\n"),
        ("client.md", "Run shop-client\n"),
        ("index.md", "See client.md\n"),
    ] {
        let found = git(&stage.root, &["show", &format!("main:{file}")])?;
        must(found == content, &format!("{file}: {found}\n{}", heard()))?;
    }
    let left = stage.project.inquiries().await.map_err(failed)?;
    must(left.is_empty(), &format!("questions are left: {left:?}"))?;
    let page = page(&steps(&stage.server))?;
    if std::env::var_os("WATCHFIRE_BLESS").is_some() {
        std::fs::write(PAGE, page).map_err(|error| error.to_string())?;
    }
    stage.strike(None).await
}

/// Answers, as the person, what the agents ask the person.
async fn decide(project: ProjectHandle) -> Checked {
    let mut changes = project.subscribe(None).await.map_err(failed)?.changes;
    while let Some(seen) = changes.next().await {
        let Seen::Record(record) = seen else { continue };
        let Change::Life(life) = record.change else { continue };
        let LifeState::Asking { questions, .. } = &life.state else { continue };
        for question in questions {
            project.answer(life.id, &question.id, DECISION).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// A call of an agent, or its result.
#[derive(Debug)]
struct Step {
    member: usize,
    tool: String,
    event: Event,
}

#[derive(Debug)]
enum Event {
    Calls(Value),
    Hears(String),
}

/// Returns what the agents called and heard, in order.
fn steps(server: &ModelServer) -> Vec<Step> {
    let asks = server.asks();
    let whose = |ask: &Ask| {
        (0..MEMBERS.len()).find(|member| {
            let title = format!("Task #000{}", member + 1);
            ask.users.iter().any(|said| said.contains(&title))
        })
    };
    let mut all = Vec::new();
    for said in server.said() {
        let (Some((tool, input)), Some(ask)) = (said.call, asks.get(said.ask)) else { continue };
        let Some(member) = whose(ask) else { continue };
        all.push((said.after, Step { member, tool: tool.clone(), event: Event::Calls(input) }));
        let results =
            asks.iter().enumerate().skip(said.ask).filter(|(_, later)| whose(later) == Some(member));
        let mut results = results.filter_map(|(at, later)| Some((at, later.outputs.get(ask.outputs.len())?)));
        if let Some((at, result)) = results.next() {
            // It came with that request, so before all answers that were given after it.
            all.push((at + 1, Step { member, tool, event: Event::Hears(result.clone()) }));
        }
    }
    all.sort_by_key(|(at, step)| (*at, matches!(step.event, Event::Calls(_))));
    all.into_iter().map(|(_, step)| step).collect()
}

const HEAD: &str = "\
# Four agents on one project

Four agents of four vendors, each with a task of its own, ran at the same time in one project: this is what they asked and were told, in
order. The programs are the real ones; their models are not: a script on loopback stands in for all four. Everything between them went
through the tools of their sessions ([watch.md](watch.md)). Such a run writes this page:
`WATCHFIRE_BLESS=1 bash .ci/agents target/agents four_agents`.

| task | agent | reached by |
|---|---|---|
";

const END: &str = "\
All four are merged: the port that the person chose is in the files of the first two, and what the others wrote rests on what they were
told.
";

/// The tools whose calls are told. A name that ends another's comes later.
const TOOLS: [&str; 6] = ["ask_person", "ask_agent", "list_agents", "report_progress", "finish", "answer"];

/// Returns the page for people: who asked what, and what came of it.
fn page(steps: &[Step]) -> Checked<String> {
    let mut page = HEAD.to_owned();
    for (number, member) in MEMBERS.iter().enumerate() {
        let by = match member.transport {
            "pty" => "its terminal",
            "stream" => "its JSON stream",
            _ => "the Agent Client Protocol",
        };
        let _ = writeln!(page, "| {}: {} | {} | {by} |", number + 1, member.task, member.name);
    }
    page.push('\n');
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for Step { member, tool, event } in steps {
        let name = MEMBERS[*member].name;
        let Some(tool) = TOOLS.iter().find(|known| tool.ends_with(**known)) else { continue };
        let (kind, words) = match event {
            Event::Calls(input) => ("calls", called(tool, input)),
            Event::Hears(result) => ("hears", heard(tool, result)),
        };
        let Some(words) = words else { continue };
        *counts.entry(format!("{tool} {kind}")).or_default() += 1;
        let _ = writeln!(page, "**{name}** {words}\n");
    }
    let wanted = [
        ("answer calls", 3),
        ("ask_agent calls", 3),
        ("ask_agent hears", 3),
        ("ask_person calls", 1),
        ("ask_person hears", 1),
        ("finish calls", 4),
        ("list_agents hears", 3),
        ("report_progress calls", 1),
    ];
    let wanted = wanted.map(|(what, times)| (what.to_owned(), times));
    must(counts == BTreeMap::from(wanted), &format!("{counts:?}\n{page}"))?;
    Ok(page + END)
}

fn called(tool: &str, input: &Value) -> Option<String> {
    let said = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
    Some(match tool {
        "ask_person" => format!("asks the person: “{}”", said("question")),
        "ask_agent" => format!("asks the agent of task {}: “{}”", said("agent"), said("question")),
        "answer" => format!("answers: “{}”", said("text")),
        "report_progress" => format!("reports: “{}”", said("text")),
        "finish" => format!("finishes: “{}”", said("summary")),
        _ => return None,
    })
}

fn heard(tool: &str, result: &str) -> Option<String> {
    let how = match tool {
        "ask_person" => "hears from the person:",
        "ask_agent" => "hears:",
        // Those that found no question say nothing.
        "list_agents" if result.contains("watchfire-agent answer") => "looks who is there, and hears:",
        _ => return None,
    };
    // What Codex and Gemini put around a result.
    let object = serde_json::from_str::<Value>(result).unwrap_or_default();
    let result = object["output"].as_str().unwrap_or(result);
    let result = result.replace("<untrusted_context>", "").replace("</untrusted_context>", "");
    let quoted: Vec<_> = result
        .trim()
        .lines()
        .filter(|line| !line.starts_with("Wall time: ") && *line != "Output:")
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect();
    Some(format!("{how}\n\n{}", quoted.join("\n").trim_end_matches("\n>")))
}
