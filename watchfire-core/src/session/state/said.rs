//! The last words and deeds of an agent, for people: from its conversation, else from what it printed.

use crate::backend::{Message, Part, Readiness, Role};
use crate::observe::Sanitizer;

/// Upper bound for the bytes of a message that are kept, from its end.
const KEPT: usize = 4096;
/// Upper bound for the characters of a line for people.
const SHOWN: usize = 300;

/// Latest part of an agent's conversation.
#[derive(Debug, Default)]
pub(in crate::session) struct Said {
    message: String,
    /// True while the next piece of text without an id continues the message.
    is_open: bool,
    /// The error that came after the message, if any.
    error: Option<String>,
    /// The tool that was called after the message, if any.
    tool: Option<String>,
    /// Tools that were called and have no result yet.
    tools_open: usize,
    /// True once the agent has said something, or failed, in this turn.
    spoke: bool,
}

impl Said {
    pub(in crate::session) fn take_in(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                Part::Text { text } if message.role == Role::Assistant => {
                    // Streams send one message in pieces, which carry no id.
                    if !self.is_open || message.id.is_some() {
                        self.message.clear();
                    }
                    self.message.push_str(text);
                    let surplus = self.message.len().saturating_sub(KEPT);
                    // At most three bytes further lies the boundary of a character.
                    let surplus =
                        (surplus..).find(|at| self.message.is_char_boundary(*at)).unwrap_or_default();
                    self.message.drain(..surplus);
                    (self.is_open, self.error, self.tool, self.spoke) = (true, None, None, true);
                    continue;
                }
                Part::ToolResult { .. } => self.tools_open = self.tools_open.saturating_sub(1),
                Part::Text { .. } => (self.error, self.tool) = (None, None),
                Part::Error { text } if !text.trim().is_empty() => {
                    (self.error, self.spoke) = (Some(line(text)), true);
                }
                Part::ToolCall { name, input } => {
                    // A request that failed and was tried again has been answered.
                    self.error = None;
                    self.tool = Some(line(&format!("{name} {input}")));
                    self.tools_open += 1;
                }
                Part::Error { .. } | Part::Thinking { .. } => {}
            }
            self.is_open = false;
        }
    }

    /// Returns the error that the conversation ended with, else the end of the last message.
    pub(in crate::session) fn last(&self) -> Option<String> {
        let message = || Some(tail(&self.message)).filter(|message| !message.is_empty());
        self.error.clone().or_else(message)
    }

    /// Returns the end of the last message, as it was written. Empty if an error came after it.
    pub(in crate::session) fn message(&self) -> &str {
        if self.error.is_some() { "" } else { self.message.trim() }
    }

    /// Returns true while a tool is at work.
    pub(in crate::session) fn uses_tool(&self) -> bool {
        self.tools_open > 0
    }

    /// Forgets tools without a result, because their turn is over.
    pub(in crate::session) fn end_turn(&mut self) {
        (self.tools_open, self.spoke) = (0, false);
    }

    /// Returns true once the agent's last words of this turn are in: nothing came after them.
    pub(in crate::session) fn has_last_words(&self) -> bool {
        self.spoke && (self.error.is_some() || self.tool.is_none())
    }

    /// Returns the current tool, else the last sentence.
    pub(in crate::session) fn doing(&self) -> Option<String> {
        let sentence = || {
            let last = self.message.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
            Some(line(last))
        };
        self.error.clone().or_else(|| self.tool.clone()).or_else(sentence)
    }
}

/// Returns the texts that programs show in or below their input box.
pub(in crate::session) fn footer(readiness: &Readiness) -> Vec<String> {
    match readiness {
        Readiness::Screen { any_of, none_of, .. } => any_of.iter().chain(none_of).cloned().collect(),
        Readiness::Immediate | Readiness::Idle { .. } => Vec::new(),
    }
}

/// Returns the last lines of a text, joined to one, without frames and without a `footer`. An error among the lines is
/// their beginning: advice on usage often follows it.
pub(in crate::session) fn last_lines(text: &str, lines: usize, footer: &[String]) -> String {
    let (mut sanitizer, mut plain) = (Sanitizer::default(), String::new());
    sanitizer.feed(text.as_bytes(), &mut plain);
    sanitizer.finish(&mut plain);
    let is_footer = |line: &str| footer.iter().any(|text| line.contains(text.as_str()));
    let all: Vec<&str> = plain.lines().collect();
    // Hints and the folder stand below it.
    let end = all.iter().rposition(|line| is_footer(line)).unwrap_or(all.len());
    let is_frame = |c: char| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c);
    let above = all.iter().take(end).filter(|line| !is_footer(line)).map(|line| line.trim_matches(is_frame));
    let said: Vec<&str> = above.filter(|line| line.chars().any(char::is_alphanumeric)).collect();
    let is_error = |line: &&str| line.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("error:"));
    let last = said.len().saturating_sub(lines);
    let from = said.iter().rposition(is_error).map_or(last, |at| at.min(last));
    let last = said.iter().skip(from).take(lines).copied().collect::<Vec<_>>().join(" / ");
    last.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Returns a text as one line, cut at its end.
fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Returns a text as one line, cut at its beginning: a question comes last.
fn tail(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: Vec<char> = words.chars().filter(|c| !c.is_control()).collect();
    match plain.len().checked_sub(SHOWN).filter(|surplus| *surplus > 0) {
        Some(surplus) => ['…'].iter().chain(plain.iter().skip(surplus)).collect(),
        None => plain.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(parts: &[(Role, Part)]) -> Said {
        let mut said = Said::default();
        parts.iter().for_each(|(role, part)| said.take_in(&Message::new(*role, vec![part.clone()])));
        said
    }

    fn text(text: &str) -> (Role, Part) {
        (Role::Assistant, Part::Text { text: text.to_owned() })
    }

    fn call(name: &str, input: &str) -> (Role, Part) {
        (Role::Assistant, Part::ToolCall { name: name.to_owned(), input: input.to_owned() })
    }

    #[test]
    fn a_message_in_pieces_is_one() {
        let words = heard(&[text("I look."), call("Read", "a.txt"), text("Which data"), text("base?\n")]);
        assert_eq!(words.last().as_deref(), Some("Which database?"));
        assert_eq!(words.doing().as_deref(), Some("Which database?"));
    }

    #[test]
    fn a_later_error_outranks_the_message() {
        let error = (Role::Assistant, Part::Error { text: "401\nUnauthorized".to_owned() });
        assert_eq!(heard(&[text("I look."), error.clone()]).last().as_deref(), Some("401 Unauthorized"));
        assert_eq!(heard(&[error, text("It works again.")]).last().as_deref(), Some("It works again."));
        assert_eq!(heard(&[]).last(), None);
    }

    #[test]
    fn a_tool_after_a_retry_is_what_it_does() {
        let retry = (Role::Assistant, Part::Error { text: "HTTP 529, retry 2 of 10".to_owned() });
        let words = [retry, call("Bash", "cargo test")];
        assert_eq!(heard(&words[..1]).doing().as_deref(), Some("HTTP 529, retry 2 of 10"));
        assert_eq!(heard(&words).doing().as_deref(), Some("Bash cargo test"));
    }

    #[test]
    fn a_tool_is_what_it_does() {
        let words = heard(&[text("Let me see.\n\nI build."), call("Bash", "cargo test")]);
        assert_eq!(words.doing().as_deref(), Some("Bash cargo test"));
        assert_eq!(words.last().as_deref(), Some("Let me see. I build."));
    }

    #[test]
    fn a_long_message_keeps_its_question() {
        let words = heard(&[text(&format!("{} Which one?", "ä ".repeat(5000)))]);
        assert!(words.message.len() <= KEPT);
        let last = words.last().unwrap();
        assert!(last.starts_with('…') && last.ends_with("Which one?") && last.chars().count() == SHOWN + 1);
    }

    #[test]
    fn footers_and_frames_are_no_words() {
        let screens = [
            (
                "● Done reading.\n────────\n❯ \n────────\n  ⏵⏵ bypass permissions on (shift+tab)",
                "⏵⏵ bypass permissions on",
            ),
            (
                "• Done reading.\n\n› Ask Codex to do anything\n\n  ← for agents · ? for shortcuts",
                "Ask Codex to do anything",
            ),
            (
                "│ Done reading. │\n▀▀▀▀▀▀▀▀\n *   Type your message or @path/to/file\n workspace (/directory) branch sandbox",
                "Type your message or @path",
            ),
        ];
        for (screen, footer) in screens {
            let said = last_lines(screen, 3, &[footer.to_owned()]);
            assert!(said.ends_with("Done reading.") && !said.contains('/'), "{said}");
        }
        assert_eq!(last_lines("a\nb\nc\nd\n", 3, &[]), "b / c / d");
    }

    #[test]
    fn usage_does_not_hide_the_error() {
        let said =
            "error: unexpected argument '--x' found\n\n  tip: y\n\nUsage: codex [OPTIONS]\n\nTry '--help'.\n";
        assert_eq!(
            last_lines(said, 3, &[]),
            "error: unexpected argument '--x' found / tip: y / Usage: codex [OPTIONS]"
        );
    }
}
