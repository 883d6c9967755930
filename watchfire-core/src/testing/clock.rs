//! A clock that skips time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};
use crate::model::Timestamp;

/// The machine's clock, and all the time that was skipped. Copies skip together.
#[derive(Clone, Debug)]
pub struct FakeClock(watch::Sender<Duration>);

impl FakeClock {
    /// Returns a clock that shows the machine's time.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a clock that nobody can move is no use")]
    pub fn new() -> Self {
        Self(watch::Sender::new(Duration::ZERO))
    }

    /// Lets this time pass at once. Timers that fall into it go off.
    pub fn skip(&self, time: Duration) {
        self.0.send_modify(|skipped| *skipped += time);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(*self.0.borrow())
    }

    fn boot_time(&self) -> Duration {
        SystemClock.boot_time() + *self.0.borrow()
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            let mut skips = clock.0.subscribe();
            loop {
                let skipped = *skips.borrow_and_update();
                tokio::select! {
                    () = SystemClock.sleep_until(until.saturating_sub(skipped)) => return,
                    _ = skips.changed() => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_within_the_skipped_time_goes_off() {
        let clock = FakeClock::new();
        let (before, hour) = (clock.now(), Duration::from_secs(3600));
        let mut sleep = std::pin::pin!(clock.sleep_until(clock.boot_time() + hour));
        assert!(tokio::time::timeout(Duration::ZERO, &mut sleep).await.is_err());
        clock.clone().skip(hour);
        sleep.await;
        assert!(clock.now() >= before.plus(hour));
    }
}
