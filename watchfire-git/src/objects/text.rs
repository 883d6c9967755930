//! Distinguishes text from binary content.

/// Returns true if git takes `content` for binary: it has a NUL among its first 8,000 bytes.
pub(crate) fn is_binary(content: &[u8]) -> bool {
    content.iter().take(8000).any(|byte| *byte == 0)
}
