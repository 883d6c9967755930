//! Where text leads to.

/// Where a stretch of cells leads to (OSC 8). Both texts come from the child.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Hyperlink {
    /// Joins stretches that are one link; empty if the child gave none.
    pub id: String,
    /// The target, as the child gave it.
    pub uri: String,
}

impl Hyperlink {
    /// A link to `uri`; stretches with the same `id` and target are one.
    #[must_use]
    pub fn new(id: impl Into<String>, uri: impl Into<String>) -> Self {
        Self { id: id.into(), uri: uri.into() }
    }
}
