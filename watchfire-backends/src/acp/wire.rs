//! JSON-RPC with one message per line.

use agent_client_protocol_schema::rpc::{JsonRpcMessage, Notification};
use agent_client_protocol_schema::v1::{Error, Request, RequestId, Response};
use serde::Serialize;
use serde_json::Value;

use crate::common::json;

/// Longest id of an agent's request, in bytes. Our answer repeats the id and waits in memory until it is written.
const LONGEST_ID: usize = 256;

/// A message of the agent.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A request, which needs an answer.
    Request { id: RequestId, method: String, params: Value },
    /// A notification, which gets no answer.
    Notification { method: String, params: Value },
    /// An answer to a request of ours.
    Response { id: i64, result: Result<Value, Error> },
}

/// Parses a message from a line. Returns `None` for other text, such as the last words of a program.
pub(super) fn read(line: &str) -> Option<Incoming> {
    let mut message = json::object(line)?;
    let mut take = |key: &str| message.get_mut(key).map(Value::take);
    let (id, method, params) = (take("id"), take("method"), take("params").unwrap_or_default());
    match (id, method) {
        (None, Some(Value::String(method))) => Some(Incoming::Notification { method, params }),
        (Some(id), Some(Value::String(method))) => {
            Some(Incoming::Request { id: request_id(id)?, method, params })
        }
        // Our own ids are numbers, so an answer with any other id is none of ours.
        (Some(id), None) => {
            let result = match take("error") {
                // An error in a wrong shape is still an error. Dropping it would leave the request open.
                Some(error) => Err(serde_json::from_value(error).unwrap_or_else(|_| Error::internal_error())),
                None => Ok(take("result")?),
            };
            Some(Incoming::Response { id: id.as_i64()?, result })
        }
        _ => None,
    }
}

fn request_id(id: Value) -> Option<RequestId> {
    match id {
        Value::String(id) if id.len() <= LONGEST_ID => Some(RequestId::Str(id)),
        Value::Number(id) => id.as_i64().map(RequestId::Number),
        _ => None,
    }
}

/// Returns the line of a request.
pub(super) fn request(id: i64, method: &str, params: impl Serialize) -> String {
    line(Request { id: RequestId::Number(id), method: method.into(), params: Some(params) })
}

/// Returns the line of a notification.
pub(super) fn notification(method: &str, params: impl Serialize) -> String {
    line(Notification { method: method.into(), params: Some(params) })
}

/// Returns the line of an answer.
pub(super) fn answer(id: RequestId, result: Result<impl Serialize, Error>) -> String {
    line(Response::new(id, result))
}

/// Returns a message as one line. Serializing cannot fail here: all keys are texts, and all numbers are finite.
fn line(message: impl Serialize) -> String {
    serde_json::to_string(&JsonRpcMessage::wrap(message)).unwrap_or_default()
}
