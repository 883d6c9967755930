//! Prices of models, as data with a date: `data/prices.json`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use watchfire_core::backend::Price;

const DATA: &str = include_str!("../data/prices.json");

#[derive(Debug, Default, Deserialize)]
struct Prices {
    as_of: String,
    models: BTreeMap<String, [f64; 4]>,
}

fn prices() -> &'static Prices {
    static PRICES: OnceLock<Prices> = OnceLock::new();
    // Broken data means no prices, not a panic. A test keeps the data sound.
    PRICES.get_or_init(|| serde_json::from_str(DATA).unwrap_or_default())
}

/// Returns the day up to which [the prices](watchfire_core::backend::Backend::price) are known to be true, as
/// `YYYY-MM-DD`.
#[must_use]
pub fn as_of() -> &'static str {
    &prices().as_of
}

/// Returns the price of a model by its name, with or without a provider in front and a date behind. A name that only
/// begins like a known one is another model.
pub(crate) fn of(model: &str) -> Option<Price> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let models = &prices().models;
    let found = models.get(name).or_else(|| {
        let dated = |end: &str| end == "-latest" || end.bytes().all(|b| b == b'-' || b.is_ascii_digit());
        // The shortest suffix is `-latest`. A shorter number is part of a version, as in
        // `claude-sonnet-4-55`.
        let date = |known: &str| name.strip_prefix(known).is_some_and(|end| end.len() >= 7 && dated(end));
        models.iter().find(|(known, _)| date(known)).map(|(_, price)| price)
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "prices are small and positive"
    )]
    // The file has dollars per million tokens, a price millionths of a dollar.
    let [input, output, read, write] = found.map(|dollars| (dollars * 1e6).round() as u64);
    Some(Price::new(input, output, read, write))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_sound() {
        let all: Prices = serde_json::from_str(DATA).unwrap();
        assert!(as_of().len() == 10 && as_of() < "2100");
        for (model, price) in &all.models {
            let [input, output, read, write] = price;
            assert!(0.0 < *read && read < input && input <= write && write < output, "{model}");
        }
    }

    #[test]
    fn a_name_may_have_a_provider_and_a_date_and_nothing_else() {
        let sonnet = Some(Price::new(3_000_000, 15_000_000, 300_000, 3_750_000));
        for model in ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5-latest"]
        {
            assert_eq!(of(model), sonnet, "{model}");
        }
        for model in ["", "claude-sonnet-4-55", "claude-sonnet-4-5[1m]", "gpt-5-pro", "gpt-5.9", "fake-model"]
        {
            assert_eq!(of(model), None, "{model}");
        }
    }
}
