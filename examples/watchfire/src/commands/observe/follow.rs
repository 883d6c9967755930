//! `watchfire follow`: the records of sessions as they come.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

use clap::Args;
use serde_json::Value;
use watchfire_client::{ApiError, Client, event_json, proto};
use watchfire_core::observe::{Target, present};

use super::{connect, duration, name, not_yet};
use crate::away;
use crate::context::{Context, home_path};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = super::watch::targets("watchfire follow all\n  watchfire follow 3 --json"))]
pub(crate) struct FollowArgs {
    /// The sessions. Those that begin later and fit are joined
    #[arg(value_name = "TARGET", default_value = "all")]
    targets: Vec<Target>,
    /// Go on after this cursor: the last of each session
    #[arg(long, value_name = "CURSOR")]
    since: Vec<String>,
    /// Kinds of records: delivery, event, issue, lifecycle, output, status, transcript
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// End after this time (500ms, 30s, 10m)
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Send a heartbeat after this much silence of a session (with --json)
    #[arg(long, value_name = "TIME")]
    heartbeat: Option<String>,
}

impl FollowArgs {
    pub(super) fn of(target: Target, since: Vec<String>, timeout: Option<String>) -> Self {
        Self { targets: vec![target], since, kinds: Vec::new(), timeout, heartbeat: None }
    }
}

pub(crate) async fn run(context: &Context, args: FollowArgs) -> Result<Exit> {
    let client = connect(context).await?;
    let (home, here) = (home_path()?, client.here().cloned());
    let heartbeat = args.heartbeat.as_deref().map(|it| duration("--heartbeat", it)).transpose()?;
    let timeout = args.timeout.as_deref().map(|it| duration("--timeout", it)).transpose()?;
    let mut stream = client.follow(&args.targets, &args.since, &args.kinds, heartbeat).await?;
    let (mut places, mut is_told) = (Places::default(), false);
    let mut sessions = HashMap::new();
    let showing = async {
        loop {
            let error = match stream.next().await {
                Ok(Some(record)) => {
                    is_told &= record.event.as_ref().is_none_or(|event| event.kind == "heartbeat");
                    places.note(&record);
                    show(context.out, &mut sessions, &record);
                    continue;
                }
                // What is followed has ended, or goes on while the daemon has ended.
                Ok(None) if !places.go_on(&args.targets, &home).await? => return Ok(Exit::Good),
                Ok(None) => ApiError::shutdown(),
                Err(error) if error.is_gone() && places.go_on(&args.targets, &home).await? => error,
                Err(error) => return Err(error.into()),
            };
            // One that is ending still takes connections, and breaks them.
            if !context.out.json && !std::mem::replace(&mut is_told, true) {
                eprintln!("watchfire: {}", away::WAITING);
            }
            let (targets, since) = (places.targets(&args.targets), places.since(&args.since));
            let again = async || {
                let client = Client::connect(&home, here.clone()).await?;
                client.follow(&targets, &since, &args.kinds, heartbeat).await.map_err(not_yet)
            };
            stream = away::back(error, std::future::pending(), again).await?;
        }
    };
    let ended = match timeout {
        // The time is no error: it was asked for.
        Some(timeout) => tokio::time::timeout(timeout, showing).await.unwrap_or(Ok(Exit::Good)),
        None => showing.await,
    };
    for printed in sessions.values_mut() {
        let rest = printed.rest();
        print(context.out, &printed.who, &rest);
    }
    ended
}

/// How far each session was followed.
#[derive(Default)]
struct Places(BTreeMap<String, String>);

impl Places {
    fn note(&mut self, record: &proto::FollowResponse) {
        let cursor = record.event.as_ref().map(|event| event.cursor.clone()).filter(|it| !it.is_empty());
        if let Some(cursor) = cursor.filter(|_| !record.session_id.is_empty()) {
            self.0.insert(record.session_id.clone(), cursor);
        }
    }

    /// Returns true if the agent of a session that is followed goes on by itself.
    async fn go_on(&self, targets: &[Target], home: &Path) -> Result<bool> {
        let joins_others = targets.iter().any(|target| !target.is_single());
        let left = away::left(home).await?;
        Ok(left.iter().any(|session| joins_others || self.0.contains_key(session.as_str())))
    }

    /// Returns the targets with which the same sessions are followed again: task 3 may have another one by then.
    fn targets(&self, before: &[Target]) -> Vec<Target> {
        let several = before.iter().filter(|target| !target.is_single()).cloned();
        if several.clone().count() == before.len() {
            return several.collect();
        }
        several.chain(self.0.keys().map(|session| Target::Named(session.clone()))).collect()
    }

    /// Returns the cursors after which to go on: those of the sessions that were followed, and `before` of the others.
    fn since(&self, before: &[String]) -> Vec<String> {
        let is_known = |cursor: &&String| self.0.keys().any(|it| cursor.starts_with(&format!("{it}:")));
        self.0.values().chain(before.iter().filter(|cursor| !is_known(cursor))).cloned().collect()
    }
}

