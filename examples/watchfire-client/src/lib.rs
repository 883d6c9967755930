//! Finds the programs of a Watchfire home that run agents, and talks to them.
//!
//! Each open project of a home has a socket. A [`Client`] speaks to all of them as to one: sessions are listed over all, and a
//! target is looked for in all.

#![forbid(unsafe_code)]

mod client;
mod follow;
mod talk;

pub use client::{Client, SendOptions};
pub use follow::FollowAll;
pub use watchfire_api::{ApiError, delivery_json, event_json, proto, session_json, talk_proto, watch_json};
