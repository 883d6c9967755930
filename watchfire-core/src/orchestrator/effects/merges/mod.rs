//! The way of finished work to the target: merged in memory, verified, published; and tried again where something held it.

mod held;
mod merge;
mod verify;

pub(crate) use held::{try_held, withdraw, withdraw_others};
pub(crate) use merge::merge;
