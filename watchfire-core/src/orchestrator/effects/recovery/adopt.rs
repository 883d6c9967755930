//! Agents that outlived the program that started them: their sessions are taken over, and go on where they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{PromptDelivery, SessionContext, Source};
use crate::endpoint::{self, Signal, SignalRead, Spool, SpoolLimits, read_signal};
use crate::model::{OnLimit, Question, SessionId, Timestamp};
use crate::observe::Body;
use crate::orchestrator::compose::{LiveRecord, Reached, SessionNote, agent_settings, notes};
use crate::orchestrator::effects::attempts::{Assembly, Purse, Started, stall_after, watch_signals};
use crate::orchestrator::effects::claims;
use crate::orchestrator::shared::{Bearer, ProjectShared, RECORDING, blocking, caught, open_records};
use crate::schedule::{Answer, Life, LifeState, NoticeCode, SessionRef};
use crate::session::{
    Deadline, LogFile, Mailbox, Reach, Recording, STALL_AFTER, Session, SessionDirectory, SessionInfo, Taken,
};
use crate::workspace::WorkspaceKey;
use crate::{ErrorKind, Result};

/// Takes over the session of a life. Returns `None` for one that cannot be: it may still run, and must be ended.
pub(in crate::orchestrator::effects) async fn adopted(
    shared: &Arc<ProjectShared>,
    life: &Life,
) -> Option<Started> {
    // A foreign backend, store or host that panics must not keep the project from opening.
    let adopting = caught("taking over a session", adopt(Arc::clone(shared), life.clone())).await;
    adopting.unwrap_or_else(|error| {
        let message = format!("its session could not be taken over, and is ended: {}", error.report());
        shared.notice(NoticeCode::Recovered, life.subject.task(), message);
        None
    })
}

/// Returns `None` for a session that was not kept, or is to end anyway, or whose agent is in a conversation that only the
/// earlier program knew.
async fn adopt(shared: Arc<ProjectShared>, life: Life) -> Result<Option<Started>> {
    let shared = &shared;
    let inner = &shared.inner;
    let Some(session) = life.session.as_ref().filter(|_| goes_on(&life) && inner.host.outlives()) else {
        return Ok(None);
    };
    let directory = SessionDirectory::existing(shared.state_dir.join("sessions").join(session.id.as_str()));
    let from = directory.clone();
    let found = blocking("reading the note of a session", move || Found::read(&from)).await?;
    let Some(Found { note, deadline, recording, is_nudged }) = found else { return Ok(None) };
    let (project, settings) = shared.settings().await?;
    let backend = inner.backend(&session.backend, &settings)?;
    let task = life.subject.task();
    if let Some(task) = task {
        // Another machine may have taken the task over meanwhile.
        claims::claim(shared, life.id, task).await?;
    }
    let mut context = context(shared, session, &note, &directory);
    // It runs with what was right at its start.
    context.settings =
        agent_settings(shared, backend.name(), note.phase, &project, &settings).unwrap_or_default();
    if let Some(task) = task {
        context.task = shared.store.get(task).await.ok().map(|task| task.value);
    }
    let (spender, agent, log_name) = (life.clone(), session.backend.clone(), note.log_name.clone());
    let (account, alias) = (Arc::clone(shared), session.alias.clone());
    let open = move || {
        // It is ours since its first session.
        account.inner.aliases.give(&alias, &Bearer::new(&account.id, spender.id))?;
        let mailbox = Mailbox::open(account.mailbox_of(spender.id));
        let purse = Purse::new(&account, &spender, task, agent, &log_name);
        // A session without a log is better than none.
        Ok((Arc::new(purse), LogFile::resume(&log_name).ok(), mailbox))
    };
    let (purse, log_file, mailbox) = blocking("opening the account of a session", open).await?;
    let Some(hosted) = inner.host.adopt(&session.id).await? else { return Ok(None) };
    let (given, missed) = answers(&directory, &life, &session.id).await?;
    let answered = hosted.answered;
    // Read now: it may have ended since.
    let at = recording.clone();
    let ending = blocking("looking at a recording", move || Recording::ending(&at)).await?;
    let ended = ending.at.map(|at| boot_time_of(shared, &at));
    let timed_out = ended.zip(deadline).is_some_and(|(ended, deadline)| deadline.had_passed(ended));
    // Its screen shows it still. Read again, "in 5 minutes" would count from now.
    let issue = match &life.state {
        LifeState::Limited { issue, .. } => Some(issue.clone()),
        _ => None,
    };
    // With `ask` and `stop`, nobody knows whether its person has been asked.
    let goes_on =
        life.state == LifeState::Running && shared.limits(&project, &settings).on_limit == OnLimit::Wait;
    let info = SessionInfo {
        id: session.id.clone(),
        alias: session.alias.clone(),
        project: shared.id.clone(),
        mode: note.mode,
        phase: note.phase,
        task,
        backend: session.backend.clone(),
        started_at: note.started_at,
    };
    let log = open_records(shared, &info, &note.log_name).await;
    let started = Assembly {
        hosted,
        info,
        signals: watch_signals(&note.completion, &directory),
        directory,
        backend,
        context: Arc::new(context),
        reach: if note.reach == Reached::Stream { Reach::Stream } else { Reach::Terminal },
        vendor_session: session.vendor_session.clone(),
        size: ending.size.unwrap_or_default(),
        log_file,
        log,
        record: LiveRecord::written(task, &note.log_name),
        log_name: note.log_name,
        readiness: note.readiness,
        prompt: PromptDelivery::None,
        completion: note.completion,
        may: project.agents_may.clone(),
        workspace: task.map(WorkspaceKey::new),
        may_nudge: note.may_nudge && !is_nudged,
        restored: note.restored,
        purse,
        deadline,
        // A text that was changed since to none that counts must not end the session.
        stall_after: stall_after(&project).unwrap_or(STALL_AFTER),
        mailbox,
        taken: Some(Taken { answered, answers: given, timed_out, issue, goes_on }),
        fence: shared.fence(life.id),
    }
    .start(shared);
    let payload = serde_json::json!({ "recording": recording });
    started.session.log().push(Source::Process, Body::lifecycle("adopted", payload));
    shared.notice(NoticeCode::Recovered, task, "its agent went on meanwhile; its session was taken over");
    tokio::spawn(give(started.session.clone(), missed));
    Ok(Some(started))
}

