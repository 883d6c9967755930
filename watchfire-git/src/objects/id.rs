//! Ids of objects, as git writes them in files.

use git2::Oid;

/// Parses an object id of exactly 40 hexadecimal digits. The zero id counts as none: git writes it where
/// there is no object.
pub(crate) fn hex(text: &[u8]) -> Option<Oid> {
    let text = str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    Oid::from_str(text).ok().filter(|id| *id != Oid::ZERO_SHA1)
}
