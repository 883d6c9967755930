//! Tokens, and what they cost.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::Message;

/// How many of the last counted messages are remembered by their id: lines with one id follow each other closely.
const RECENT: usize = 64;
/// How many models are counted apart.
const MODELS: usize = 16;
/// The longest name of a model.
const LONGEST: usize = 128;

/// Tokens, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Fresh input.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            input_tokens: join(self.input_tokens, other.input_tokens),
            output_tokens: join(self.output_tokens, other.output_tokens),
            cache_read_tokens: join(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: join(self.cache_write_tokens, other.cache_write_tokens),
        }
    }
}

/// The tokens of all messages: of those with one id, the last count is that of the whole.
#[must_use]
pub fn total_usage<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Usage {
    let mut tally = Tally::default();
    messages.into_iter().for_each(|message| tally.add(message));
    tally.total()
}

/// Counts the tokens of a session, message by message, by model. Bounded, whatever an agent writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    by_model: BTreeMap<String, Usage>,
    /// The model that was named last: counts that name none are its.
    model: String,
    recent: VecDeque<(String, String, Usage)>,
}

impl Tally {
    /// Nothing yet, of this model until another one is named.
    #[must_use]
    pub fn of_model(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// Counts a message. Of those with one id, the last count is that of the whole. A message that names a model and
    /// counts nothing names the model of those that follow.
    pub fn add(&mut self, message: &Message) {
        if let Some(model) = message.model.as_ref().filter(|model| model.len() <= LONGEST) {
            self.model.clone_from(model);
        }
        let Some(usage) = message.usage else { return };
        let known = self.by_model.contains_key(&self.model) || self.by_model.len() < MODELS;
        let model = if known { self.model.as_str() } else { "" };
        if let Some(id) = &message.id {
            if let Some(at) = self.recent.iter().position(|(known, ..)| known == id)
                && let Some((_, model, before)) = self.recent.remove(at)
                && let Some(total) = self.by_model.get_mut(&model)
            {
                *total = total.minus(before);
            }
            self.recent.push_back((id.clone(), model.to_owned(), usage));
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
        let total = self.by_model.entry(model.to_owned()).or_default();
        *total = total.plus(usage);
    }

    /// All of them together.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.by_model.values().copied().fold(Usage::default(), Usage::plus)
    }

    /// Those of each model; without a name those of which it is not known.
    pub fn by_model(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.by_model.iter().map(|(model, usage)| (model.as_str(), *usage))
    }

    /// What they cost in all, in millionths of a US dollar; none when the price of any of them is not known.
    #[must_use]
    pub fn cost(&self, price: impl Fn(&str) -> Option<Price>) -> Option<u64> {
        let counted = self.by_model().filter(|(_, usage)| *usage != Usage::default());
        counted.map(|(model, usage)| Some(price(model)?.of(usage))).sum()
    }
}

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Fresh input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to the provider's cache.
    pub cache_write: u64,
}

impl Price {
    /// A price for each kind of token.
    #[must_use]
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        Self { input, output, cache_read, cache_write }
    }

    /// What these tokens cost, in millionths of a US dollar.
    #[must_use]
    pub fn of(self, usage: Usage) -> u64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(sum / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: Option<&str>, model: &str, output_tokens: u64) -> Message {
        Message {
            id: id.map(str::to_owned),
            model: Some(model.to_owned()),
            usage: Some(Usage { output_tokens, ..Usage::default() }),
            ..Message::default()
        }
    }

    #[test]
    fn an_id_counts_once() {
        let all = [
            message(Some("a"), "m", 1),
            message(Some("a"), "m", 20),
            message(Some("b"), "m", 3),
            message(None, "m", 4),
            message(None, "m", 4),
        ];
        assert_eq!(total_usage(&all).output_tokens, 31);
    }

    #[test]
    fn counts_without_a_model_are_of_the_one_named_last() {
        let mut tally = Tally::of_model("first");
        tally.add(&Message { model: None, ..message(None, "", 1) });
        tally.add(&Message { usage: None, ..message(None, "second", 0) });
        tally.add(&Message { model: None, ..message(None, "", 2) });
        let counted: Vec<_> = tally.by_model().map(|(model, usage)| (model, usage.output_tokens)).collect();
        assert_eq!(counted, [("first", 1), ("second", 2)]);
    }

    #[test]
    fn what_an_agent_writes_does_not_grow_it() {
        let mut tally = Tally::default();
        for n in 0..10_000 {
            tally.add(&message(Some(&n.to_string()), &format!("model-{n}"), 1));
        }
        tally.add(&message(None, &"x".repeat(1 << 20), u64::MAX));
        assert!(tally.by_model.len() <= MODELS + 1 && tally.recent.len() <= RECENT);
        assert_eq!(tally.total().output_tokens, u64::MAX);
    }

    #[test]
    fn a_cost_needs_every_price() {
        let mut tally = Tally::default();
        tally.add(&message(None, "m", 2_000));
        let known = |model: &str| (model == "m").then(|| Price::new(1_000_000, 10_000_000, 0, 0));
        assert_eq!(tally.cost(known), Some(20_000));
        tally.add(&message(None, "other", 0));
        assert_eq!(tally.cost(known), Some(20_000));
        tally.add(&message(None, "other", 1));
        assert_eq!(tally.cost(known), None);
        assert_eq!(
            Price::new(u64::MAX, 0, 0, 0).of(Usage { input_tokens: u64::MAX, ..Usage::default() }),
            u64::MAX
        );
    }
}
