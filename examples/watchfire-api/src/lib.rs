//! The gRPC interface of Watchfire: its messages, and a server of it over the orchestrator.
//!
//! [`proto`] is compiled from `proto/`. [`Server`] answers for the projects that a program has open, on the Unix socket
//! that [`listen`] makes; `watchfire-client` is the other side.

#![forbid(unsafe_code)]

mod agents_file;
pub mod attach;
mod convert;
mod daemon_file;
mod error;
pub mod keys;
mod server;
mod socket;
mod talk;

/// Takes in a module that is generated from `proto/`.
macro_rules! generated {
    ($(#[$about:meta])* $name:ident: $package:literal) => {
        $(#[$about])*
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
        pub mod $name {
            tonic::include_proto!($package);
        }
    };
}

generated! {
    /// The messages, and the services' two sides.
    proto: "watchfire.observe.v1"
}

generated! {
    /// The messages of the daemon, and both sides of its services.
    daemon_proto: "watchfire"
}

/// The descriptors of all services, as an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watchfire.bin"));

generated! {
    /// The messages of questions between the person and agents, and both sides of their service.
    talk_proto: "watchfire.talk.v1"
}

generated! {
    /// The messages of runs and of a project's log, and both sides of their service.
    work_proto: "watchfire.work.v1"
}

pub use agents_file::{AgentsFile, RunningAgent};
pub use convert::{delivery_json, event_json, session_json, watch_json, work};
pub use daemon_file::DaemonFile;
pub use error::{ApiError, status, status_as};
pub use server::Server;
pub use socket::{connect, daemon_socket, listen, listen_as_daemon, sockets};