/// Number of lines of a session that are compared with one that is drawn again.
const RECENT: usize = 16;

/// The output of a session, as it comes, without what is drawn again in place.
#[derive(Default)]
struct Printed {
    who: String,
    /// The line that has no end yet.
    line: String,
    /// The letters of the last lines.
    recent: VecDeque<String>,
}

impl Printed {
    /// Takes more text, and returns the lines that have ended by now.
    fn add(&mut self, text: &str) -> String {
        self.line.push_str(text);
        // The sanitised text has a vertical tab where the cursor left a line for another one.
        let end = self.line.rfind(['\n', '\u{b}']).map_or(0, |end| end + 1);
        let rest = self.line.split_off(end);
        let mut shown = String::new();
        for line in std::mem::replace(&mut self.line, rest).split_inclusive(['\n', '\u{b}']) {
            let ended = present(line);
            // A spinner and a clock change, and the words beside them do not.
            let letters: String = ended.chars().filter(|c| c.is_alphabetic()).collect();
            let is_again = line.ends_with('\u{b}') && self.recent.contains(&letters);
            if is_again {
                continue;
            }
            self.recent.push_back(letters);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            shown.push_str(&ended);
        }
        // Else a spinner that never ends its line would grow without an end.
        if let Some(at) = self.line.rfind('\r').filter(|at| at + 1 < self.line.len()) {
            self.line.drain(..=at);
        }
        shown
    }

    /// Returns the line that has no end, which is not printed again.
    fn rest(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { line } else { self.add(&format!("{line}\u{b}")) }
    }
}

fn show(out: Out, sessions: &mut HashMap<String, Printed>, record: &proto::FollowResponse) {
    let Some(event) = &record.event else { return };
    if out.json {
        let mut line = event_json(event);
        if let Value::Object(fields) = &mut line {
            // A record of no session has none of them.
            let mut add = |name: &str, value: &String| {
                if !value.is_empty() {
                    fields.insert(name.to_owned(), value.clone().into());
                }
            };
            add("session_id", &record.session_id);
            add("alias", &record.alias);
            add("project_id", &record.project_id);
            if !record.session_id.is_empty() {
                let task = (record.task_number > 0).then_some(record.task_number);
                fields.insert("task".to_owned(), task.into());
            }
            fields.retain(|name, value| name != "time" || value.as_str() != Some(""));
        }
        return out.line(line.to_string());
    }
    if event.kind == "heartbeat" {
        return;
    }
    let who = out.style.dim(&name(&record.alias, record.task_number));
    let printed = sessions.entry(record.session_id.clone()).or_default();
    if event.kind != "output" {
        // A question without a line end is shown once the agent waits.
        print(out, &who, &printed.rest());
    }
    let fields = event_json(event);
    let word = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let said = match event.kind.as_str() {
        "output" => {
            printed.who.clone_from(&who);
            printed.add(word("text"))
        }
        "transcript" => format!("{}: {}", word("role"), word("text")),
        "status" => word("status").to_owned(),
        "lifecycle" => word("name").to_owned(),
        "delivery" => format!("a text is {}", word("state")),
        "issue" | "issue_cleared" => {
            let about = fields.get("issue").and_then(|issue| issue.get("kind")).and_then(Value::as_str);
            format!("{} {}", event.kind, about.unwrap_or_default())
        }
        "gap_detected" => "… some records are missing here, because they were not read in time".to_owned(),
        "program_lost" => {
            "… a program that ran some of the agents is gone; the others are followed on".to_owned()
        }
        "too_many_watchers" => "… too many watch this session; it is joined once there is a place".to_owned(),
        other => other.to_owned(),
    };
    print(out, &who, &said);
}

fn print(out: Out, who: &str, said: &str) {
    for line in text::lines(said).lines().filter(|line| !line.trim().is_empty()) {
        out.line(format!("{who}  {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_again_is_one_line() {
        let mut printed = Printed::default();
        let frames = ["⠋ work", "\r⠙ work", "\r⠹ work", "\rdone\n"];
        assert_eq!(frames.map(|text| printed.add(text)).concat(), "done\n");
        // As a program draws that moves the cursor instead.
        let frames =
            ["⠋ work 1s\u{b}", "⠙ work 2s\u{b}tokens 7\u{b}", "⠹ work 3s\u{b}tokens 8\u{b}", "done\n"];
        assert_eq!(frames.map(|text| printed.add(text)).concat(), "⠋ work 1s\ntokens 7\ndone\n");
        // Lines of their own stay.
        assert_eq!(printed.add("1\n2\n2\nyes? "), "1\n2\n2\n");
        assert_eq!((printed.rest(), printed.rest()), ("yes? \n".to_owned(), String::new()));
    }

    #[test]
    fn a_line_without_an_end_does_not_grow() {
        let mut printed = Printed::default();
        for _ in 0..1000 {
            assert_eq!(printed.add("\r⠋ work"), "");
        }
        assert_eq!(printed.line, "⠋ work");
    }
}
