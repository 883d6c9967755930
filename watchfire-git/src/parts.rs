//! Spreads work on many files over several threads.

use watchfire_core::{Error, ErrorKind, Result};

/// Upper bound for the threads. More threads do not create or read files faster.
const MOST: usize = 4;

/// Does `work` on all `items`. From `many` items on, splits them into parts of nearly equal size and gives
/// each part a thread of its own. Returns the results of the parts, in no order.
pub(crate) fn in_parts<T: Send, R: Send>(
    mut items: Vec<T>,
    many: usize,
    work: impl Fn(Vec<T>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
    if items.len() < many || threads < 2 {
        return Ok(vec![work(items)?]);
    }
    let size = items.len().div_ceil(threads);
    let mut parts = Vec::with_capacity(threads);
    while items.len() > size {
        // Taken from the end, so that no remaining item is moved.
        parts.push(items.split_off(items.len() - size));
    }
    parts.push(items);
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
        let panicked = |_| Error::new(ErrorKind::Internal, "a thread panicked");
        // `scope` waits for every thread, also after the first error.
        workers.into_iter().map(|worker| worker.join().map_err(panicked)?).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_comes_to_one_part() {
        for count in [0, 1, 2, 3, 7, 100] {
            let parts = in_parts((0..count).collect(), 2, Ok).unwrap();
            let mut all: Vec<_> = parts.into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
        let failed = in_parts((0..100).collect(), 2, |part| match part.contains(&50) {
            true => Err(Error::new(ErrorKind::Internal, "fifty")),
            false => Ok(()),
        });
        assert_eq!(failed.unwrap_err().message(), "fifty");
    }
}
