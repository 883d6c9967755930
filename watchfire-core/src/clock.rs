//! The clock of this crate, behind a trait so that tests can replace it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::model::Timestamp;

/// A source of time and of timers.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the wall-clock time. The user or the network can set it back.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed moment in the past. It never goes back; on Linux it also counts the time in which the
    /// machine was suspended.
    fn boot_time(&self) -> Duration;

    /// Waits until [`boot_time`](Self::boot_time) is at least `until`.
    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

#[cfg(feature = "runtime")]
pub use system::SystemClock;

#[cfg(feature = "runtime")]
mod system {
    use super::{Clock, Duration, Future, Pin, Timestamp};

    /// The clocks of the operating system and the timer of tokio.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SystemClock;

    impl Clock for SystemClock {
        fn now(&self) -> Timestamp {
            let since =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        }

        fn boot_time(&self) -> Duration {
            // `CLOCK_MONOTONIC` stops during suspend, and deadlines of agents should not.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let clock = rustix::time::ClockId::Boottime;
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            let clock = rustix::time::ClockId::Monotonic;
            let time = rustix::time::clock_gettime(clock);
            Duration::new(
                // Time since the start of the machine is never negative.
                u64::try_from(time.tv_sec).unwrap_or_default(),
                u32::try_from(time.tv_nsec).unwrap_or_default(),
            )
        }

        fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                // Tokio's timer stands still while the machine is suspended and this clock does not, so a long wait is
                // cut into pieces: after a resume it ends at most a minute late.
                loop {
                    let left = until.saturating_sub(Self.boot_time());
                    if left.is_zero() {
                        return;
                    }
                    tokio::time::sleep(left.min(Duration::from_secs(60))).await;
                }
            })
        }
    }
}
