//! Episodes in which something needs the person: each is told once, and once more when it begins anew.

use std::collections::BTreeSet;

use watchfire_client::daemon_proto as proto;

use crate::message::Command;
use crate::model::{Connection, Focus, Model};
use crate::{agents, update};

/// Words about a task whose work came to nothing.
const FAILED: &str = "has failed";

/// Returns the reason for which an agent waits for a person, in words of ours: an agent's own may hold anything.
#[must_use]
pub(crate) fn reason(agent: &proto::AgentStatus) -> Option<&'static str> {
    let issue = agent.issue.as_ref().map_or("", |issue| issue.issue_type.as_str());
    match (issue, agent.state.as_str()) {
        _ if !agent.questions.is_empty() => Some("asks you"),
        ("agent_missing", _) => Some("lacks its agent"),
        ("auth_required", _) => Some("needs a login"),
        ("variables_gone", _) => Some("needs its secrets again"),
        ("rate_limited", _) => Some("is at a limit"),
        ("sandbox_denied", _) => Some("was refused something by the sandbox"),
        ("", "asking") => Some("asks you"),
        ("", "limited") => Some("is at a limit"),
        ("", "held") => Some("is held"),
        ("", "incomplete") => Some("is not complete"),
        ("", _) => None,
        _ => Some("has trouble"),
    }
}

/// Returns true for a task whose last work came to nothing, though its person did not stop it.
fn has_failed(model: &Model, task: &proto::Task) -> bool {
    task.success == Some(false) || task.failed && model.agent_of(task.task_number).is_none()
}

/// Compares the agents and tasks that need the person with the last announcement, and returns an alert for new ones.
pub(crate) fn news(model: &mut Model) -> Option<Command> {
    if model.connection != Connection::Connected {
        return None;
    }
    let waiting = model.status.all.iter().filter_map(|agent| Some((agents::name(agent), reason(agent)?)));
    let failed = model.tasks.iter().filter(|task| has_failed(model, task));
    let failed = failed.map(|task| (format!("#{:04}", task.task_number), FAILED));
    let now: BTreeSet<_> = waiting.chain(failed).collect();
    let at_work = model.status.all.iter().map(|agent| agent.task_number).collect();
    let worked = std::mem::replace(&mut model.working, at_work);
    // What was so before the program started is seen on the screen.
    let before = model.told.replace(now.clone())?;
    // What comes back from the trash, or is a draft again, has failed long ago.
    let worked: BTreeSet<_> = worked.into_iter().map(|number| format!("#{number:04}")).collect();
    let mut fresh = now.difference(&before).filter(|(of, reason)| *reason != FAILED || worked.contains(of));
    let (subject, reason) = fresh.next()?;
    let more = match fresh.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let words = format!("{subject} {reason}{more}");
    // What a person types must not go to another agent in the midst of it.
    let is_typing = model.focus == Focus::Right || model.overlay.is_some() || model.filter.1;
    if model.follows && !is_typing && model.settings.editing.is_none() {
        let waits = |agent: &&proto::AgentStatus| agents::name(agent) == *subject;
        let session = model.status.all.iter().find(waits).map(|agent| agent.session_id.clone());
        session.into_iter().for_each(|session| agents::show(model, &session));
    }
    update::flash(model, &words, true);
    Some(Command::Alert(words))
}
