//! The cost of this day's sessions, over all projects of a home.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Spent;
use crate::model::Timestamp;

/// Costs of the sessions of one day, in millionths of a US dollar. A day begins at midnight of this machine.
#[derive(Debug, Default)]
pub(crate) struct Spending(Mutex<Option<Day>>);

#[derive(Debug)]
struct Day {
    date: String,
    /// False if the records have to be read.
    is_read: bool,
    /// Costs by log: of this day, and of the days before for sessions that went on over midnight.
    logs: HashMap<PathBuf, (u64, u64)>,
}

impl Spending {
    /// Returns the cost of the day of `now` so far. With a `session`, its log and its whole cost are taken in first.
    /// `logs` is the folder with the logs of all projects. It is read at first, and after [`read_again`](Self::read_again).
    pub(crate) fn today(&self, logs: &Path, session: Option<(&Path, u64)>, now: &Timestamp) -> u64 {
        let date = now.date();
        let mut today = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Day { logs: HashMap::new(), date: date.clone(), is_read: false };
        let day = today.get_or_insert_with(new);
        if day.date != date {
            // At midnight, the cost so far of a session that goes on belongs to the day before.
            day.logs.values_mut().for_each(|(cost, before)| *before += std::mem::take(cost));
            day.date = date;
        }
        if !std::mem::replace(&mut day.is_read, true) {
            for (log, cost) in read(logs, &day.date) {
                // What a session of this program spent is known better than from its record.
                let (known, before) = day.logs.entry(log).or_default();
                *known = cost.saturating_sub(*before).max(*known);
            }
        }
        if let Some((log, cost)) = session {
            let (now, before) = day.logs.entry(log.to_owned()).or_default();
            *now = cost.saturating_sub(*before);
        }
        day.logs.values().map(|(cost, _)| *cost).sum()
    }

    /// Has the records read again: other programs write some, too.
    pub(crate) fn read_again(&self) {
        if let Some(day) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            day.is_read = false;
        }
    }
}

/// Reads what the sessions cost that were last counted on `date`.
fn read(logs: &Path, date: &str) -> Vec<(PathBuf, u64)> {
    let records = Spent::records_of_home(logs).into_iter();
    let of_today = records.filter(|record| record.at.as_ref().is_some_and(|at| at.date() == date));
    of_today.map(|record| (record.log.clone(), record.known_cost())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_adds_up_and_ends() {
        let logs = tempfile::tempdir().unwrap();
        let noon = |day: u32| format!("2026-02-{day:02}T12:00:00Z").parse::<Timestamp>().unwrap();
        let (spending, one, two) = (Spending::default(), Path::new("/1.log"), Path::new("/2.log"));
        let today = |session, day| spending.today(logs.path(), session, &noon(day));
        assert_eq!(today(None, 3), 0);
        assert_eq!(today(Some((one, 5)), 3), 5);
        assert_eq!(today(Some((one, 7)), 3), 7, "the same session");
        assert_eq!(today(Some((two, 1)), 3), 8);
        assert_eq!(today(Some((one, 9)), 4), 2, "what it cost since midnight");
        assert_eq!(today(Some((one, 12)), 4), 5);
    }
}
