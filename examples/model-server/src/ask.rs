//! Requests in a form that is the same for all APIs.

use serde::Serialize;
use serde_json::Value;

/// A request, with everything that the answer depends on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ask {
    /// The path of the request.
    pub path: String,
    /// Key or token of the request.
    pub key: String,
    /// The model asked for.
    pub model: String,
    /// System and developer text.
    pub system: String,
    /// The last prompt of the user.
    pub user: String,
    /// All texts of the user, first to last.
    pub users: Vec<String>,
    /// Texts that the agent's program added in the user's name, such as its surroundings or the person's
    /// instructions.
    pub added: Vec<String>,
    /// Number of tool results after the last prompt. It selects the turn of the script.
    pub results: usize,
    /// The tool results after the last prompt.
    pub outputs: Vec<String>,
    /// Tools that the request offers, by name and schema of the input.
    pub tools: Vec<(String, Value)>,
    /// True if the answer is to be streamed.
    pub stream: bool,
}

impl Ask {
    /// Takes in a prompt of the user. Tool results before it no longer count.
    pub(crate) fn user_says(&mut self, text: String) {
        // An empty text is left over when all parts were added by the program.
        if text.trim().is_empty() {
            return;
        }
        self.users.push(text.clone());
        self.user = text;
        self.results = 0;
        self.outputs.clear();
    }

    /// Takes in the result of a tool.
    pub(crate) fn tool_says(&mut self, output: String) {
        self.results += 1;
        self.outputs.push(output);
    }
}

/// Returns the text in a value that is a string, a list of parts with text, or a part itself.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(text_of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        // A text part has `text`, a message `content`, a result `output`, and Google's content `parts`.
        Value::Object(part) => ["text", "content", "output", "parts"]
            .iter()
            .find_map(|key| part.get(*key))
            .map(text_of)
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Returns the elements of a list. Empty for anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
