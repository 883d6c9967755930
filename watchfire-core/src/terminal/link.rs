//! Hyperlinks in terminal output.

/// Hyperlink of a run of cells (OSC 8). Both texts come from the child and are as trustworthy as it is.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Hyperlink {
    /// Identifier that joins separate runs into one link; empty if the child gave none.
    pub id: String,
    /// Target, as the child gave it.
    pub uri: String,
}

impl Hyperlink {
    /// Creates a link to `uri`. Runs with the same `id` and target are one link.
    #[must_use]
    pub fn new(id: impl Into<String>, uri: impl Into<String>) -> Self {
        Self { id: id.into(), uri: uri.into() }
    }
}
