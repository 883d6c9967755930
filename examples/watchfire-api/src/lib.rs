//! The gRPC interface of Watchfire: its messages, and a server of it over the orchestrator.
//!
//! [`proto`] is compiled from `proto/`. [`Server`] answers for the projects that a program has open, on the Unix socket
//! that [`listen`] makes; `watchfire-client` is the other side.

#![forbid(unsafe_code)]

mod convert;
mod daemon_file;
mod error;
mod server;
mod socket;
mod talk;

/// The messages, and the services' two sides.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated"
)]
pub mod proto {
    tonic::include_proto!("watchfire.observe.v1");
}

/// The messages of the daemon, and both sides of its services.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated"
)]
pub mod daemon_proto {
    tonic::include_proto!("watchfire");
}

/// The descriptors of all services, as an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watchfire.bin"));

/// The messages of questions between the person and agents, and both sides of their service.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated"
)]
pub mod talk_proto {
    tonic::include_proto!("watchfire.talk.v1");
}

/// The messages of runs and of a project's log, and both sides of their service.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated"
)]
pub mod work_proto {
    tonic::include_proto!("watchfire.work.v1");
}

pub use convert::{delivery_json, event_json, session_json, watch_json};
pub use daemon_file::DaemonFile;
pub use error::{ApiError, status};
pub use server::Server;
pub use socket::{connect, daemon_socket, listen, listen_as_daemon, sockets};
