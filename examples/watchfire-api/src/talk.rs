//! The service of questions between the person and agents.

use std::time::Duration;

use tokio::task::JoinSet;
use tonic::{Request, Response, Status};
use watchfire_core::inquiry::{Inquiry, InquiryState, Party};
use watchfire_core::model::{ProjectId, Question, TaskNumber, Timestamp};
use watchfire_core::observe::Target;
use watchfire_core::orchestrator::ProjectHandle;
use watchfire_core::schedule::{Life, LifeState};
use watchfire_core::{Error, ErrorKind, Result};

use crate::Server;
use crate::error::status;
use crate::server::here;
use crate::talk_proto as proto;
use crate::talk_proto::talk_service_server::TalkService;

/// Pause between two looks for projects that were opened.
const AGAIN: Duration = Duration::from_secs(1);

impl Server {
    async fn ask_one(&self, request: proto::AskRequest) -> Result<proto::AskResponse> {
        let here = here(&request.project_id)?;
        let session = self.one(&request.target.parse::<Target>()?, here.as_ref()).await?;
        let within = request.timeout_ms.map(Duration::from_millis);
        let project = self.project(&session.project)?;
        let ended = project.ask(&session.session, request.text, within).await?;
        let failed = |kind, message: &'static str| Err(Error::new(kind, message).with("id", &ended.id));
        let (answer, by_person, status) = match &ended.state {
            InquiryState::Answered { text, by_person, status, .. } => {
                (text.clone(), *by_person, status.as_str().to_owned())
            }
            InquiryState::TargetOff => {
                return failed(ErrorKind::TargetOff, "the agent has ended, and did not answer");
            }
            _ => return failed(ErrorKind::Expired, "there was no answer in time"),
        };
        let (session_id, alias, task_number) = named(&ended.to);
        let conversation_id = ended.id.clone();
        Ok(proto::AskResponse { conversation_id, session_id, alias, task_number, answer, by_person, status })
    }

