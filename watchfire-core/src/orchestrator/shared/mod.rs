//! The ground of all rooms of the orchestrator: its parts, the open project, the way to the dispatcher, the log.

mod aliases;
pub(crate) mod archive;
mod candidates;
mod changes;
mod costs;
pub(crate) mod hosts;
mod log;
mod logs;
mod parts;
mod project;
mod proposal;
mod records;
mod reports;
mod spending;
mod spent;
mod supervise;

use crate::{Error, ErrorKind};

pub(crate) use aliases::{Aliases, Bearer};
pub(crate) use candidates::{Names, candidates};
pub(crate) use changes::StoreChanges;
pub use costs::{Costs, CostsBy};
pub use log::{Gap, LogStream, Record, Seen};
pub(crate) use log::{ProjectLog, Subscribed};
pub use logs::SessionLog;
pub(crate) use logs::{LOG_FILES, RECORDING};
pub use parts::OpenStore;
pub(crate) use parts::{MakeStore, MakeTerminal, MakeWorkspace, Parts};
pub(crate) use project::{ProjectShared, Site};
pub use proposal::Proposal;
pub(crate) use records::open_records;
pub(crate) use reports::{BoardRead, Control, Message, Opening, Reports, SubscribeReply};
pub(crate) use spending::Spending;
pub use spent::{SessionOutcome, Spent, SpentRecord};
pub(crate) use supervise::{caught, supervise};

pub(crate) use crate::session::blocking;

/// Returns the error of every call after the orchestrator has ended.
pub(crate) fn shut_down() -> Error {
    Error::new(ErrorKind::Cancelled, "the orchestrator has shut down")
}
