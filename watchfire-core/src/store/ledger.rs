//! The rules of claims, shared by all stores of this crate.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Claim, Fence, Holder};
use crate::model::{TaskNumber, Timestamp};
use crate::{Error, ErrorKind, Result};

/// The fences given for the tasks of a project. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Fences {
    highest: u64,
    tasks: BTreeMap<TaskNumber, u64>,
}

/// The claims that are currently held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Leases(BTreeMap<TaskNumber, Lease>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lease {
    holder: Holder,
    fence: u64,
    /// End in milliseconds since 1970: wall-clock time is the only clock that several machines share.
    until: i64,
    /// Length of the lease in milliseconds.
    length: i64,
}

/// All claims of a project.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ledger {
    pub(super) fences: Fences,
    pub(super) leases: Leases,
}

impl Ledger {
    /// Claims a task for `holder`, or fails with `busy` if another home holds it.
    pub(super) fn claim(
        &mut self,
        number: TaskNumber,
        holder: &Holder,
        lease: Duration,
        now: &Timestamp,
    ) -> Result<Claim> {
        // A lease below the recorded fence is a leftover of a restored or older file.
        let held = self.leases.0.get_mut(&number).filter(|held| held.fence >= self.fences.of(number));
        if let Some(held) = held {
            if held.holder == *holder {
                // The same holder: its writes under the old fence must stay valid.
                held.extend(lease, now);
                return Ok(Claim::new(number, holder.clone(), Fence(held.fence)));
            }
            // Only one start of a home can hold its locks, so any other start of it has ended.
            if !held.holder.same_home(holder) && held.is_live(now) {
                return Err(Error::new(ErrorKind::Busy, "another orchestrator works on the task")
                    .with("task", number)
                    .with("holder", &held.holder));
            }
        }
        let fence = self.fences.next(number, &self.leases, now);
        self.leases.0.insert(number, Lease::new(holder, fence, lease, now));
        Ok(Claim::new(number, holder.clone(), Fence(fence)))
    }

    /// Extends claims by `lease`, expired ones too, and returns those that another holder has taken over.
    pub(super) fn renew(&mut self, claims: &[Claim], lease: Duration, now: &Timestamp) -> Vec<Claim> {
        let mut lost = Vec::new();
        for claim in claims {
            let highest = self.fences.of(claim.number);
            match self.leases.0.get_mut(&claim.number) {
                Some(held) if held.fence == claim.fence.0 && held.holder == claim.holder => {
                    held.extend(lease, now);
                }
                // The lease file was deleted, but no later fence was given, so the claim still holds.
                None if highest == claim.fence.0 => {
                    let held = Lease::new(&claim.holder, highest, lease, now);
                    self.leases.0.insert(claim.number, held);
                }
                _ => lost.push(claim.clone()),
            }
        }
        lost
    }

    /// Releases a claim, unless it was lost.
    pub(super) fn release(&mut self, claim: &Claim) {
        let held = self.leases.0.get(&claim.number);
        if held.is_some_and(|held| held.fence == claim.fence.0 && held.holder == claim.holder) {
            self.leases.0.remove(&claim.number);
        }
    }

    /// Removes the lease of a task that no longer exists. Its fence stays.
    pub(super) fn forget(&mut self, number: TaskNumber) {
        self.leases.0.remove(&number);
    }

    /// Rejects a write to a task under a fence that is lower than the task's highest.
    pub(super) fn check_task(&self, number: TaskNumber, fence: Fence) -> Result<()> {
        let highest = self.highest(number);
        if fence.0 < highest { Err(lost(fence).with("task", number).with("newest", highest)) } else { Ok(()) }
    }

    /// Rejects a write to no single task under a fence that is not the highest of any task.
    pub(super) fn check(&self, fence: Fence) -> Result<()> {
        // A write to the whole project names no task. Its fence is current as long as it is the highest of
        // some task: taking that task over makes it a lower one.
        let current = self.fences.tasks.keys().chain(self.leases.0.keys());
        let mut highest = current.map(|number| self.highest(*number));
        if highest.any(|highest| highest == fence.0) { Ok(()) } else { Err(lost(fence)) }
    }