    async fn answer_one(&self, request: proto::AnswerRequest) -> Result<proto::AnswerResponse> {
        let projects = self.projects(&request.project_id)?;
        let answered =
            |conversation_id| proto::AnswerResponse { conversation_id, status: "answered".to_owned() };
        if let Some(task) = TaskNumber::new(request.task_number) {
            for project in &projects {
                let lives = project.subscribe(None).await?.snapshot.lives;
                if let Some(life) = lives.into_iter().find(|life| life.subject.task() == Some(task)) {
                    let question = chosen(&life, &request.conversation_id)?;
                    let asked = Question::new(question.clone(), request.question);
                    project.answer_to(life.id, &asked, request.text).await?;
                    return Ok(answered(question));
                }
            }
            return Err(Error::new(ErrorKind::NotFound, "the task waits for no answer").with("task", task));
        }
        for project in &projects {
            match project.answer_inquiry(&request.conversation_id, request.text.clone()).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => return result.map(|inquiry| answered(inquiry.id)),
            }
        }
        let unknown = Error::new(ErrorKind::NotFound, "there is no such question");
        Err(unknown.with("id", request.conversation_id))
    }

    async fn listen_for(&self, request: proto::ListenRequest) -> Result<proto::ListenResponse> {
        let waiting = async {
            loop {
                // Each time: projects are opened and closed meanwhile.
                let projects = self.projects(&request.project_id)?;
                // Subscribed before it is looked at, so that what comes in between is seen.
                let mut changed = JoinSet::new();
                for project in &projects {
                    let mut records = project.subscribe(None).await?.changes;
                    changed.spawn(async move { records.next().await.is_some() });
                    let mut inquiries = project.inquiry_changes();
                    changed.spawn(async move { inquiries.changed().await.is_ok() });
                }
                if let Some(pending) = oldest(&projects, request.peers).await? {
                    return Ok::<_, Error>(Some(pending));
                }
                tokio::select! {
                    // One that was closed says so once, and is not there in the next round.
                    Some(_) = changed.join_next() => {}
                    // One that was opened says nothing.
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        };
        // Looked at once, however short the time is.
        if let Some(pending) = oldest(&self.projects(&request.project_id)?, request.peers).await? {
            return Ok(proto::ListenResponse { pending: Some(pending) });
        }
        let pending = match request.timeout_ms {
            None => waiting.await?,
            Some(limit) => match tokio::time::timeout(Duration::from_millis(limit), waiting).await {
                Ok(pending) => pending?,
                Err(_) => None,
            },
        };
        Ok(proto::ListenResponse { pending })
    }

    fn projects(&self, id: &str) -> Result<Vec<ProjectHandle>> {
        match here(id)? {
            Some(id) => Ok(vec![self.project(&id)?]),
            None => Ok(self.all()),
        }
    }
}

/// Returns the open question of a task that is meant.
fn chosen(life: &Life, id: &str) -> Result<String> {
    let LifeState::Asking { questions, .. } = &life.state else {
        let error = Error::new(ErrorKind::NotFound, "the task waits for no answer");
        return Err(error.with("task", life.subject).with("state", &life.state));
    };
    match questions.as_slice() {
        [only] if id.is_empty() => Ok(only.id.clone()),
        several if id.is_empty() => {
            let ids: Vec<_> = several.iter().map(|question| question.id.as_str()).collect();
            let error = Error::new(ErrorKind::InvalidInput, "the agent asks several questions");
            Err(error.with("questions", ids.join(", ")).with("hint", "name one with --question"))
        }
        _ => Ok(id.to_owned()),
    }
}

/// Returns the oldest question that waits for the person or, with `peers`, between agents.
async fn oldest(projects: &[ProjectHandle], peers: bool) -> Result<Option<proto::Pending>> {
    let mut all = Vec::new();
    for project in projects {
        // A project may be closed while it is looked at.
        let Ok(subscribed) = project.subscribe(None).await else { continue };
        all.extend(subscribed.snapshot.lives.iter().filter_map(|life| asked(project.id(), life)));
        if peers {
            let inquiries = project.inquiries().await?.into_iter();
            all.extend(inquiries.map(|it| between(project.id(), it)));
        }
    }
    Ok(all.into_iter().min_by_key(|pending| pending.asked_at.parse::<Timestamp>().ok()))
}

/// Returns the first question of a life to the person.
fn asked(project: &ProjectId, life: &Life) -> Option<proto::Pending> {
    let LifeState::Asking { questions, .. } = &life.state else { return None };
    let (question, session) = (questions.first()?, life.session.as_ref());
    Some(proto::Pending {
        conversation_id: question.id.clone(),
        project_id: project.to_string(),
        session_id: session.map(|it| it.id.to_string()).unwrap_or_default(),
        alias: session.map(|it| it.alias.to_string()).unwrap_or_default(),
        task_number: life.subject.task().map_or(0, |task| task.value()),
        question: question.question.clone(),
        asked: String::new(),
        asked_at: life.since.to_string(),
    })
}

fn between(project: &ProjectId, inquiry: Inquiry) -> proto::Pending {
    let (session_id, alias, task_number) = named(&inquiry.from);
    proto::Pending {
        conversation_id: inquiry.id,
        project_id: project.to_string(),
        session_id,
        alias,
        task_number,
        question: inquiry.text,
        asked: named(&inquiry.to).1,
        asked_at: inquiry.asked_at.to_string(),
    }
}

/// Returns the session, the alias and the task of a party. Empty for the person.
fn named(party: &Party) -> (String, String, u32) {
    match party {
        Party::Session { session, alias, task, .. } => {
            (session.to_string(), alias.to_string(), task.map_or(0, |task| task.value()))
        }
        _ => (String::new(), String::new(), 0),
    }
}

#[tonic::async_trait]
impl TalkService for Server {
    async fn ask(&self, request: Request<proto::AskRequest>) -> Result<Response<proto::AskResponse>, Status> {
        let response = self.ask_one(request.into_inner()).await;
        response.map(Response::new).map_err(|error| status(&error))
    }

    async fn answer(
        &self,
        request: Request<proto::AnswerRequest>,
    ) -> Result<Response<proto::AnswerResponse>, Status> {
        let response = self.answer_one(request.into_inner()).await;
        response.map(Response::new).map_err(|error| status(&error))
    }

    async fn listen(
        &self,
        request: Request<proto::ListenRequest>,
    ) -> Result<Response<proto::ListenResponse>, Status> {
        let response = self.listen_for(request.into_inner()).await;
        response.map(Response::new).map_err(|error| status(&error))
    }
}
