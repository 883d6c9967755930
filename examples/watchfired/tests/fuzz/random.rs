//! Numbers that follow from a seed.

use std::time::SystemTime;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// Returns the seed that `WATCHFIRE_SEED` names, or that of the time, and prints it.
pub(crate) fn seed() -> u64 {
    let now = || u64::from(SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos());
    let seed = std::env::var("WATCHFIRE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    eprintln!("WATCHFIRE_SEED={seed}");
    seed
}

impl Random {
    /// Returns a sequence of its own for each `part` of a run.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        let mut random = Self(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.next() >> 33) % bound as u64).unwrap()
    }

    /// Returns true once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[5]
    }

    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let size = self.below(most + 1);
        (0..size).map(|_| self.byte()).collect()
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
