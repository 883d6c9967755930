//! `watchfire listen`: the oldest question that waits for the person, or the next one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use watchfire_core::journal::Journal;
use watchfire_core::model::{ProjectId, Question, TaskNumber, Timestamp};
use watchfire_core::schedule::LifeState;

use super::{connect, duration, name};
use crate::context::{self, Context, home_path};
use crate::failure::{Exit, Failure, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire listen                   waits until an agent asks, and shows the question
  watchfire listen --timeout 0s      only what is asked already
  watchfire listen --peers           also what agents ask each other; watchfire answer ID answers it in their place")]
pub(crate) struct ListenArgs {
    /// Also questions between agents
    #[arg(long)]
    peers: bool,
    /// Wait at most this long (500ms, 30s, 10m). Default: no limit
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

pub(crate) async fn run(context: &Context, args: ListenArgs) -> Result<Exit> {
    let timeout = match args.timeout.as_deref() {
        None => None,
        // No time limit, which other durations are, may be zero.
        Some("0" | "0s" | "0ms") => Some(Duration::ZERO),
        Some(time) => Some(duration("--timeout", time)?),
    };
    let client = match connect(context).await {
        Ok(client) => client,
        // A question waits also where no agent runs any more.
        Err(Failure::Remote { error, more }) if error.code == "app_not_running" => {
            let Some(waiting) = Waiting::oldest().await? else { return Err(Failure::Remote { error, more }) };
            waiting.report(context);
            return Ok(Exit::Good);
        }
        Err(failure) => return Err(failure),
    };
    let heard = client.listen(args.peers, timeout).await?;
    let value = heard.as_ref().map_or(Value::Null, |heard| {
        json!({
            "conversationId": heard.conversation_id, "fromAgentId": heard.session_id, "alias": heard.alias,
            "project": heard.project_id, "taskId": (heard.task_number > 0).then_some(heard.task_number),
            "question": heard.question, "asked": (!heard.asked.is_empty()).then_some(&heard.asked),
        })
    });
    context.out.report(json!({ "ok": true, "pending": value }), |_| match &heard {
        None => "nobody asks\n".to_owned(),
        Some(heard) => {
            let from = match heard.alias.is_empty() {
                true => "the person".to_owned(),
                false => name(&heard.alias, heard.task_number),
            };
            let asked = match heard.asked.is_empty() {
                true => String::new(),
                false => {
                    format!(" asks {} ({})", text::line(&heard.asked), text::line(&heard.conversation_id))
                }
            };
            format!("{from}{asked}: {}\n", text::lines(heard.question.trim_end()))
        }
    });
    Ok(Exit::Good)
}

/// A question of an agent that has ended since.
struct Waiting {
    project: ProjectId,
    root: PathBuf,
    task: Option<TaskNumber>,
    question: Question,
    since: Timestamp,
}

impl Waiting {
    /// Returns the one that has waited longest, of all projects.
    async fn oldest() -> Result<Option<Self>> {
        let home = context::open_home(home_path()?).await?;
        let mut all = Vec::new();
        for entry in home.projects().await? {
            // One that cannot be read has no question that could be answered.
            let Ok((state, _)) = Journal::read(home.state_dir(&entry.project_id).join("journal")) else {
                continue;
            };
            all.extend(state.ledger.lives.into_values().filter_map(|life| {
                let LifeState::Asking { questions, .. } = life.state else { return None };
                let (project, root, task) =
                    (entry.project_id.clone(), entry.path.clone(), life.subject.task());
                Some(Self { project, root, task, question: questions.into_iter().next()?, since: life.since })
            }));
        }
        Ok(all.into_iter().min_by_key(|waiting| waiting.since.unix_millis()))
    }

    fn report(&self, context: &Context) {
        let task = self.task.map(TaskNumber::value);
        let value = json!({
            "conversationId": self.question.id, "fromAgentId": null, "alias": null, "project": self.project,
            "taskId": task, "question": self.question.question, "asked": null,
        });
        context.out.report(json!({ "ok": true, "pending": value }), |_| {
            let question = text::lines(self.question.question.trim_end());
            let is_here = context.directory().is_ok_and(|here| here.starts_with(&self.root));
            let place = if is_here { String::new() } else { format!(" -C '{}'", self.root.display()) };
            match self.task {
                Some(task) => format!(
                    "#{task}: {question}\nto answer: watchfire{} answer {} '...'\n",
                    text::line(&place),
                    task.value()
                ),
                None => format!("{question}\n"),
            }
        });
    }
}
