//! YAML. The rest of the store handles only text and records.
//!
//! Reading uses `serde_yaml`, for its line numbers. Editing finds the changed fields in the lossless syntax tree of
//! `yaml-edit` and replaces exactly their bytes. The result is read again and must equal the intended record, or the
//! edit is rejected. So comments, key order, quoting, line ends and unknown fields survive by construction: only the
//! lines of the changed fields are rewritten. (The tree's own setters are not used: they re-indent block scalars and
//! drop comments beside replaced values.)

mod edit;
mod merge;
mod read;
mod render;

pub(in crate::store) use edit::{compose, edit};
pub(in crate::store) use merge::merge;
pub(in crate::store) use read::{Fault, Record, decode, line_of};

#[cfg(test)]
mod tests;
