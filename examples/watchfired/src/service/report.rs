//! What has happened in a project, what it cost, and what stands in line.

use std::path::Path;

use tonic::{Request, Response, Status};
use watchfire_api::work_proto as proto;
use watchfire_api::work_proto::report_service_server::ReportService;
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::model::{Mode, Phase, TaskNumber};
use watchfire_core::orchestrator::{ConfineRequest, Costs, CostsBy, SandboxRecord, Spent, TaskInfo};
use watchfire_core::process::resolve_program;
use watchfire_core::schedule::{Ledger, Life, LifeId, Subject};
use watchfire_core::store::TaskQuery;
use watchfire_core::{Error, ErrorKind, Result};

use super::agents::place;
use super::convert::{number, some, wire};
use super::{answer, blocking};
use crate::Daemon;

/// Number of pieces of work in an answer, unless it was asked for another one, and the largest.
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 200;

type Answer<T> = std::result::Result<Response<T>, Status>;

/// Looks for git, as this process would find it.
///
/// # Errors
/// `program_missing`.
pub(super) fn require_git() -> Result<()> {
    let found = resolve_program(Path::new("git"));
    found.map(drop).map_err(|error| {
        Error::new(ErrorKind::ProgramMissing, "Git is required. Install git and try again.")
            .with_source(error)
            .with("hint", "it must be in a folder of PATH")
    })
}

impl Daemon {
    async fn costs_of(&self, request: proto::GetCostsRequest) -> Result<proto::GetCostsResponse> {
        let by = match request.by.as_str() {
            "" | "task" => CostsBy::Task,
            "day" => CostsBy::Day,
            "agent" => CostsBy::Agent,
            "run" => CostsBy::Run,
            "session" => CostsBy::Session,
            other => {
                let words = "costs are added up by task, day, agent, run or session";
                return Err(Error::new(ErrorKind::InvalidInput, words).with("by", format_args!("{other:?}")));
            }
        };
        let project = self.project(&request.project_id).await?;
        let (logs, today) = (project.logs_dir().to_owned(), SystemClock.now().date());
        let read = move || {
            // The logs of all projects lie beside each other, and share the budget of a day.
            let home = logs.parent().unwrap_or(&logs);
            let of_today = Spent::records_of_home(home)
                .into_iter()
                .filter(|record| record.at.as_ref().is_some_and(|at| at.date() == today));
            let of_today = cost(&today, &Costs::of(&of_today.collect::<Vec<_>>()));
            Ok((Spent::records(&logs)?, of_today))
        };
        let (records, today) = blocking(read).await?;
        let budget = self.orchestrator().settings().budget;
        let costs = Costs::grouped(&records, by);
        Ok(proto::GetCostsResponse {
            costs: costs.iter().map(|(of, costs)| cost(of, costs)).collect(),
            all: Some(cost("all", &Costs::of(&records))),
            today: Some(today),
            task_budget: budget.task.map(|bound| bound.micros()),
            day_budget: budget.day.map(|bound| bound.micros()),
        })
    }

    async fn history_of(&self, request: proto::ListHistoryRequest) -> Result<proto::ListHistoryResponse> {
        let project = self.project(&request.project_id).await?;
        let (ledger, dir) = (project.ledger().await?, self.home().state_dir(project.id()));
        blocking(move || history(&ledger, &dir, request.before, request.limit)).await
    }

    async fn queue_of(&self, project: &str) -> Result<proto::ListQueueResponse> {
        let project = self.project(project).await?;
        let mut queue = queue(&project.ledger().await?);
        queue.works.extend(project.tasks(&TaskQuery::new()).await?.iter().filter_map(waiting));
        Ok(queue)
    }

