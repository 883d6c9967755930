//! Questions between the person and agents.

use std::time::Duration;

use tonic::transport::Channel;
use watchfire_api::ApiError;
use watchfire_api::talk_proto::talk_service_client::TalkServiceClient;
use watchfire_api::talk_proto::{AnswerRequest, AskRequest, AskResponse, ListenRequest, Pending};
use watchfire_core::model::{ProjectId, TaskNumber, Timestamp};
use watchfire_core::observe::Target;

use crate::client::{Client, millis};

impl Client {
    /// Asks the agent of the one session that `target` means, in the person's name, and waits for its answer.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target`; `target_off` if it has ended; `expired` if there is no answer in time.
    pub async fn ask(
        &self,
        target: &Target,
        text: &str,
        timeout: Option<Duration>,
    ) -> Result<AskResponse, ApiError> {
        let (at, session) = self.one(target).await?;
        let request = AskRequest {
            target: session,
            text: text.to_owned(),
            timeout_ms: timeout.map(millis),
            ..AskRequest::default()
        };
        Ok(self.talk(at).ask(request).await.map_err(|status| self.failed(at, status))?.into_inner())
    }

    /// Answers what the agent of a task asks the person. Returns `None` if no program runs the project.
    ///
    /// # Errors
    /// `not_found` if it asks nothing; `invalid_input` if it asks several and none is named; `already_answered`.
    pub async fn answer_task(
        &self,
        project: &ProjectId,
        task: TaskNumber,
        question: Option<&str>,
        text: &str,
    ) -> Result<Option<String>, ApiError> {
        let Some(at) = self.serving(project) else { return Ok(None) };
        let request = AnswerRequest {
            project_id: project.to_string(),
            task_number: task.value(),
            conversation_id: question.unwrap_or_default().to_owned(),
            text: text.to_owned(),
            question: String::new(),
        };
        let answered = self.talk(at).answer(request).await.map_err(|status| self.failed(at, status))?;
        Ok(Some(answered.into_inner().conversation_id))
    }

    /// Answers a question between agents, in place of the one that was asked.
    ///
    /// # Errors
    /// `not_found`; `already_answered`; `expired` or `target_off` if nobody waits for it any more.
    pub async fn answer(&self, conversation: &str, text: &str) -> Result<String, ApiError> {
        let mut unknown = ApiError::new("not_found", "there is no such question");
        for at in 0..self.len() {
            let request = AnswerRequest {
                conversation_id: conversation.to_owned(),
                text: text.to_owned(),
                ..AnswerRequest::default()
            };
            match self.talk(at).answer(request).await.map_err(|status| self.failed(at, status)) {
                Ok(answered) => return Ok(answered.into_inner().conversation_id),
                // Another program may have it. One that is gone has nothing.
                Err(error) if ["not_found", "app_not_running"].contains(&error.code.as_str()) => {
                    unknown = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(unknown)
    }

    /// Returns the oldest question that waits for the person, or waits for one. Returns `None` once the time is over. With
    /// `peers`, also what agents ask each other.
    ///
    /// # Errors
    /// Errors of the servers.
    pub async fn listen(&self, peers: bool, timeout: Option<Duration>) -> Result<Option<Pending>, ApiError> {
        // What waits by now is compared; of what comes later, the first is the oldest.
        if self.len() > 1
            && let Ok(waiting) = self.heard(peers, Some(Duration::ZERO), usize::MAX).await
            && let Some(oldest) = waiting.into_iter().min_by_key(|it| it.asked_at.parse::<Timestamp>().ok())
        {
            return Ok(Some(oldest));
        }
        Ok(self.heard(peers, timeout, 1).await?.pop())
    }

    /// Listens at all servers, until this many have something. An error of one counts only if none has.
    async fn heard(
        &self,
        peers: bool,
        timeout: Option<Duration>,
        enough: usize,
    ) -> Result<Vec<Pending>, ApiError> {
        let mut listening = tokio::task::JoinSet::new();
        for at in 0..self.len() {
            let request =
                ListenRequest { peers, timeout_ms: timeout.map(millis), ..ListenRequest::default() };
            let mut server = self.talk(at);
            let client = self.clone();
            listening.spawn(async move {
                server.listen(request).await.map_err(|status| client.failed(at, status))
            });
        }
        let (mut failed, mut heard) = (None, Vec::new());
        while let Some(answered) = listening.join_next().await {
            match answered {
                Ok(Ok(response)) => heard.extend(response.into_inner().pending),
                // Of several programs, one may end meanwhile.
                Ok(Err(error)) => failed = Some(error),
                Err(error) => failed = Some(ApiError::new("internal", format!("listening: {error}"))),
            }
            if heard.len() >= enough {
                break;
            }
        }
        match failed {
            Some(error) if heard.is_empty() => Err(error),
            _ => Ok(heard),
        }
    }

    fn talk(&self, at: usize) -> TalkServiceClient<Channel> {
        TalkServiceClient::new(self.channel(at))
    }
}
