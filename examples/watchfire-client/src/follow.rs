//! One stream out of those of several programs.

use tokio_stream::{StreamExt as _, StreamMap};
use tonic::Streaming;
use watchfire_api::{ApiError, proto};

/// The records of all sessions that are followed.
#[derive(Debug)]
pub struct FollowAll(StreamMap<usize, Streaming<proto::FollowResponse>>);

impl FollowAll {
    pub(crate) fn new(streams: Vec<Streaming<proto::FollowResponse>>) -> Self {
        Self(streams.into_iter().enumerate().collect())
    }

    /// Returns the next record, or `None` once all streams have ended. A program that was lost while others go on is an event of
    /// the kind `program_lost`.
    ///
    /// # Errors
    /// `app_not_running` when the last program was lost; others of the servers.
    pub async fn next(&mut self) -> Result<Option<proto::FollowResponse>, ApiError> {
        let Some((program, item)) = self.0.next().await else { return Ok(None) };
        match item {
            Ok(item) => Ok(Some(item)),
            Err(status) => {
                self.0.remove(&program);
                let error = ApiError::from(status);
                if self.0.is_empty() {
                    return Err(error);
                }
                let event = proto::Event { kind: "program_lost".to_owned(), ..Default::default() };
                Ok(Some(proto::FollowResponse { event: Some(event), ..Default::default() }))
            }
        }
    }
}
