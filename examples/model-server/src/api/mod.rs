//! The APIs of the providers. Each reads requests into an [`Ask`] and writes a [`Reply`] in its own format.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use crate::Ask;
use crate::tool::Call;

/// The API that a request uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Api {
    Anthropic,
    Chat,
    Gemini,
    Responses,
}

/// The answer to a request.
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) call: Option<Call>,
    /// Number that makes the ids in the answer unique.
    pub(crate) number: usize,
}

/// The body of an answer: whole, or piece by piece as server-sent events.
pub(crate) enum Body {
    Json(Value),
    Events(Vec<String>),
}

/// Number of input tokens that every answer reports.
const INPUT: u64 = 100;
/// Number of input tokens that come from the cache. Not zero, so that tests notice tokens that are counted twice.
const CACHED: u64 = 40;
const OUTPUT: u64 = 20;

impl Api {
    /// Returns the API of a path, if the path asks for an answer of a model.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            // By the end of the path only: agents put different base paths in front.
            _ if path.ends_with("/messages") => Some(Self::Anthropic),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") => {
                Some(Self::Gemini)
            }
            _ => None,
        }
    }

    pub(crate) fn read(self, path: &str, body: &Value) -> Ask {
        let mut ask = match self {
            Self::Anthropic => anthropic::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(path, body),
            Self::Responses => responses::read(body),
        };
        ask.path = path.to_owned();
        ask
    }

    pub(crate) fn write(self, ask: &Ask, reply: &Reply) -> Body {
        match self {
            Self::Anthropic => anthropic::write(ask, reply),
            Self::Chat => chat::write(ask, reply),
            Self::Gemini => gemini::write(ask, reply),
            Self::Responses => responses::write(ask, reply),
        }
    }
}

/// Returns a server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Returns a server-sent event named by the `type` of its value.
fn named(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}

/// Splits a text in two halves, to stream it.
fn halves(text: &str) -> [&str; 2] {
    // Split between characters: each half must be valid text on its own.
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (one, other) = text.split_at(middle);
    [one, other]
}
