//! The choice of a chat to go on with.

use std::fmt::Write as _;

use watchfire_client::work_proto;
use watchfire_core::model::SessionId;
use watchfire_core::orchestrator;

use crate::failure::{Failure, Result};
use crate::{terminal, text};

/// A chat that has ended.
pub(in crate::commands) struct EndedChat {
    session: String,
    agent: String,
    ended_at: String,
    is_apart: bool,
    last_words: String,
}

impl From<orchestrator::EndedChat> for EndedChat {
    fn from(chat: orchestrator::EndedChat) -> Self {
        Self {
            session: chat.session.to_string(),
            agent: chat.agent.to_string(),
            ended_at: chat.ended_at.to_string(),
            is_apart: !chat.place.is_root(),
            last_words: chat.last_words,
        }
    }
}

impl From<work_proto::EndedChat> for EndedChat {
    fn from(chat: work_proto::EndedChat) -> Self {
        let is_apart = !chat.place.is_empty();
        let work_proto::EndedChat { session_id: session, agent, ended_at, last_words, .. } = chat;
        Self { session, agent, ended_at, is_apart, last_words }
    }
}

/// Returns the session of the chat that `wanted` names: its number in the list or the beginning of its id. An empty name asks
/// the person, unless there is only one.
pub(in crate::commands) async fn choose(
    chats: impl IntoIterator<Item = impl Into<EndedChat>>,
    wanted: &str,
) -> Result<SessionId> {
    let chats: Vec<EndedChat> = chats.into_iter().map(Into::into).collect();
    let [first, further @ ..] = &chats[..] else {
        return Err(Failure::usage("no chat can be gone on with", "watchfire chat begins one"));
    };
    let found = match wanted {
        "" if further.is_empty() => Some(first),
        "" => {
            let asked = format!("{}Which one? [1] ", list(&chats));
            let answer = terminal::read(&asked).await?;
            let answer = answer.trim();
            named(&chats, if answer.is_empty() { "1" } else { answer })
        }
        wanted => named(&chats, wanted),
    };
    let Some(chat) = found else {
        return Err(Failure::usage(
            "there is no such chat",
            "watchfire chat --resume lists those that there are",
        ));
    };
    Ok(SessionId::try_from(chat.session.clone())?)
}

fn named<'a>(chats: &'a [EndedChat], name: &str) -> Option<&'a EndedChat> {
    let number = name.parse::<usize>().ok().and_then(|number| chats.get(number.checked_sub(1)?));
    let mut by_id = chats.iter().filter(|chat| chat.session.starts_with(name));
    // The beginning of several ids names none of them.
    number.or_else(|| by_id.next().filter(|_| by_id.next().is_none()))
}

fn list(chats: &[EndedChat]) -> String {
    let agents = chats.iter().map(|chat| text::width(&chat.agent)).max().unwrap_or_default();
    let mut lines = String::new();
    for (number, chat) in (1..).zip(chats) {
        // RFC 3339, of which the minutes are enough.
        let time = chat.ended_at.get(..16).unwrap_or(&chat.ended_at).replace('T', " ");
        let apart = if chat.is_apart { "  in its own folder" } else { "" };
        // As much as tells a person's chats apart.
        let id = text::line(chat.session.get(..8).unwrap_or(&chat.session));
        let start =
            format!("{number:>2}  {id}  {time}  {}{apart}  ", text::pad(&text::line(&chat.agent), agents));
        let room = usize::from(terminal::size().cols()).saturating_sub(text::width(&start)).max(20);
        // Writing to a text cannot fail.
        let _ = writeln!(lines, "{start}{}", text::clip(&text::line(&chat.last_words), room));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(session: &str) -> EndedChat {
        EndedChat {
            session: session.to_owned(),
            agent: "codex".to_owned(),
            ended_at: "2026-11-27T03:04:05Z".to_owned(),
            is_apart: session.starts_with('b'),
            last_words: "done\u{1b}[2J".to_owned(),
        }
    }

    #[test]
    fn a_chat_is_named_by_number_and_by_id() {
        let chats = ["a1", "a2", "b3"].map(chat);
        let session = |name| named(&chats, name).map(|chat| chat.session.as_str());
        assert_eq!(
            [session("1"), session("3"), session("b"), session("a2")].map(Option::unwrap),
            ["a1", "b3", "b3", "a2"]
        );
        assert_eq!([session("0"), session("4"), session("a"), session("c")], [None; 4]);
    }

    #[test]
    fn the_list_shows_what_a_person_knows_a_chat_by() {
        let list = list(&["a1", "b2"].map(chat));
        let lines: Vec<_> = list.lines().collect();
        assert!(lines[0].starts_with(" 1  a1  2026-11-27 03:04  codex  done"), "{list}");
        assert!(lines[1].starts_with(" 2  b2  2026-11-27 03:04  codex  in its own folder  done"), "{list}");
        assert!(!list.contains('\u{1b}'), "{list:?}");
    }
}
