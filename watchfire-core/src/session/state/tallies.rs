//! The tokens of a session.

use crate::backend::{Message, Price, Source, Tally, Usage};

/// Token counts of a session, by the source that reported them.
#[derive(Debug)]
pub(in crate::session) struct Tallies {
    stream: Tally,
    transcript: Tally,
    /// Counts that the transcript of a resumed session already held. Some vendors continue counting from there.
    before: Tally,
}

/// Tokens that a session has used, and their cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counted {
    pub(crate) usage: Usage,
    /// The cost, if all prices are known.
    pub(crate) cost: Option<u64>,
    /// The cost of the tokens that have a known price.
    pub(crate) known: u64,
}

impl Tallies {
    /// Counts belong to `model` until a message names another.
    pub(in crate::session) fn of_model(model: &str) -> Self {
        Self {
            stream: Tally::of_model(model),
            transcript: Tally::of_model(model),
            before: Tally::of_model(model),
        }
    }

    pub(in crate::session) fn add(&mut self, message: &Message, source: Source) {
        if source == Source::Transcript { &mut self.transcript } else { &mut self.stream }.add(message);
    }

    /// Takes in a message that the transcript of a resumed session already held. With `followed`, new lines are appended
    /// to the same file, and its counts continue from there.
    pub(in crate::session) fn add_before(&mut self, message: &Message, followed: bool) {
        self.before.add(message);
        if followed {
            self.transcript.add(message);
        }
    }

    /// Returns the counts of the transcript, or of the stream if the transcript has none. Never the sum: both describe the
    /// same turns.
    pub(in crate::session) fn spent(&self, price: impl Fn(&str) -> Option<Price>) -> Counted {
        let transcript = self.transcript.minus(&self.before);
        let tally = if transcript.total() == Usage::default() { &self.stream } else { &transcript };
        Counted { usage: tally.total(), cost: tally.cost(&price), known: tally.known_cost(price) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Role;

    fn message(id: Option<&str>, model: &str, tokens: u64) -> Message {
        let mut message = Message::new(Role::Assistant, Vec::new());
        let usage = Usage { output_tokens: tokens, ..Usage::default() };
        (message.id, message.model, message.usage) =
            (id.map(str::to_owned), Some(model.to_owned()), Some(usage));
        message
    }

    fn price(model: &str) -> Option<Price> {
        (model == "m").then(|| Price::new(0, 1_000_000, 0, 0))
    }

    #[test]
    fn what_was_spent_before_does_not_count_again() {
        // A line for each message, or one that counts the whole conversation.
        for (before, later) in
            [(None, message(None, "m", 5)), (Some("total"), message(Some("total"), "m", 12))]
        {
            let mut tallies = Tallies::of_model("m");
            tallies.add_before(&message(before, "m", 7), true);
            assert_eq!(tallies.spent(price), Counted { cost: Some(0), ..Counted::default() });
            tallies.add(&later, Source::Transcript);
            assert_eq!(tallies.spent(price).cost, Some(5));
        }
        // A file that is read whole holds it all again.
        let mut tallies = Tallies::of_model("m");
        tallies.add_before(&message(None, "m", 7), false);
        for tokens in [7, 5] {
            tallies.add(&message(None, "m", tokens), Source::Transcript);
        }
        assert_eq!(tallies.spent(price).usage.output_tokens, 5);
    }

    #[test]
    fn what_has_a_price_is_known_beside_what_has_none() {
        let mut tallies = Tallies::of_model("m");
        tallies.add(&message(None, "m", 7), Source::Transcript);
        tallies.add(&message(None, "other", 1), Source::Transcript);
        let spent = tallies.spent(price);
        assert_eq!((spent.cost, spent.known), (None, 7));
    }
}
