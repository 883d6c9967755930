//! What is under way in a project.

use watchfire_api::daemon_proto as proto;
use watchfire_core::Result;
use watchfire_core::backend::{Issue, IssueKind};
use watchfire_core::model::{Mode, Timestamp};
use watchfire_core::orchestrator::ProjectHandle;
use watchfire_core::schedule::{Ledger, Life, LifeState, Scope};
use watchfire_core::session::Session;

use super::convert::{timestamp, wire};

/// Returns everything that is under way, oldest first.
pub(crate) async fn all(project: &ProjectHandle) -> Result<Vec<proto::AgentStatus>> {
    let ledger = project.ledger().await?;
    if ledger.lives.is_empty() {
        return Ok(Vec::new());
    }
    let name = name(project).await;
    // At once: each reads a task's file, and waits for its turn beside agents that print.
    let all = ledger.lives.values().map(|life| of_life(project, &name, &ledger, life));
    Ok(futures_util::future::join_all(all).await)
}

/// Returns the status of a project: the status of its newest agent, with everything under way in `all`.
pub(super) async fn of(project: &ProjectHandle) -> Result<proto::AgentStatus> {
    let all = all(project).await?;
    let newest = all.iter().rev().find(|it| it.is_running).or(all.last()).cloned();
    let idle = proto::AgentStatus {
        project_id: project.id().to_string(),
        project_name: name(project).await,
        state: "idle".to_owned(),
        ..proto::AgentStatus::default()
    };
    let halted = project.ledger().await?.halted;
    Ok(proto::AgentStatus { all, halted, ..newest.unwrap_or(idle) })
}

/// Returns the name of a project. One whose files are away is known by its folder.
pub(crate) async fn name(project: &ProjectHandle) -> String {
    match project.store().project().await {
        Ok(project) => project.value.name,
        Err(_) => project.root().file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// Returns the mode of a chain: of a run that names no tasks.
pub(super) fn mode_of(scope: &Scope) -> Option<Mode> {
    match scope {
        Scope::Wildfire => Some(Mode::Wildfire),
        Scope::All => Some(Mode::StartAll),
        _ => None,
    }
}

/// Returns the status of one life.
pub(super) async fn of_life(
    project: &ProjectHandle,
    project_name: &str,
    ledger: &Ledger,
    life: &Life,
) -> proto::AgentStatus {
    let scope = life.run.and_then(|run| ledger.runs.get(&run)).map(|run| &run.scope);
    let mode = scope.and_then(mode_of).unwrap_or(life.subject.mode());
    let about = life.subject.about();
    let title = match about {
        // A task whose file is gone has no title.
        Some(number) => project.store().get(number).await.map(|task| task.value.title).unwrap_or_default(),
        None => String::new(),
    };
    let session = life.session.as_ref();
    let running = session.and_then(|session| project.session(&session.id)).filter(|it| !it.has_ended());
    let asked = match &life.state {
        LifeState::Asking { questions, .. } => questions.as_slice(),
        _ => &[],
    };
    proto::AgentStatus {
        project_id: project.id().to_string(),
        project_name: project_name.to_owned(),
        is_running: running.is_some(),
        mode: mode.to_string(),
        task_number: about.map_or(0, wire),
        task_title: title,
        wildfire_phase: ledger.phase(life).map(|phase| phase.to_string()).unwrap_or_default(),
        issue: issue(life, running.as_ref()),
        agent: life.backend.as_ref().map(ToString::to_string).unwrap_or_default(),
        session_id: session.map(|session| session.id.to_string()).unwrap_or_default(),
        alias: life.alias.as_ref().map(ToString::to_string).unwrap_or_default(),
        started_at: session.map(|session| session.started.to_string()).unwrap_or_default(),
        state: life.state.word().to_owned(),
        questions: asked.iter().map(|it| it.question.clone()).collect(),
        question_ids: asked.iter().map(|it| it.id.clone()).collect(),
        all: Vec::new(),
        run_id: life.run.map_or(0, |run| run.0),
        halted: ledger.halted,
    }
}

/// Returns what hinders a life, or its session while it goes on.
fn issue(life: &Life, session: Option<&Session>) -> Option<proto::AgentIssue> {
    if let LifeState::Limited { issue, until, .. } = &life.state {
        return Some(told(issue, Some(&life.since), until.as_ref()));
    }
    let issues = session?.blocks().borrow().issues.clone();
    issues.first().map(|issue| told(issue, None, None))
}

fn told(issue: &Issue, detected: Option<&Timestamp>, until: Option<&Timestamp>) -> proto::AgentIssue {
    let kind = match issue.kind {
        // The two have one name in the API: both pass by themselves.
        IssueKind::UsageLimit | IssueKind::RateLimited => "rate_limited".to_owned(),
        kind => serde_json::to_value(kind)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default(),
    };
    proto::AgentIssue {
        issue_type: kind,
        detected_at: detected.map(timestamp),
        message: issue.message.clone(),
        reset_at: issue.reset_at.as_ref().map(timestamp),
        cooldown_until: until.map(timestamp),
    }
}
