//! One stream out of those of several programs.

use tokio_stream::{StreamExt as _, StreamMap};
use tonic::Streaming;
use watchfire_api::{ApiError, proto};

use crate::client::Client;

/// The records of all sessions that are followed.
#[derive(Debug)]
pub struct FollowAll {
    client: Client,
    /// The streams by the index of their server.
    streams: StreamMap<usize, Streaming<proto::FollowResponse>>,
}

impl FollowAll {
    pub(crate) fn new(client: Client, streams: Vec<(usize, Streaming<proto::FollowResponse>)>) -> Self {
        Self { client, streams: streams.into_iter().collect() }
    }

    /// Returns the next record, or `None` once all streams have ended. A program that was lost while others go on is an event of
    /// the kind `program_lost`.
    ///
    /// # Errors
    /// `app_not_running` when the last program was lost; others of the servers.
    pub async fn next(&mut self) -> Result<Option<proto::FollowResponse>, ApiError> {
        let Some((program, item)) = self.streams.next().await else { return Ok(None) };
        match item {
            Ok(item) => Ok(Some(item)),
            Err(status) => {
                self.streams.remove(&program);
                let error = self.client.failed(program, status);
                if self.streams.is_empty() {
                    return Err(error);
                }
                let event = proto::Event { kind: "program_lost".to_owned(), ..Default::default() };
                Ok(Some(proto::FollowResponse { event: Some(event), ..Default::default() }))
            }
        }
    }
}
