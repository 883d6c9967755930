//! What a request asks, whatever the API.

use serde::Serialize;
use serde_json::Value;

/// A request, as far as the answer depends on it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ask {
    /// The path of the request.
    pub path: String,
    /// The key or token that came with it.
    pub key: String,
    /// The model asked for.
    pub model: String,
    /// System and developer text.
    pub system: String,
    /// The last thing that the user said.
    pub user: String,
    /// All texts of the user, first to last.
    pub users: Vec<String>,
    /// The texts that the program added in the user's name: surroundings, the person's instructions.
    pub added: Vec<String>,
    /// Number of tool results after it.
    pub results: usize,
    /// The results themselves.
    pub outputs: Vec<String>,
    /// The tools on offer: name and schema of the input.
    pub tools: Vec<(String, Value)>,
    /// True if the answer is to be streamed.
    pub stream: bool,
}

impl Ask {
    /// The user said something: what follows answers this.
    pub(crate) fn user_says(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        self.users.push(text.clone());
        self.user = text;
        self.results = 0;
        self.outputs.clear();
    }

    /// A tool gave something back.
    pub(crate) fn tool_says(&mut self, output: String) {
        self.results += 1;
        self.outputs.push(output);
    }
}

/// The text in a value that is a string, a list of parts with text, or a part itself.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(text_of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(part) => ["text", "content", "output", "parts"]
            .iter()
            .find_map(|key| part.get(*key))
            .map(text_of)
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// The elements of a list; none for anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
