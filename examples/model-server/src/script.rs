//! What the server answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Ask, Fault};

/// Rules, of which the first that fits a request gives the answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Script(pub Vec<Rule>);

/// The turns of one conversation.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Words in the last thing that the user said; without them the rule fits every request.
    #[serde(default)]
    pub when: Option<String>,
    /// For requests that offer no tools, as of agents that have none. Other rules do not fit those: they are for titles
    /// and the like.
    #[serde(default)]
    pub without_tools: bool,
    /// The answers, in order: the next one after each tool result. After the last one the server says that it is done.
    pub turns: Vec<Turn>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Words. In them, `{path:NAME}` stands for the path of the file of that name, as the user
    /// named it last.
    pub text: Option<String>,
    /// A command for the agent's shell tool, under any name and with any parameters.
    pub run: Option<String>,
    /// A tool to call by name, if the request offers it.
    pub tool: Option<String>,
    /// The tool's input.
    pub input: Value,
    /// Fail instead.
    pub fault: Option<Fault>,
    /// Number of failures before the turn is answered. Default: it always fails.
    pub times: Option<u32>,
    /// Break the stream off half-way, as often as `times` says.
    pub cut: bool,
    /// Milliseconds to wait first.
    pub delay_ms: u64,
}

impl Turn {
    /// Its words, in answer to a request.
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
    /// The turn for a request, with the numbers of rule and turn; none when nothing is left to say.
    pub(crate) fn turn(&self, ask: &Ask) -> Option<(usize, usize, &Turn)> {
        let fits = |rule: &Rule| {
            rule.without_tools == ask.tools.is_empty()
                && rule.when.as_ref().is_none_or(|words| ask.user.contains(words.as_str()))
        };
        let (number, rule) = self.0.iter().enumerate().find(|(_, rule)| fits(rule))?;
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
