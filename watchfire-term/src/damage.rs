//! Rows that changed between two states.

/// Difference between two states of a screen.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Damage {
    /// Nothing changed.
    None,
    /// At most these rows changed, ascending, and perhaps cursor, title or modes.
    Rows(Vec<u16>),
    /// Everything may have changed.
    Full,
}
