//! What files written by people and agents may leave open: a `null` is a missing field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// `null` is the default of the type.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// `null` is `true`.
pub(super) fn or_true<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(true))
}

/// `null` is an empty map, and a `null` in it the default of its type.
pub(super) fn map_or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let map: Option<BTreeMap<String, Option<T>>> = Option::deserialize(d)?;
    Ok(map.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
