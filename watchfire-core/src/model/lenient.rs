//! Reading of fields that people and agents leave empty: in YAML `key:` is a null, which counts as a missing field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Reads a null as the default of the type.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    // `serde(default)` covers only a missing field, not a null.
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// Reads a null as `true`.
pub(super) fn or_true<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(true))
}

/// Reads a null as an empty map, and a null in the map as the default of its type.
pub(super) fn map_or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    // Both levels are optional: in YAML the whole map and each of its values can be left empty.
    let map: Option<BTreeMap<String, Option<T>>> = Option::deserialize(d)?;
    Ok(map.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