    fn highest(&self, number: TaskNumber) -> u64 {
        // The two files are written one after the other; after a crash, either can be the newer one.
        let held = self.leases.0.get(&number).map_or(0, |held| held.fence);
        self.fences.of(number).max(held)
    }
}

impl Fences {
    fn of(&self, number: TaskNumber) -> u64 {
        self.tasks.get(&number).copied().unwrap_or_default()
    }

    fn next(&mut self, number: TaskNumber, leases: &Leases, now: &Timestamp) -> u64 {
        let given = leases.0.values().map(|lease| lease.fence).max().unwrap_or_default();
        // The seconds since 1970 are above every fence of a record that was deleted, and above the attempt
        // numbers that earlier versions used as fences.
        let floor = u64::try_from(now.unix_millis() / 1000).unwrap_or_default();
        // The leases are looked at as well: the file of fences may have been deleted alone.
        self.highest = self.highest.max(given).saturating_add(1).max(floor);
        self.tasks.insert(number, self.highest);
        self.highest
    }
}

impl Lease {
    fn new(holder: &Holder, fence: u64, lease: Duration, now: &Timestamp) -> Self {
        let mut made = Self { holder: holder.clone(), fence, until: 0, length: 0 };
        made.extend(lease, now);
        made
    }

    fn extend(&mut self, lease: Duration, now: &Timestamp) {
        self.until = now.plus(lease).unix_millis();
        self.length = self.until.saturating_sub(now.unix_millis());
    }

    /// Returns true if the lease has not expired. A lease that ends later than its own length from now was written
    /// before the clock was set back, and gets its full length once more.
    fn is_live(&mut self, now: &Timestamp) -> bool {
        let now = now.unix_millis();
        self.until = self.until.min(now.saturating_add(self.length));
        self.until > now
    }
}

fn lost(fence: Fence) -> Error {
    Error::new(ErrorKind::ClaimLost, "another orchestrator has taken over this task").with("fence", fence.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1000)
    }

    fn holder(home: &str, start: &str) -> Holder {
        Holder::new("m", home, start)
    }

    fn task() -> TaskNumber {
        TaskNumber::new(1).unwrap()
    }

    #[test]
    fn a_clock_that_is_set_back_lengthens_no_lease() {
        let (mut ledger, hour) = (Ledger::default(), 3600);
        let first = ledger.claim(task(), &holder("a", "1"), MINUTE, &at(10 * hour)).unwrap();
        let other = holder("b", "1");
        let busy = ledger.claim(task(), &other, MINUTE, &at(hour)).unwrap_err();
        assert_eq!(busy.detail("holder"), Some("m/a/1"));
        assert!(ledger.claim(task(), &other, MINUTE, &at(hour + 59)).is_err());
        let second = ledger.claim(task(), &other, MINUTE, &at(hour + 60)).unwrap();
        assert!(second.fence > first.fence, "the fence follows the last one, not the clock");
        assert_eq!(ledger.renew(std::slice::from_ref(&first), MINUTE, &at(hour + 61)), [first]);
    }

    #[test]
    fn fences_grow_over_deleted_records() {
        let mut ledger = Ledger::default();
        let first = ledger.claim(task(), &holder("a", "1"), MINUTE, &at(1_000_000)).unwrap();
        assert_eq!(first.fence, Fence(1_000_000));
        // The leases alone.
        ledger.leases = Leases::default();
        assert!(ledger.renew(std::slice::from_ref(&first), MINUTE, &at(1_000_001)).is_empty());
        ledger.leases = Leases::default();
        let second = ledger.claim(task(), &holder("b", "1"), MINUTE, &at(1)).unwrap();
        assert!(second.fence > first.fence);
        assert_eq!(ledger.renew(std::slice::from_ref(&first), MINUTE, &at(2)), [first]);
        // The fences alone, then everything.
        ledger.fences = Fences::default();
        let third = ledger.claim(task(), &holder("b", "2"), MINUTE, &at(3)).unwrap();
        assert!(third.fence > second.fence);
        let fourth = Ledger::default().claim(task(), &holder("b", "2"), MINUTE, &at(2_000_000)).unwrap();
        assert!(fourth.fence > third.fence);
    }
}
