//! A candidate made the target, and the checkouts of the person brought along.

pub(crate) mod bring;
pub(crate) mod convert;
pub(crate) mod place;
pub(crate) mod publication;
pub(crate) mod user_checkout;
pub(crate) mod view;
