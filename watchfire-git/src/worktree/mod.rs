//! The folder of an agent: opened, kept ready, captured, rescued, removed.

pub(crate) mod capture;
pub(crate) mod checkout;
pub(crate) mod folder;
pub(crate) mod ignore;
pub(crate) mod materialize;
pub(crate) mod open;
pub(crate) mod ready;
pub(crate) mod remove;
pub(crate) mod rescue;
pub(crate) mod unfinished;
pub(crate) mod wildmatch;
