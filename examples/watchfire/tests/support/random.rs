//! Numbers that follow from a seed.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::SystemTime;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the sequence of `WATCHFIRE_SEED`, or of the time, and prints its seed.
    pub(crate) fn from_environment() -> Self {
        let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
        let seed = std::env::var("WATCHFIRE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
        eprintln!("WATCHFIRE_SEED={seed}");
        Self(seed)
    }

    /// Returns a sequence of its own, for another process.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Returns true once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
