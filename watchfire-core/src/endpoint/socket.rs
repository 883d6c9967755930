//! The fast way of an agent's calls: a socket beside the spool, in the session's folder.
//!
//! A connection carries one call. It is one line of JSON: the call as a message has it, and the session's `token`, which only
//! who can read the folder knows. The reply is one line, too. A connection with another token, or with anything else, is
//! closed without a word. Whatever goes wrong, the same call goes by the spool: it has the same id, and so is made once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::call::AgentCall;
use super::folder::{Folder, Read};
use super::message::SpoolMessage;
use crate::files::socket_path;
use crate::{Error, Result};

const SOCKET: &str = "agent.sock";
const TOKEN: &str = "token";
/// Maximum length of a call, in bytes: more than the longest text, each byte of it escaped.
pub(crate) const LONGEST_CALL: u64 = 2 << 20;
/// Maximum length of a reply, in bytes.
const LONGEST_REPLY: u64 = 64 << 20;

/// The session's side.
#[derive(Debug)]
pub(crate) struct CallSocket {
    listener: Option<UnixListener>,
    token: String,
}

impl CallSocket {
    /// Makes the socket in a session's folder, in place of one that an earlier program left.
    ///
    /// # Errors
    /// Errors of the system: calls go by the spool then.
    pub(crate) fn listen(folder: &Path) -> Result<Self> {
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let files = Folder::open(folder)?;
        files.put(TOKEN, token.as_bytes())?;
        files.remove_named(SOCKET);
        let failed = |error| Error::io("making the agent's socket", error).with_path(folder);
        let (path, _folder) = socket_path(folder, SOCKET).map_err(failed)?;
        // Follows no link: the agent can write this folder.
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener: Some(listener), token })
    }

    /// Takes the listener.
    pub(crate) fn take(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }

    /// Returns the call in a line, if it has the token.
    pub(crate) fn parse(&self, line: &[u8]) -> Option<AgentCall> {
        let value: Value = serde_json::from_slice(line).ok()?;
        let given = value.get("token")?.as_str()?.as_bytes();
        let own = self.token.as_bytes();
        // Every byte is looked at, so that the time says nothing.
        let differing =
            own.iter().zip(given).fold(own.len() ^ given.len(), |all, (a, b)| all | usize::from(a ^ b));
        match SpoolMessage::parse(line).ok().filter(|_| differing == 0)? {
            SpoolMessage::Call(call) => Some(call),
            _ => None,
        }
    }
}

/// Makes a call through the socket in a session's folder, and waits up to `limit` for the reply. Returns `None` if there is no
/// way through.
pub(super) fn call(folder: &Path, call: &AgentCall, limit: Duration) -> Option<Value> {
    let Read::Bytes(token, _) = Folder::open(folder).ok()?.read(c"token", 1 << 10) else { return None };
    let mut line = SpoolMessage::Call(call.clone()).to_json();
    line.as_object_mut()?.insert(TOKEN.to_owned(), String::from_utf8(token).ok()?.into());
    let (path, _folder) = socket_path(folder, SOCKET).ok()?;
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    stream.write_all(format!("{line}\n").as_bytes()).ok()?;
    let mut reply = Vec::new();
    BufReader::new(stream).take(LONGEST_REPLY).read_until(b'\n', &mut reply).ok()?;
    serde_json::from_slice(&reply).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::AgentAction;

    #[test]
    fn a_call_with_the_token_is_one() {
        let temp = tempfile::tempdir().unwrap();
        // Deeper than the path of a socket may be.
        let folder = temp.path().join("d".repeat(200));
        std::fs::create_dir(&folder).unwrap();
        let wanted = AgentCall::new("1", AgentAction::List);
        assert_eq!(call(&folder, &wanted, Duration::from_secs(1)), None, "nobody is there");
        drop(CallSocket::listen(&folder).unwrap());
        assert_eq!(call(&folder, &wanted, Duration::from_secs(1)), None, "nor any more");
        let mut socket = CallSocket::listen(&folder).unwrap();
        let listener = socket.take().unwrap();
        listener.set_nonblocking(false).unwrap();
        let taking = std::thread::spawn({
            let wanted = wanted.clone();
            move || {
                let (stream, _) = listener.accept().unwrap();
                let mut line = Vec::new();
                BufReader::new(&stream).read_until(b'\n', &mut line).unwrap();
                assert_eq!(socket.parse(&line), Some(wanted));
                let mut other: Value = serde_json::from_slice(&line).unwrap();
                for token in
                    [Value::Null, "".into(), "x".into(), "0".repeat(64).into(), socket.token[..63].into()]
                {
                    other["token"] = token;
                    assert_eq!(socket.parse(other.to_string().as_bytes()), None, "{other}");
                }
                let own = serde_json::json!({ "token": socket.token, "kind": "note", "text": "x" });
                assert_eq!(socket.parse(own.to_string().as_bytes()), None, "no call");
                (&stream).write_all(b"{\"ok\":true}\n").unwrap();
            }
        });
        let reply = call(&folder, &wanted, Duration::from_secs(20));
        taking.join().unwrap();
        assert_eq!(reply, Some(serde_json::json!({ "ok": true })));
    }
}
