//! Functions that several backends share.

pub(crate) mod caches;
pub(crate) mod carry;
pub(crate) mod credentials;
pub(crate) mod failed_access;
pub(crate) mod glob;
pub(crate) mod hooks;
pub(crate) mod input_box;
pub(crate) mod issues;
pub(crate) mod json;
pub(crate) mod locate;
pub(crate) mod own;
pub(crate) mod prompt;
pub(crate) mod reset_time;
pub(crate) mod session_id;
pub(crate) mod settings;
pub(crate) mod tools;