/// Returns a time of day as the clock's boot time.
fn boot_time_of(shared: &ProjectShared, at: &Timestamp) -> Duration {
    let clock = &shared.inner.clock;
    let ago = clock.now().unix_millis().saturating_sub(at.unix_millis());
    clock.boot_time().saturating_sub(Duration::from_millis(u64::try_from(ago).unwrap_or_default()))
}

/// Returns true for a life whose agent is at work. A step is repeated, because what it was given is not kept.
fn goes_on(life: &Life) -> bool {
    let at_work = matches!(
        life.state,
        LifeState::Starting | LifeState::Running | LifeState::Asking { .. } | LifeState::Limited { .. }
    );
    at_work && life.stop.is_none() && !life.subject.is_step()
}

/// The files and processes that an earlier program left of a session.
struct Found {
    note: SessionNote,
    deadline: Option<Deadline>,
    recording: PathBuf,
    /// True if its agent was asked how its task ended.
    is_nudged: bool,
}

impl Found {
    /// Returns `None` for a session that cannot be taken over. Blocks.
    fn read(directory: &SessionDirectory) -> Result<Option<Self>> {
        let note = match SessionNote::read(directory) {
            // Not written yet: its agent did not start.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            note => note?,
        };
        let files = notes(directory);
        // Half a prompt may be typed, or a request be without its answer: nobody knows.
        if note.reach == Reached::Dialogue || note.types_prompt && !files.prompted.exists() {
            return Ok(None);
        }
        let recording = note.log_name.with_extension(RECORDING);
        let (deadline, is_nudged) =
            (Deadline::read(&files.deadline).or(note.deadline), files.nudged.exists());
        Ok(Some(Self { note, deadline, recording, is_nudged }))
    }
}

fn context(
    shared: &ProjectShared,
    session: &SessionRef,
    note: &SessionNote,
    directory: &SessionDirectory,
) -> SessionContext {
    let inner = &shared.inner;
    let (id, backend) = (session.id.clone(), session.backend.clone());
    let mut context =
        SessionContext::new(id, backend, note.mode, &note.program, directory.home(), session.cwd.clone());
    context.phase = note.phase;
    context.session_dir = directory.files();
    context.project_root.clone_from(&shared.root);
    context.title.clone_from(&note.title);
    context.resume.clone_from(&note.resume);
    context.environment.clone_from(&inner.environment);
    context.user_home.clone_from(&inner.user_home);
    context.helper = inner.helper_inside();
    context
}

