//! Inquiries: what one session asks another, until it is answered or its time is over.
//!
//! - An inquiry has one that asks, one that is asked, a text and a deadline for delivery and answer together. It ends once.
//! - Only the one that is asked can answer, or the person in its place. A later, second or foreign answer is refused with
//!   the reason.
//! - Nobody waits in a circle: an inquiry is refused if the one that is asked waits, directly or through others, for the
//!   one that asks.
//! - An inquiry is on disk before its asker hears that it was accepted, and its end before anyone hears of that. It outlives
//!   the orchestrator: a session that goes on with the same task under the same alias takes the place of the one before.
//!
//! `Book` decides, and is pure. `Room` keeps a book on disk, one file for each inquiry, and tells its waiters of changes.

mod book;
mod record;
#[cfg(feature = "orchestrator")]
mod room;

#[cfg(feature = "orchestrator")]
pub(crate) use book::{Ask, Book, Item};
pub use record::{AnswerStatus, Inquiry, InquiryState, Party};
#[cfg(feature = "orchestrator")]
pub(crate) use room::{Awaiting, Room};
