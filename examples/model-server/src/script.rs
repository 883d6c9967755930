//! Scripts: the answers that the server gives.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Ask, Fault};

/// Rules for answers. The first rule that fits a request gives the answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Script(pub Vec<Rule>);

/// A rule: the turns of one conversation.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Words in the user's last prompt. Without them the rule fits every request.
    #[serde(default)]
    pub when: Option<String>,
    /// True for requests that offer no tools, as agents without tools send them. Other rules do not fit such
    /// requests, which are for titles and the like.
    #[serde(default)]
    pub without_tools: bool,
    /// The answers, in order. Each tool result leads to the next one. After the last one the server says that it is
    /// done.
    pub turns: Vec<Turn>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Text of the answer. `{path:NAME}` stands for the path of the file of that name, as the user named it last.
    pub text: Option<String>,
    /// Command for the agent's shell tool, under any name and with any parameters.
    pub run: Option<String>,
    /// Name of a tool to call, if the request offers it, by this name or with the name of its server before it.
    pub tool: Option<String>,
    /// Input for that tool.
    pub input: Value,
    /// Error to answer with instead.
    pub fault: Option<Fault>,
    /// Number of failures before the turn is answered. Without it the turn always fails.
    pub times: Option<u32>,
    /// True if the stream breaks off half-way, as often as `times` says.
    pub cut: bool,
    /// Milliseconds to wait before the answer.
    pub delay_ms: u64,
}

impl Turn {
    /// Returns the text of the answer to a request.
    pub(crate) fn words(&self, ask: &Ask) -> Option<String> {
        const OPEN: &str = "{path:";
        let mut text = self.text.clone()?;
        while let Some((before, (name, after))) =
            text.split_once(OPEN).and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            let named = |word: &&str| word.rsplit('/').next() == Some(name);
            let said = ask.users.iter().flat_map(|said| said.split_whitespace());
            let path = said.map(|word| word.trim_matches(['`', '"', '\''])).rfind(named).unwrap_or(name);
            text = format!("{before}{path}{after}");
        }
        Some(text)
    }
}

impl Script {
    /// Returns the turn for a request, with the numbers of rule and turn. Returns `None` when nothing is left to say.
    pub(crate) fn turn(&self, ask: &Ask) -> Option<(usize, usize, &Turn)> {
        let fits = |rule: &Rule| {
            // Requests without tools arrive beside the conversation and must not use up its turns.
            rule.without_tools == ask.tools.is_empty()
                && rule.when.as_ref().is_none_or(|words| ask.user.contains(words.as_str()))
        };
        let (number, rule) = self.0.iter().enumerate().find(|(_, rule)| fits(rule))?;
        // A later rule never takes over: the conversation belongs to the first rule that fits.
        Some((number, ask.results, rule.turns.get(ask.results)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_the_user_named_it_last() {
        let turn = Turn { text: Some("{path:a.txt}, {path:b.txt} and {path".into()), ..Turn::default() };
        let mut ask = Ask::default();
        ask.user_says("xa.txt then /up/a.txt or `../up/a.txt`".into());
        assert_eq!(turn.words(&ask).as_deref(), Some("../up/a.txt, b.txt and {path"));
        assert_eq!(Turn::default().words(&ask), None);
    }
}
