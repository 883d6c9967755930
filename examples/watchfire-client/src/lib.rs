//! Finds the programs of a Watchfire home that run agents, and talks to them.
//!
//! Each open project of a home has a socket. A [`Client`] speaks to all of them as to one: sessions are listed over all, and a
//! target is looked for in all. [`Daemon`] is the one program that has all projects open, where it runs.

#![forbid(unsafe_code)]

mod attach;
mod client;
mod daemon;
mod follow;
#[cfg(feature = "tls")]
mod remote;
mod talk;
mod work;

pub use attach::Attached;
pub use client::{Client, SendOptions};
pub use daemon::{ALLOCATOR, Daemon, environment, meta, raw_channel};
pub use follow::FollowAll;
#[cfg(feature = "tls")]
pub use remote::{Bearer, Remote, RemoteChannel};
pub use watchfire_api::{
    AgentsFile, ApiError, DaemonFile, daemon_proto, delivery_json, event_json, proto, session_json,
    talk_proto, watch_json, work, work_proto,
};
pub use work::{Followed, ProjectLog, State};
