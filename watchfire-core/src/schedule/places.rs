//! Names of facts, changes and commands, for the places at which tests kill.

use super::{Change, Command, Fact, Subject};

impl Fact {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Limits(_) => "limits",
            Self::Elsewhere(_) => "elsewhere",
            Self::Board(_) => "board",
            Self::Looked => "looked",
            Self::Reserved(_) => "reserved",
            Self::Released(_) => "released",
            Self::Request { .. } => "request",
            Self::Prepared { .. } => "prepared",
            Self::Running { .. } => "running",
            Self::Blocks { .. } => "blocks",
            Self::SessionOver { .. } => "session over",
            Self::Attempted { .. } => "attempted",
            Self::Merging(_) => "merging",
            Self::Verifying { .. } => "verifying",
            Self::Publishing(_) => "publishing",
            Self::TicketOver { .. } => "ticket over",
            Self::HeldTried { .. } => "held tried",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Published { .. } => "published",
            Self::HalfPublished { .. } => "half published",
            Self::ClaimLost(_) => "claim lost",
            Self::BackendBlocked { .. } => "backend blocked",
            Self::Noticed(_) => "noticed",
        }
    }
}

impl Command {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Look => "look",
            Self::End(..) => "end",
            Self::Merge(_) => "merge",
            Self::CancelMerge(_) => "cancel merge",
            Self::TryHeld(_) => "try held",
            Self::Withdraw(_) => "withdraw",
            Self::Deliver(..) => "deliver",
            Self::Continue(_) => "continue",
            Self::Release(_) => "release",
        }
    }
}

impl Change {
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Life(life) if life.subject == Subject::Chat => format!("chat {}", life.state.word()),
            Self::Life(life) if life.stop.is_some() => format!("life {} with a stop", life.state.word()),
            Self::Life(life) => format!("life {}", life.state.word()),
            Self::SessionOver { .. } => "session over".to_owned(),
            Self::Run(run) if run.ended.is_some() => "run ended".to_owned(),
            Self::Run(_) => "run".to_owned(),
            Self::Reopened { .. } => "reopened".to_owned(),
            Self::Backend { block: Some(_), .. } => "backend blocked".to_owned(),
            Self::Backend { block: None, .. } => "backend unblocked".to_owned(),
            Self::Command { .. } => "command".to_owned(),
            Self::Notice(_) => "notice".to_owned(),
            Self::Halted { halted: true } => "halted".to_owned(),
            Self::Halted { halted: false } => "not halted".to_owned(),
            Self::CommandsForgotten { .. } => "commands forgotten".to_owned(),
        }
    }
}
