//! Time, through one door, so that tests can hold the handle.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::model::Timestamp;

/// What time it is, and how to wait.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment; never goes back, and goes on while the machine sleeps where the system can tell.
    fn boot_time(&self) -> Duration;

    /// Waits until [`boot_time`](Self::boot_time) is at least `until`.
    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

#[cfg(feature = "runtime")]
pub use system::SystemClock;

#[cfg(feature = "runtime")]
mod system {
    use super::{Clock, Duration, Future, Pin, Timestamp};

    /// The machine's clocks, waiting on tokio's timer.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SystemClock;

    impl Clock for SystemClock {
        fn now(&self) -> Timestamp {
            let since =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        }

        fn boot_time(&self) -> Duration {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let clock = rustix::time::ClockId::Boottime;
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            let clock = rustix::time::ClockId::Monotonic;
            let time = rustix::time::clock_gettime(clock);
            Duration::new(
                u64::try_from(time.tv_sec).unwrap_or_default(),
                u32::try_from(time.tv_nsec).unwrap_or_default(),
            )
        }

        fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                // Sleeps of the machine stop tokio's timer but not this clock: look again at least every minute.
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
