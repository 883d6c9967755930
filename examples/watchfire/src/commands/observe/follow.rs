//! `watchfire follow`: the records of sessions as they come.

use clap::Args;
use serde_json::Value;
use watchfire_client::{event_json, proto};
use watchfire_core::observe::Target;

use super::{connect, duration, name};
use crate::context::Context;
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
    /// Silence of a session after which a heartbeat comes (with --json)
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
    let heartbeat = args.heartbeat.as_deref().map(|it| duration("--heartbeat", it)).transpose()?;
    let timeout = args.timeout.as_deref().map(|it| duration("--timeout", it)).transpose()?;
    let mut stream = client.follow(&args.targets, &args.since, &args.kinds, heartbeat).await?;
    let showing = async {
        while let Some(record) = stream.next().await? {
            show(context.out, &record);
        }
        Ok(Exit::Good)
    };
    match timeout {
        // The time is no error: it was asked for.
        Some(timeout) => tokio::time::timeout(timeout, showing).await.unwrap_or(Ok(Exit::Good)),
        None => showing.await,
    }
}

fn show(out: Out, record: &proto::FollowResponse) {
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
    let fields = event_json(event);
    let word = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let said = match event.kind.as_str() {
        "output" => word("text").to_owned(),
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
    let who = out.style.dim(&name(&record.alias, record.task_number));
    for line in text::lines(&said).lines().filter(|line| !line.trim().is_empty()) {
        out.line(format!("{who}  {line}"));
    }
}
