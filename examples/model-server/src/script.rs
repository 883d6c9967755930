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
    /// Input for that tool. In its texts, and in those of `text` and `run`, `{after:WORDS}` stands for the word that
    /// followed these words when a tool or the user said them last.
    pub input: Value,
    /// Words in the result of the tool without which the same turn is given again.
    pub until: Option<String>,
    /// Words that some agent has to be told, by its user or a tool, before the answer is given.
    pub awaits: Option<String>,
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
        self.text.as_deref().map(|text| filled(text, ask))
    }
}

/// Returns the text with what stands in the place of its marks.
pub(crate) fn filled(text: &str, ask: &Ask) -> String {
    let said = || ask.users.iter().chain(&ask.outputs);
    let text = marked(text, "{path:", |name| {
        let named = |word: &&str| word.rsplit('/').next() == Some(name);
        let words = ask.users.iter().flat_map(|said| said.split_whitespace());
        words.map(|word| word.trim_matches(['`', '"', '\''])).rfind(named).unwrap_or(name).to_owned()
    });
    marked(&text, "{after:", |words| {
        let followed = said().filter_map(|said| said.rsplit_once(words)).next_back();
        let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
        let rest = followed.map_or("", |(_, rest)| rest.trim_start());
        rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].trim_end_matches('.').to_owned()
    })
}

/// Replaces each mark, which begins with `open` and ends with a brace.
fn marked(text: &str, open: &str, value: impl Fn(&str) -> String) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, (name, after))) =
        rest.split_once(open).and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        done = done + before + &value(name);
        rest = after;
    }
    done + rest
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
        let mut place = 0;
        for output in &ask.outputs {
            let missing = rule.turns.get(place).and_then(|turn| turn.until.as_ref());
            place += usize::from(missing.is_none_or(|words| output.contains(words.as_str())));
        }
        Some((number, place, rule.turns.get(place)?))
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

    #[test]
    fn a_word_is_taken_from_what_was_said_last() {
        let mut ask = Ask::default();
        ask.user_says("the port is 80, they say".into());
        ask.tool_says("answer it with: agent answer q7-1f3a 'TEXT'. The port is 7070.".into());
        assert_eq!(filled("{after:agent answer} at {after:port is}", &ask), "q7-1f3a at 7070");
        assert_eq!(filled("{after:nothing}, {after", &ask), ", {after");
    }

    #[test]
    fn a_turn_is_given_again_until_its_words_come() {
        let script: Script = serde_json::from_value(serde_json::json!([{ "turns": [
            { "tool": "look", "until": "ready" }, { "text": "Go." },
        ] }]))
        .unwrap();
        let mut ask = Ask { tools: vec![("look".into(), Value::Null)], ..Ask::default() };
        ask.user_says("go".into());
        let mut places = Vec::new();
        for output in ["not yet", "still not", "it is ready"] {
            places.push(script.turn(&ask).unwrap().1);
            ask.tool_says(output.into());
        }
        assert_eq!((places, script.turn(&ask).unwrap().1), (vec![0, 0, 0], 1));
    }
}
