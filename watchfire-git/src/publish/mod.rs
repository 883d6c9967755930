//! Makes a candidate the target, and brings it to the checkouts of the person.

pub(crate) mod bring;
pub(crate) mod carry;
pub(crate) mod convert;
pub(crate) mod place;
pub(crate) mod publication;
pub(crate) mod swap;
pub(crate) mod user_checkout;
pub(crate) mod view;
