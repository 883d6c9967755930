//! What the agent said last, in its own conversation.

use crate::backend::{Message, Part, Role};

/// Upper bound for what is kept of a message, in characters.
const LONGEST: usize = 500;

/// The latest of an agent's conversation. Its screen ends in footers, its stream in half a record; this is what a person
/// would quote.
#[derive(Debug, Default)]
pub(in crate::session) struct Said {
    /// The last text of the agent, or the last error, whichever came later.
    words: String,
    /// What it does: its last text, error or call of a tool.
    doing: String,
}

impl Said {
    pub(in crate::session) fn note(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                Part::Text { text } if message.role == Role::Assistant => self.say(text),
                Part::Error { text } => self.say(text),
                Part::ToolCall { name, input } => self.doing = line(&format!("{name} {input}")),
                _ => {}
            }
        }
    }

    fn say(&mut self, text: &str) {
        let said = line(text);
        if !said.is_empty() {
            self.words.clone_from(&said);
            self.doing = said;
        }
    }

    pub(in crate::session) fn words(&self) -> &str {
        &self.words
    }

    pub(in crate::session) fn doing(&self) -> &str {
        &self.doing
    }
}

/// Returns a text as one line, shortened at its end.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, part: Part) -> Message {
        Message::new(role, vec![part])
    }

    #[test]
    fn the_last_text_or_error_is_quoted_and_tools_show_what_is_done() {
        let mut said = Said::default();
        assert_eq!((said.words(), said.doing()), ("", ""));
        said.note(&message(Role::Assistant, Part::Text { text: " Which\n database? \n".into() }));
        said.note(&message(Role::User, Part::Text { text: "the prompt".into() }));
        said.note(&message(Role::Assistant, Part::Text { text: "\n".into() }));
        said.note(&message(
            Role::Assistant,
            Part::ToolCall { name: "Bash".into(), input: "make check".into() },
        ));
        said.note(&message(Role::Tool, Part::ToolResult { text: "ok".into(), failed: false }));
        assert_eq!((said.words(), said.doing()), ("Which database?", "Bash make check"));
        said.note(&message(Role::System, Part::Error { text: "401 Unauthorized".into() }));
        assert_eq!((said.words(), said.doing()), ("401 Unauthorized", "401 Unauthorized"));
        said.note(&message(Role::Assistant, Part::Text { text: "ä".repeat(LONGEST + 1) }));
        assert_eq!(said.words().chars().count(), LONGEST + 1);
    }
}
