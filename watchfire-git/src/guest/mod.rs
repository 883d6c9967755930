//! Guests: sessions that work in the root itself, such as chats.
//!
//! A guest shares the files of the checkout with the person, and works on private copies of the repository. Git would
//! run what a guest wrote into the repository itself: hooks, settings, the steps of a rebase. `exchange` carries
//! commits, branches and stashes over to the person's repository once they are checked, and what the person does into
//! the copies. All else ends with the copies.

mod carry;
pub(crate) mod copies;
pub(crate) mod exchange;
mod import;
mod planted;
mod refresh;
mod refusals;
mod stash;
mod state;
pub(crate) mod wiring;
