//! Token counts and their cost.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::Message;

/// Number of recent messages remembered by id. Lines with one id follow each other closely, so a few are enough.
const RECENT: usize = 64;
/// Maximum number of models counted separately. Names come from the agent, which could invent any number.
const MODELS: usize = 16;
/// Maximum length of a model's name, in bytes.
const LONGEST: usize = 128;

/// Token counts, as the provider reports them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Input that was not read from a cache.
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
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        // Counts are the agent's claims, and a later one can be lower. It must not wrap around.
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

/// Returns the tokens of all messages. Of messages with the same id, only the last counts.
#[must_use]
pub fn total_usage<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Usage {
    let mut tally = Tally::default();
    messages.into_iter().for_each(|message| tally.add(message));
    tally.total()
}

/// Counts the tokens of a session by model. Uses bounded memory for any input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    by_model: BTreeMap<String, Usage>,
    /// Model that was named last. Counts without a model belong to it.
    model: String,
    recent: VecDeque<(String, String, Usage)>,
}

impl Tally {
    /// Creates an empty tally. Counts belong to `model` until a message names another.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn of_model(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// Counts a message. A later message with the same id replaces the count of the earlier one. A message that names a
    /// model sets it for those that follow, even if it counts nothing.
    pub(crate) fn add(&mut self, message: &Message) {
        // A longer name is not stored; its tokens count for the model before.
        if let Some(model) = message.model.as_ref().filter(|model| model.len() <= LONGEST) {
            self.model.clone_from(model);
        }
        let Some(usage) = message.usage else { return };
        // Beyond the limit, tokens are counted without a model: the total stays right, the cost becomes unknown.
        let known = self.by_model.contains_key(&self.model) || self.by_model.len() < MODELS;
        let model = if known { self.model.as_str() } else { "" };
        // Every line of a message carries the usage of the whole, so the line before is taken back first.
        if let Some(id) = &message.id {
            if let Some(at) = self.recent.iter().position(|(known, ..)| known == id)
                && let Some((_, model, before)) = self.recent.remove(at)
                && let Some(total) = self.by_model.get_mut(&model)
            {
                *total = total.minus(before);
            }
            // The model too: it may have changed since, and the count must be taken back from the one it was added to.
            self.recent.push_back((id.clone(), model.to_owned(), usage));
            // An id that comes back after so many others is counted again.
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
        let total = self.by_model.entry(model.to_owned()).or_default();
        *total = total.plus(usage);
    }

    /// Returns the tokens of all models.
    #[must_use]
    pub(crate) fn total(&self) -> Usage {
        self.by_model.values().copied().fold(Usage::default(), Usage::plus)
    }

    /// Yields the tokens of each model. An empty name stands for unknown models.
    #[cfg(any(test, feature = "orchestrator"))]
    pub(crate) fn by_model(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.by_model.iter().map(|(model, usage)| (model.as_str(), *usage))
    }

    /// Subtracts the counts of `before` and returns the difference.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn minus(&self, before: &Self) -> Self {
        let less = |(model, usage): (&String, &Usage)| {
            (model.clone(), usage.minus(before.by_model.get(model).copied().unwrap_or_default()))
        };
        Self { by_model: self.by_model.iter().map(less).collect(), ..Self::default() }
    }

    /// Returns the cost in millionths of a US dollar of the models whose price is known.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn known_cost(&self, price: impl Fn(&str) -> Option<Price>) -> u64 {
        let costs = self.by_model().filter_map(|(model, usage)| Some(price(model)?.of(usage)));
        costs.fold(0, u64::saturating_add)
    }

    /// Returns the total cost in millionths of a US dollar, or `None` if the price of any counted model is unknown: a
    /// partial sum would look like a total.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn cost(&self, price: impl Fn(&str) -> Option<Price>) -> Option<u64> {
        // A model that counted nothing needs no price.
        let counted = self.by_model().filter(|(_, usage)| *usage != Usage::default());
        counted.map(|(model, usage)| Some(price(model)?.of(usage))).sum()
    }
}

/// The price of a million tokens, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Input that was not read from a cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to the provider's cache.
    pub cache_write: u64,
}

impl Price {
    /// Creates a price from the four kinds of tokens.
    #[must_use]
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        Self { input, output, cache_read, cache_write }
    }

    /// Returns the cost of `usage` in millionths of a US dollar.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn of(self, usage: Usage) -> u64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        // The largest count times the largest price does not fit into 64 bits.
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
