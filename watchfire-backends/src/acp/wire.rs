//! JSON-RPC, one message a line.

use agent_client_protocol_schema::rpc::{JsonRpcMessage, Notification};
use agent_client_protocol_schema::v1::{Error, Request, RequestId, Response};
use serde::Serialize;
use serde_json::Value;

use crate::common::json;

/// The longest id of a request, in bytes: it comes back with the answer, which waits in memory until it is written.
const LONGEST_ID: usize = 256;

/// A message of the agent.
#[derive(Debug)]
pub(super) enum Incoming {
    /// It wants an answer.
    Request { id: RequestId, method: String, params: Value },
    /// It does not.
    Notification { method: String, params: Value },
    /// It is an answer.
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
        (Some(id), None) => {
            let result = match take("error") {
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

/// A request of ours.
pub(super) fn request(id: i64, method: &str, params: impl Serialize) -> String {
    line(Request { id: RequestId::Number(id), method: method.into(), params: Some(params) })
}

/// A notification of ours.
pub(super) fn notification(method: &str, params: impl Serialize) -> String {
    line(Notification { method: method.into(), params: Some(params) })
}

/// Our answer.
pub(super) fn answer(id: RequestId, result: Result<impl Serialize, Error>) -> String {
    line(Response::new(id, result))
}

/// Nothing that we write has a key that is no text, or a number that is none: it always becomes a line.
fn line(message: impl Serialize) -> String {
    serde_json::to_string(&JsonRpcMessage::wrap(message)).unwrap_or_default()
}
