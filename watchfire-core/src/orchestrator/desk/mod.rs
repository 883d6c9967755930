//! What agents ask for while they work: their peers, the person, the end of their work.
//!
//! `calls` carries out the calls that come through a session's spool; `attend` gives each session what was said to it and was
//! not waited for; `peers` finds who is meant. Who calls is known by the session's folder, and what it may do is checked in
//! one place, before anything else.

mod attend;
mod calls;
mod peers;
mod wait;

pub(crate) use attend::attend;
pub(crate) use calls::ProjectDesk;
pub(crate) use peers::ask;
pub(crate) use wait::end_of;
