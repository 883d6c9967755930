//! Change streams that coalesce: each subscriber holds a set of the items that changed since its last read.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

/// Upper bound for the unread changes of one subscriber. Beyond it, reading everything once is cheaper than reading
/// item by item, so they become one change.
const LIMIT: usize = 32;

/// Announcer of changes. Dropping it ends all streams.
#[derive(Debug)]
pub(super) struct Feed<T> {
    everything: T,
    subscribers: Mutex<Vec<Weak<Queue<T>>>>,
}

impl<T: Clone + Ord + Send + 'static> Feed<T> {
    /// Returns a feed on which `everything` stands for more changes than the limit.
    pub(super) fn new(everything: T) -> Self {
        Self { everything, subscribers: Mutex::default() }
    }

    pub(super) fn subscribe(&self) -> Pin<Box<dyn Stream<Item = T> + Send>> {
        let queue = Arc::new(Queue(Mutex::new(State { dirty: BTreeSet::new(), waker: None, closed: false })));
        let mut subscribers = lock(&self.subscribers);
        // Cleaned up here, since a dropped stream does not announce itself.
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        subscribers.push(Arc::downgrade(&queue));
        Box::pin(Subscription(queue))
    }

    pub(super) fn send(&self, change: &T) {
        self.send_all(std::slice::from_ref(change));
    }

    /// Announces several changes with one wake-up.
    pub(super) fn send_all(&self, changes: &[T]) {
        if changes.is_empty() {
            return;
        }
        // Collected first, so that no subscriber's lock is taken under the list's.
        let queues: Vec<_> = lock(&self.subscribers).iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            let mut state = lock(&queue.0);
            // `everything` covers any single change.
            if !state.dirty.contains(&self.everything) {
                state.dirty.extend(changes.iter().cloned());
            }
            if state.dirty.len() > LIMIT {
                state.dirty.clear();
                state.dirty.insert(self.everything.clone());
            }
            wake(state);
        }
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        // A stream holds its queue and not the feed, so only this tells it that nothing more comes.
        for queue in lock(&self.subscribers).iter().filter_map(Weak::upgrade) {
            let mut state = lock(&queue.0);
            state.closed = true;
            wake(state);
        }
    }
}

#[derive(Debug)]
struct Queue<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    dirty: BTreeSet<T>,
    waker: Option<Waker>,
    closed: bool,
}

/// Wakes the subscriber after unlocking: a waker is foreign code and could take the lock.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

struct Subscription<T>(Arc<Queue<T>>);

impl<T: Ord> Stream for Subscription<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0.0);
        // Before the end is reported: changes from before the close are still delivered.
        if let Some(change) = state.dirty.pop_first() {
            return Poll::Ready(Some(change));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        // Under the lock under which the set was found empty, so that no change is missed.
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Locks a mutex, also after a panic elsewhere: the data behind the locks of this room is consistent between any two
/// statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(stream: &mut Pin<Box<dyn Stream<Item = u32> + Send>>) -> (Vec<u32>, bool) {
        let mut context = Context::from_waker(Waker::noop());
        let mut seen = Vec::new();
        loop {
            match stream.as_mut().poll_next(&mut context) {
                Poll::Ready(Some(change)) => seen.push(change),
                Poll::Ready(None) => return (seen, true),
                Poll::Pending => return (seen, false),
            }
        }
    }

    #[test]
    fn changes_coalesce_and_are_bounded_and_never_lost() {
        let feed = Feed::new(u32::MAX);
        let mut stream = feed.subscribe();
        for _ in 0..3 {
            feed.send(&1);
            feed.send(&2);
        }
        assert_eq!(drain(&mut stream), (vec![1, 2], false));
        (0..=u32::try_from(LIMIT).unwrap()).for_each(|change| feed.send(&change));
        assert_eq!(drain(&mut stream), (vec![u32::MAX], false));
        feed.send(&3);
        drop(feed);
        assert_eq!(drain(&mut stream), (vec![3], true));
    }
}
