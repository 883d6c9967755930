//! YAML. The rest of the store knows text and records only.
//!
//! Reading is `serde_yaml`, for its line numbers. Editing finds the changed fields in the lossless syntax tree of
//! `yaml-edit` and replaces exactly their bytes; what comes out is read again and must equal what was meant, or the
//! edit is refused. So comments, key order, quoting, line ends and unknown fields survive by construction: nothing
//! but the lines of the changed fields is ever written anew. (The tree's own setters are not used: they re-indent
//! block scalars and drop comments beside replaced values.)

mod edit;
mod merge;
mod read;
mod render;

pub(in crate::store) use edit::{compose, edit};
pub(in crate::store) use merge::merge;
pub(in crate::store) use read::{Fault, Record, decode};

#[cfg(test)]
mod tests;