    async fn policy_of(&self, request: proto::GetPolicyRequest) -> Result<proto::GetPolicyResponse> {
        let project = self.project(&request.project_id).await?;
        let task = (request.task_number != 0).then(|| number(request.task_number)).transpose()?;
        let record = if request.next {
            project.sandbox_preview(self.confinement(&request, task)?).await?
        } else {
            let logs = project.logs_dir().to_owned();
            let record = blocking(move || SandboxRecord::latest(&logs, task)).await?;
            record.ok_or_else(|| Error::new(ErrorKind::NotFound, "no session has run yet"))?
        };
        let json = serde_json::to_string(&record).map_err(|error| {
            Error::new(ErrorKind::Internal, "writing a record as JSON").with_source(error)
        })?;
        Ok(proto::GetPolicyResponse {
            summary: record.report.summary.clone(),
            text: record.report.to_string(),
            json,
            refused: record.refused.iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns what keeps every task from running.
    async fn problems(&self) -> Result<Vec<proto::Problem>> {
        let (settings, daemon) = (self.home().settings().await?, self.clone());
        // Programs are looked for on the disk.
        blocking(move || {
            let mut missing = Vec::new();
            if let Err(error) = require_git() {
                missing.push(error);
            }
            if let Err(error) = daemon.find_an_agent(&settings) {
                missing.push(error);
            }
            let told = |error: &Error| proto::Problem {
                code: error.code().to_owned(),
                message: error.report(),
                hint: error.detail("hint").unwrap_or_default().to_owned(),
            };
            Ok(missing.iter().map(told).collect())
        })
        .await
    }

    /// Returns the request for the sandbox of a session that started now.
    fn confinement(
        &self,
        request: &proto::GetPolicyRequest,
        task: Option<TaskNumber>,
    ) -> Result<ConfineRequest> {
        let mut confine = task.map_or_else(ConfineRequest::chat, ConfineRequest::task);
        if let Some(word) = some(&request.mode) {
            let (mode, phase) = mode(word)?;
            confine = confine.with_mode(mode, phase);
        }
        confine.options.agent = some(&request.agent).map(str::parse).transpose()?;
        let sandboxes = self.orchestrator().sandboxes();
        confine.options.sandbox =
            some(&request.sandbox).map(|name| sandboxes.parse(name)).transpose()?.flatten();
        confine.options.place = place(&request.place)?;
        Ok(confine)
    }
}

/// Returns the mode of a word, or the step of wildfire.
fn mode(word: &str) -> Result<(Mode, Option<Phase>)> {
    Ok(match word {
        "chat" => (Mode::Chat, None),
        "task" => (Mode::Task, None),
        "start-all" => (Mode::StartAll, None),
        "wildfire" => (Mode::Wildfire, None),
        "execute" => (Mode::Wildfire, Some(Phase::Execute)),
        "refine" => (Mode::Wildfire, Some(Phase::Refine)),
        "generate" => (Mode::Wildfire, Some(Phase::Generate)),
        "generate-definition" => (Mode::GenerateDefinition, None),
        "generate-tasks" => (Mode::GenerateTasks, None),
        other => {
            let message = "not a kind of session, expected chat, task, start-all, wildfire, execute, refine, generate, \
                 generate-definition or generate-tasks";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("mode", format_args!("{other:?}")));
        }
    })
}

/// Returns the work that has ended, newest first: at most `limit` pieces (0: some), and with `before` only those with a lower id.
///
/// # Errors
/// Errors of the records in `state_dir`, the state folder of the project.
pub fn history(
    ledger: &Ledger,
    state_dir: &Path,
    before: u64,
    limit: u32,
) -> Result<proto::ListHistoryResponse> {
    let most = match limit {
        0 => PAGE,
        limit => limit.min(LARGEST_PAGE),
    };
    let last = ledger.last_life.0;
    let mut at = if before == 0 { last } else { last.min(before.saturating_sub(1)) };
    let mut works = Vec::new();
    while at > 0 && works.len() < most as usize {
        let id = LifeId(at);
        at -= 1;
        match ledger.life(id).cloned().map_or_else(|| Life::record(state_dir, id), Ok) {
            Ok(life) if life.has_ended() => works.push(work(&life)),
            Ok(_) => {}
            // Its record was removed with old logs.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(proto::ListHistoryResponse { works, next: if at == 0 { 0 } else { at + 1 } })
}

/// Returns the work that has begun and not ended.
#[must_use]
pub fn queue(ledger: &Ledger) -> proto::ListQueueResponse {
    proto::ListQueueResponse { works: ledger.lives.values().map(work).collect() }
}

fn cost(of: &str, costs: &Costs) -> proto::Cost {
    let tokens = Spent::new(costs.spent.usage, None);
    proto::Cost {
        of: of.to_owned(),
        micros: costs.micros,
        is_lower_bound: costs.is_lower_bound(),
        sessions: u32::try_from(costs.sessions).unwrap_or(u32::MAX),
        amount: costs.to_string(),
        tokens: if tokens.is_nothing() { String::new() } else { tokens.to_string() },
    }
}

fn subject(subject: Subject) -> &'static str {
    match subject {
        Subject::Task { .. } => "task",
        Subject::Chat => "chat",
        Subject::Refine { .. } => "refine",
        Subject::Generate => "generate",
        Subject::GenerateDefinition => "generate-definition",
        Subject::GenerateTasks => "generate-tasks",
        _ => "",
    }
}

fn work(life: &Life) -> proto::Work {
    proto::Work {
        life_id: life.id.0,
        task_number: life.subject.about().map_or(0, wire),
        subject: subject(life.subject).to_owned(),
        run_id: life.run.map_or(0, |run| run.0),
        state: life.state.word().to_owned(),
        detail: life.state.detail().unwrap_or_default(),
        began_at: life.began.to_string(),
        since: life.since.to_string(),
        attempt: life.attempt.0,
        agent: life.backend.as_ref().map(ToString::to_string).unwrap_or_default(),
        target: life.target.clone().unwrap_or_default(),
    }
}

/// Returns a task that was asked for and has not begun.
fn waiting(info: &TaskInfo) -> Option<proto::Work> {
    let detail = info.wait.as_ref()?.to_string();
    let task = &info.task;
    Some(proto::Work {
        task_number: wire(task.task_number),
        subject: "task".to_owned(),
        state: "waiting".to_owned(),
        detail,
        since: task.updated_at.as_ref().map(ToString::to_string).unwrap_or_default(),
        agent: task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..proto::Work::default()
    })
}

#[tonic::async_trait]
impl ReportService for Daemon {
    async fn get_costs(&self, request: Request<proto::GetCostsRequest>) -> Answer<proto::GetCostsResponse> {
        answer(self.costs_of(request.into_inner()).await)
    }

    async fn list_history(
        &self,
        request: Request<proto::ListHistoryRequest>,
    ) -> Answer<proto::ListHistoryResponse> {
        answer(self.history_of(request.into_inner()).await)
    }

    async fn check_start(&self, _: Request<proto::CheckStartRequest>) -> Answer<proto::CheckStartResponse> {
        answer(self.problems().await.map(|problems| proto::CheckStartResponse { problems }))
    }

    async fn list_queue(
        &self,
        request: Request<proto::ListQueueRequest>,
    ) -> Answer<proto::ListQueueResponse> {
        answer(self.queue_of(&request.get_ref().project_id).await)
    }

    async fn get_policy(
        &self,
        request: Request<proto::GetPolicyRequest>,
    ) -> Answer<proto::GetPolicyResponse> {
        answer(self.policy_of(request.into_inner()).await)
    }
}
