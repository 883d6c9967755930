//! A clock that moves when it is told to.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::model::Timestamp;

#[derive(Clone, Debug, Default)]
pub(super) struct ManualClock(Arc<Mutex<(Duration, Vec<Waker>)>>);

impl ManualClock {
    pub(super) fn advance(&self, by: Duration) {
        let mut inner = self.0.lock().unwrap();
        inner.0 += by;
        std::mem::take(&mut inner.1).into_iter().for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(1_770_123_900_000).plus(self.boot_time())
    }

    fn boot_time(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(poll_fn(move |context| {
            let mut inner = clock.0.lock().unwrap();
            if inner.0 >= until {
                return Poll::Ready(());
            }
            inner.1.push(context.waker().clone());
            Poll::Pending
        }))
    }
}
