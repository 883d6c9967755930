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

    /// Returns the next record, or `None` once all streams have ended.
    ///
    /// # Errors
    /// `app_not_running` when a program has ended; others of the servers.
    pub async fn next(&mut self) -> Result<Option<proto::FollowResponse>, ApiError> {
        match self.0.next().await {
            Some((_, item)) => Ok(Some(item?)),
            None => Ok(None),
        }
    }
}
