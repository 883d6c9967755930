//! The right to work on a task.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::TaskNumber;

/// One start of one orchestrator. Displayed as `machine/home/start`.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Id of the machine.
    pub machine: String,
    /// Installation id of the home.
    pub home: String,
    /// Id of this start, never used twice.
    pub start: String,
}

impl Holder {
    /// Returns a holder with these ids.
    pub fn new(machine: impl Into<String>, home: impl Into<String>, start: impl Into<String>) -> Self {
        Self { machine: machine.into(), home: home.into(), start: start.into() }
    }

    /// Returns true if both are starts of the same home on the same machine.
    #[must_use]
    pub fn same_home(&self, other: &Self) -> bool {
        self.machine == other.machine && self.home == other.home
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.machine, self.home, self.start)
    }
}

/// The right of one holder to work on a task. It is lost when another holder takes the task over.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// The claimed task.
    pub number: TaskNumber,
    /// The holder.
    pub holder: Holder,
    /// The token that accompanies every write made under this claim.
    pub fence: Fence,
}

impl Claim {
    /// Returns a claim of `holder`.
    #[must_use]
    pub fn new(number: TaskNumber, holder: Holder, fence: Fence) -> Self {
        Self { number, holder, fence }
    }
}

/// A fencing token. It grows with every new claim, so a write under a lower one comes from a holder that has lost the
/// task.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);
