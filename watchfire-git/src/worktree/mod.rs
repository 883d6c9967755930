//! The folder of an agent: opening it, keeping folders ready, capturing, rescuing and removing its work.

pub(crate) mod attributes;
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
