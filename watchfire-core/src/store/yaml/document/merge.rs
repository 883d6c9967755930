//! Merging two concurrent edits of one file.

use serde_yaml::{Mapping, Value};

use super::{Fault, Record};

/// Merges our change of `base` to `ours` with another program's change to `theirs`. A field that only one side
/// changed keeps that side's value. Of fields that both changed, theirs wins, except for [`Record::OWNED`].
pub(in crate::store) fn merge<T: Record>(base: &T, ours: &T, theirs: &T) -> Result<T, Fault> {
    let (base, ours, theirs) = (fields(base)?, fields(ours)?, fields(theirs)?);
    let differs = |field: &str| base.get(field) != theirs.get(field);
    // A status without its reason, or a reason without its status, would say something that neither side
    // meant.
    let left = T::TOGETHER.first().is_some_and(|first| differs(first));
    let keep = |field: &str| {
        (left && T::TOGETHER.contains(&field)) || (differs(field) && !T::OWNED.contains(&field))
    };
    let mut merged = three_way(&base, &ours, &theirs, &keep);
    // Numbers are never given twice, whichever side wins.
    if let (Some(a), Some(b)) = (number(&merged), number(&theirs)) {
        merged.insert("next_task_number".into(), a.max(b).into());
    }
    serde_yaml::from_value(Value::Mapping(merged)).map_err(|error| Fault::new(error.to_string()))
}

/// Returns the fields of a record, in the order in which it is written.
pub(super) fn fields<T: Record>(record: &T) -> Result<Mapping, Fault> {
    match serde_yaml::to_value(record) {
        Ok(Value::Mapping(map)) => Ok(map),
        Ok(_) => Err(Fault::new(format!("{} is not a mapping", T::WHAT))),
        Err(error) => Err(Fault::new(format!("{} cannot be written as YAML: {error}", T::WHAT))),
    }
}

fn number(map: &Mapping) -> Option<u64> {
    map.get("next_task_number").and_then(Value::as_u64)
}

fn three_way(base: &Mapping, ours: &Mapping, theirs: &Mapping, keep: &dyn Fn(&str) -> bool) -> Mapping {
    let mut merged = theirs.clone();
    let mut keys: Vec<&Value> = ours.keys().collect();
    keys.extend(base.keys().filter(|key| !ours.contains_key(*key)));
    for key in keys {
        let (was, our, their) = (base.get(key), ours.get(key), theirs.get(key));
        // We did not touch it, so whatever the other side has stays.
        if was == our {
            continue;
        }
        if let (Some(Value::Mapping(our)), Some(Value::Mapping(their))) = (our, their) {
            let empty = Mapping::new();
            let was = was.and_then(Value::as_mapping).unwrap_or(&empty);
            // `OWNED` names top-level fields only. Inside a section, theirs wins for each key that both
            // changed.
            let inner = |field: &str| was.get(field) != their.get(field);
            merged.insert(key.clone(), Value::Mapping(three_way(was, our, their, &inner)));
        } else if !keep(key.as_str().unwrap_or_default()) {
            match our {
                Some(value) => {
                    merged.insert(key.clone(), value.clone());
                }
                None => {
                    // Keeps the order of the other keys.
                    merged.shift_remove(key);
                }
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Project, Task, TaskStatus, Timestamp};

    fn task() -> Task {
        Task::new("k7xm2nq9".parse().unwrap(), 1.try_into().unwrap(), "t")
    }

    #[test]
    fn the_other_hand_wins_but_for_our_fields() {
        let (base, now) = (task(), Timestamp::from_unix_millis(0));
        let mut ours = base.clone();
        ours.title = "ours".to_owned();
        ours.position = 7;
        ours.agent_sessions = 2;
        ours.updated_at = Some(now.clone());
        let mut theirs = base.clone();
        theirs.title = "theirs".to_owned();
        theirs.prompt = "new".to_owned();
        theirs.agent_sessions = 9;
        let merged = merge(&base, &ours, &theirs).unwrap();
        assert_eq!((merged.title.as_str(), merged.prompt.as_str(), merged.position), ("theirs", "new", 7));
        assert_eq!((merged.agent_sessions, merged.updated_at), (2, Some(now)));
    }

    #[test]
    fn an_outcome_is_never_split() {
        let (mut base, now) = (task(), Timestamp::from_unix_millis(0));
        base.status = TaskStatus::Ready;
        let mut ours = base.clone();
        ours.status = TaskStatus::Done;
        ours.success = Some(false);
        ours.completed_at = Some(now);
        let mut theirs = base.clone();
        theirs.status = TaskStatus::Draft;
        let merged = merge(&base, &ours, &theirs).unwrap();
        assert_eq!((merged.status, merged.success, merged.completed_at), (TaskStatus::Draft, None, None));
    }

    #[test]
    fn the_next_number_never_falls() {
        let base = Project::new("p".parse().unwrap(), "n");
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        ours.next_task_number = 5;
        theirs.next_task_number = 9;
        assert_eq!(merge(&base, &ours, &theirs).unwrap().next_task_number, 9);
        theirs.next_task_number = 3;
        assert_eq!(merge(&base, &ours, &theirs).unwrap().next_task_number, 5);
    }
}