/// Returns the answers that the agent was given in this session, and those that were recorded and not typed. Puts those
/// into the inbox that are not there.
async fn answers(
    directory: &SessionDirectory,
    life: &Life,
    session: &SessionId,
) -> Result<(Vec<(Question, String)>, Vec<(Question, String)>)> {
    let own = life.answers.iter().filter(|answer| answer.session.as_ref() == Some(session)).cloned();
    let asked = |answer: Answer| (Question::new(answer.id, answer.question), answer.text);
    let (own, files): (Vec<_>, _) = (own.map(asked).collect(), directory.files());
    let (notes, session) = (notes(directory), session.clone());
    blocking("looking at an agent's answers", move || {
        let (spool, inbox) = (Spool::open(&files, SpoolLimits::default())?, files.join("inbox"));
        let asked_now = match read_signal(&files, &session, &Timestamp::from_unix_millis(0)) {
            SignalRead::Signal(Signal::Questions(asked)) => asked,
            _ => Vec::new(),
        };
        let is_missed = |(question, _): &&(Question, String)| !notes.given(question).exists();
        let missed: Vec<_> = own.iter().filter(is_missed).cloned().collect();
        for answer in letters(&own, &asked_now) {
            let (question, text) = answer;
            let letter = endpoint::Answer::new(&question.id, text);
            // What was typed is in the inbox, unless it did not belong there. What the agent has put there instead is replaced.
            let is_there =
                || endpoint::Answer::read(&inbox, &question.id).ok().flatten() == Some(letter.clone());
            if is_missed(&answer) && !is_there() {
                spool.put(&letter.file_name(), letter.to_json().to_string().as_bytes())?;
            }
        }
        Ok((own, missed))
    })
    .await
}

/// Returns the answers that belong into the inbox, where an answer is known by its question's id alone: the last of each id,
/// and none to a question that was withdrawn for the one `asked_now`.
fn letters<'a>(own: &'a [(Question, String)], asked_now: &[Question]) -> Vec<&'a (Question, String)> {
    let is_taken = |(question, _): &&(Question, String)| {
        // A recorded question may be cut.
        let other = |now: &Question| !now.question.starts_with(&question.question);
        asked_now.iter().any(|now| now.id == question.id && other(now))
    };
    let theirs: Vec<_> = own.iter().filter(|answer| !is_taken(answer)).collect();
    let is_last = |at: usize| !theirs[at + 1..].iter().any(|(later, _)| later.id == theirs[at].0.id);
    (0..theirs.len()).filter(|at| is_last(*at)).map(|at| theirs[at]).collect()
}

/// Types the answers that did not reach the agent.
async fn give(session: Session, answers: Vec<(Question, String)>) {
    for (question, text) in answers {
        session.give(&question, &text).await;
    }
}

/// Ends the sessions that outlived their program and that no life names.
pub(crate) async fn end_strangers(shared: &ProjectShared, left: &[SessionDirectory]) {
    if !shared.inner.host.outlives() {
        return;
    }
    for directory in left {
        let name = directory.root().file_name().and_then(|name| name.to_str());
        let Some(session) = name.and_then(|name| name.parse().ok()) else { continue };
        if let Err(error) = shared.inner.host.end(&session).await {
            let message = format!("ending a session that nothing names: {}", error.report());
            shared.notice(NoticeCode::Recovered, None, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inbox_gets_the_last_answer_of_an_id_and_none_to_a_withdrawn_question() {
        let answer = |id: &str, words: &str, text: &str| (Question::new(id, words), text.to_owned());
        let own = [
            answer("1", "Which port?", "80"),
            answer("2", "Which host?", "a"),
            answer("1", "Drop the table?", "no"),
            answer("3", "Which user?", "root"),
        ];
        let texts = |asked_now: &[Question]| -> Vec<&str> {
            letters(&own, asked_now).iter().map(|(_, text)| text.as_str()).collect()
        };
        assert_eq!(texts(&[]), ["a", "no", "root"]);
        let now = [Question::new("3", "Delete it?"), Question::new("1", "Drop the table? It has rows.")];
        assert_eq!(texts(&now), ["a", "no"], "a recorded question may be cut");
        assert_eq!(texts(&[Question::new("1", "Which port?")]), ["80", "a", "root"]);
    }
}
