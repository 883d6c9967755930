//! The guarantees of [`TaskStore`] as a test suite for any implementation.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use claims::{
    a_claim_has_one_holder_and_growing_fences, a_later_start_of_the_same_home_takes_over, a_lease_expires,
    fenced_writes_end_with_the_claim, many_claims_are_renewed_at_once,
};

use super::{
    Change, Changes, DocumentName, Fence, NewTask, Patch, ProjectPatch, Revision, TaskPatch, TaskQuery,
    TaskStore, TaskStoreExt, Versioned,
};
use crate::conformance::cases;
use crate::model::{Task, TaskNumber, TaskStatus};
use crate::{Error, ErrorKind, Result};

/// Time limit for a change to reach a subscriber.
const DEADLINE: Duration = Duration::from_secs(20);

/// Factory for the stores under test.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// Returns two handles on one new, empty backing: two stores where the implementation can have two, as two
    /// processes would, otherwise the same store twice. The factory owns everything that keeps the backing alive.
    ///
    /// # Errors
    /// Errors of the implementation.
    async fn fresh(&self) -> Result<(Arc<dyn TaskStore>, Arc<dyn TaskStore>)>;
}

cases! {
    async pub dyn StoreFactory:
    tasks_are_created_with_numbers_and_defaults,
    impossible_tasks_are_refused,
    numbers_are_never_given_twice,
    numbers_are_unique_between_concurrent_writers,
    a_repeated_request_creates_one_task,
    an_expected_revision_is_compared,
    unpatched_fields_stay,
    concurrent_patches_of_different_fields_all_arrive,
    a_patch_that_changes_nothing_changes_no_revision,
    going_back_to_ready_starts_over,
    lists_are_filtered_and_in_work_order,
    reordering_puts_these_first,
    the_trash_can_be_restored_and_emptied,
    bulk_changes_go_on_after_a_failure,
    the_project_is_changed_field_by_field,
    documents_are_written_whole,
    changes_reach_every_subscriber,
    streams_end_with_the_store,
    a_claim_has_one_holder_and_growing_fences,
    a_lease_expires,
    a_later_start_of_the_same_home_takes_over,
    many_claims_are_renewed_at_once,
    fenced_writes_end_with_the_claim,
}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(Error::new(ErrorKind::Internal, format!($($message)+)));
        }
    };
}

mod claims;

fn kind<T>(result: &Result<T>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

fn number(n: u32) -> Result<TaskNumber> {
    TaskNumber::try_from(n)
}

async fn tasks_are_created_with_numbers_and_defaults(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    // Cases count tasks and numbers from the beginning.
    ensure!(store.list(&TaskQuery::new()).await?.tasks.is_empty(), "a new store has tasks");
    let first = store.create(NewTask::new("first"), None).await?.value;
    ensure!(first.task_number.value() == 1, "the first number is {}", first.task_number);
    // A draft, so that nothing starts before a person says so.
    ensure!(first.status == TaskStatus::Draft && first.position == 1, "not a draft at position 1: {first:?}");
    ensure!(first.created_at.is_some() && first.updated_at.is_some(), "no timestamps");
    let new = NewTask::new("second")
        .with_prompt("do\nthis\n")
        .with_acceptance_criteria("- a: b\n")
        .with_agent("claude-code".parse()?)
        .with_ready(true)
        .with_depends_on(vec![first.task_number])
        .with_labels(vec!["ui".to_owned(), "a b".to_owned()])
        .with_retries(2);
    // Through the other handle: both must see one backing.
    let second = other.create(new, None).await?;
    let read = store.get(second.value.task_number).await?;
    ensure!(read == second, "created {second:?}, read {read:?}");
    let task = read.value;
    // Line breaks at the end belong to the text.
    ensure!(task.prompt == "do\nthis\n" && task.acceptance_criteria == "- a: b\n", "texts differ: {task:?}");
    ensure!(task.position == 2 && task.status == TaskStatus::Ready, "not ready after the first: {task:?}");
    // Numbers are for people; the id is what survives a renumbering by hand.
    ensure!(task.task_id != first.task_id, "one id for two tasks");
    let placed = store.create(NewTask::new("placed").with_position(1), None).await?.value;
    ensure!(placed.position == 1, "position {} instead of the one asked for", placed.position);
    Ok(())
}

async fn impossible_tasks_are_refused(factory: &dyn StoreFactory) -> Result<()> {
    let (store, _) = factory.fresh().await?;
    // Blank counts as empty: no list could show it.
    let none = store.create(NewTask::new("  "), None).await;
    ensure!(kind(&none) == Some(ErrorKind::InvalidInput), "an empty title gives {none:?}");
    let missing = store.create(NewTask::new("a").with_depends_on(vec![number(9)?]), None).await;
    ensure!(kind(&missing) == Some(ErrorKind::InvalidInput), "a missing dependency gives {missing:?}");
    let unknown = store.get(number(9)?).await;
    ensure!(kind(&unknown) == Some(ErrorKind::NotFound), "an unknown task gives {unknown:?}");
    let unknown = store.update(number(9)?, TaskPatch::new(), None, None).await;
    ensure!(kind(&unknown) == Some(ErrorKind::NotFound), "updating an unknown task gives {unknown:?}");
    let mut last = None;
    for title in ["a", "b", "c"] {
        let new = NewTask::new(title).with_depends_on(last.into_iter().collect());
        last = Some(store.create(new, None).await?.value.task_number);
    }
    let depends = async |on: u32| {
        let patch = TaskPatch::new().with_depends_on(vec![number(on)?]);
        store.update(number(1)?, patch, None, None).await
    };
    for (on, told) in [(9, "0009"), (1, "1 -> 1"), (3, "1 -> 3 -> 2 -> 1")] {
        let refused = depends(on).await;
        ensure!(kind(&refused) == Some(ErrorKind::InvalidInput), "a dependency on {on} gives {refused:?}");
        let why = refused.err();
        let why = why.as_ref().and_then(|error| error.detail("depends_on"));
        ensure!(why == Some(told), "a dependency on {on} is refused by {why:?}");
    }
    let unknown = store.purge(number(9)?).await;
    ensure!(kind(&unknown) == Some(ErrorKind::NotFound), "purging an unknown task gives {unknown:?}");
    Ok(())
}

async fn numbers_are_never_given_twice(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let last = store.create(NewTask::new("gone soon"), None).await?.value.task_number;
    // The highest number is the one that is easiest to give again.
    store.delete(last).await?;
    store.purge(last).await?;
    let next = other.create(NewTask::new("next"), None).await?.value.task_number;
    ensure!(next > last, "{next} was given after {last} had been purged");
    Ok(())
}

async fn numbers_are_unique_between_concurrent_writers(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    // Enough writers to meet, over two handles as over two processes.
    let writers: Vec<_> = (0..12)
        .map(|i| {
            let store = Arc::clone(if i % 2 == 0 { &store } else { &other });
            tokio::spawn(async move { store.create(NewTask::new(format!("task {i}")), None).await })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for writer in writers {
        let task =
            writer.await.map_err(|e| Error::new(ErrorKind::Internal, "a writer died").with_source(e))??;
        ensure!(numbers.insert(task.value.task_number), "{} was given twice", task.value.task_number);
    }
    let listed = store.list(&TaskQuery::new()).await?.tasks.len();
    ensure!(listed == numbers.len(), "{listed} tasks listed of {}", numbers.len());
    Ok(())
}

async fn a_repeated_request_creates_one_task(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let new = |id: &str| NewTask::new("once").with_request_id(id);
    // At once, and over two handles as over two processes.
    let writers: Vec<_> = (0..8)
        .map(|i| {
            let (store, new) = (Arc::clone(if i % 2 == 0 { &store } else { &other }), new("a"));
            tokio::spawn(async move { store.create(new, None).await })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for writer in writers {
        let task =
            writer.await.map_err(|e| Error::new(ErrorKind::Internal, "a writer died").with_source(e))??;
        numbers.insert(task.value.task_number);
    }
    ensure!(numbers.len() == 1, "one request created {numbers:?}");
    let one = number(1)?;
    // Whatever became of it since.
    store.update(one, TaskPatch::new().with_title("renamed"), None, None).await?;
    store.delete(one).await?;
    let again = other.create(new("a"), None).await?.value;
    ensure!(again.task_number == one && again.title == "renamed", "another task: {again:?}");
    let second = other.create(new("b"), None).await?.value.task_number;
    ensure!(second != one, "another request gives {second}");
    for bad in ["", &"x".repeat(65)] {
        let refused = store.create(new(bad), None).await;
        ensure!(kind(&refused) == Some(ErrorKind::InvalidInput), "an id of {} bytes: {refused:?}", bad.len());
    }
    Ok(())
}

async fn an_expected_revision_is_compared(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    // The other handle changes the task in between.
    let old = store.create(NewTask::new("a"), None).await?;
    let number = old.value.task_number;
    let new = other.update(number, TaskPatch::new().with_title("b"), Some(&old.revision), None).await?;
    ensure!(new.revision != old.revision, "the revision stayed");
    let stale = store.update(number, TaskPatch::new().with_title("c"), Some(&old.revision), None).await;
    ensure!(kind(&stale) == Some(ErrorKind::Conflict), "a stale revision gives {stale:?}");
    // A conflict must leave no trace.
    ensure!(store.get(number).await? == new, "a refused write changed something");
    Ok(())
}

async fn unpatched_fields_stay(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let new = NewTask::new("a").with_prompt("p\n  q\n").with_labels(vec!["x".to_owned()]).with_retries(1);
    let before = store.create(new, None).await?.value;
    let after = other.update(before.task_number, TaskPatch::new().with_title("b"), None, None).await?.value;
    let mut expected: Task = before;
    expected.title = "b".to_owned();
    // The only field that changes by itself.
    expected.updated_at.clone_from(&after.updated_at);
    ensure!(after == expected, "expected {expected:?}, got {after:?}");
    Ok(())
}

async fn concurrent_patches_of_different_fields_all_arrive(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let number = store.create(NewTask::new("a"), None).await?.value.task_number;
    // Each patch sets another field, so none may be lost, in whatever order they come.
    let patches = [
        TaskPatch::new().with_title("title"),
        TaskPatch::new().with_prompt("one\ntwo"),
        TaskPatch::new().with_acceptance_criteria("criteria"),
        TaskPatch::new().with_position(7),
        TaskPatch::new().with_agent_sessions(3_u32),
        TaskPatch::new().with_labels(vec!["l".to_owned()]),
        TaskPatch::new().with_retries(Some(4)),
        TaskPatch::new().with_status(TaskStatus::Ready),
    ];
    let writers: Vec<_> = patches
        .into_iter()
        .enumerate()
        .map(|(i, patch)| {
            let store = Arc::clone(if i % 2 == 0 { &store } else { &other });
            tokio::spawn(async move { store.update(number, patch, None, None).await })
        })
        .collect();
    for writer in writers {
        writer.await.map_err(|e| Error::new(ErrorKind::Internal, "a writer died").with_source(e))??;
    }
    let task = store.get(number).await?.value;
    let all = task.title == "title"
        && task.prompt == "one\ntwo"
        && task.acceptance_criteria == "criteria"
        && (task.position, task.agent_sessions, task.retries) == (7, 3, Some(4))
        && task.labels == ["l"]
        && task.status == TaskStatus::Ready;
    ensure!(all, "a patch was lost: {task:?}");
    Ok(())
}

async fn a_patch_that_changes_nothing_changes_no_revision(factory: &dyn StoreFactory) -> Result<()> {
    let (store, _) = factory.fresh().await?;
    let task = store.create(NewTask::new("a"), None).await?;
    let same = store.update(task.value.task_number, TaskPatch::new().with_title("a"), None, None).await?;
    // A write without a change would wake every subscriber.
    ensure!(same == task, "{task:?} became {same:?}");
    Ok(())
}

async fn going_back_to_ready_starts_over(factory: &dyn StoreFactory) -> Result<()> {
    let (store, _) = factory.fresh().await?;
    let number = store.create(NewTask::new("a").with_ready(true), None).await?.value.task_number;
    let mut done = TaskPatch::new().with_status(TaskStatus::Done).with_success(Some(false));
    // Quotes and a line break: a store of files has to escape them.
    done.failure_reason = Patch::Set("it is \"broken\"\nbadly".to_owned());
    done.merge_failure_reason = Patch::Set("conflict".to_owned());
    let task = store.update(number, done, None, None).await?.value;
    ensure!(task.completed_at.is_some() && task.success == Some(false), "not stamped done: {task:?}");
    // What the last attempt came to would otherwise pass for a claim of the next one.
    let task = store.update(number, TaskPatch::new().with_status(TaskStatus::Ready), None, None).await?.value;
    let cleared = task.completed_at.is_none()
        && task.success.is_none()
        && task.failure_reason.is_none()
        && task.merge_failure_reason.is_none();
    ensure!(cleared && task.status == TaskStatus::Ready, "not cleared: {task:?}");
    Ok(())
}

async fn lists_are_filtered_and_in_work_order(factory: &dyn StoreFactory) -> Result<()> {
    let (store, _) = factory.fresh().await?;
    // Equal positions go by number; negative ones come first.
    for (title, position, ready) in [("c", 3, true), ("a", 1, false), ("b", 1, true), ("d", -1, true)] {
        let new =
            NewTask::new(title).with_position(position).with_ready(ready).with_labels(vec![title.to_owned()]);
        store.create(new, None).await?;
    }
    store.delete(number(1)?).await?;
    let titles =
        |tasks: Vec<Versioned<Task>>| -> String { tasks.into_iter().map(|task| task.value.title).collect() };
    for (query, expected) in [
        (TaskQuery::new(), "dab"),
        (TaskQuery::new().with_status(TaskStatus::Ready), "db"),
        (TaskQuery::new().with_label("a"), "a"),
        (TaskQuery::new().deleted_only(), "c"),
    ] {
        let listed = titles(store.list(&query).await?.tasks);
        ensure!(listed == expected, "{query:?} lists {listed}, expected {expected}");
    }
    Ok(())
}

async fn reordering_puts_these_first(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    for title in ["1", "2", "3", "4"] {
        store.create(NewTask::new(title), None).await?;
    }
    // Both errors come before anything is moved.
    let twice = store.reorder(&[number(2)?, number(2)?], None).await;
    ensure!(kind(&twice) == Some(ErrorKind::InvalidInput), "a number twice gives {twice:?}");
    let unknown = store.reorder(&[number(4)?, number(9)?], None).await;
    ensure!(kind(&unknown) == Some(ErrorKind::NotFound), "an unknown number gives {unknown:?}");
    other.reorder(&[number(4)?, number(2)?], None).await?;
    let tasks = store.list(&TaskQuery::new()).await?.tasks;
    let order: Vec<_> = tasks.iter().map(|task| task.value.task_number.value()).collect();
    // The tasks that were not named keep their order behind the others.
    ensure!(order == [4, 2, 1, 3], "the order is {order:?}");
    let first: Vec<_> = tasks.iter().take(2).map(|task| task.value.position).collect();
    ensure!(first == [1, 2], "the first positions are {first:?}");
    Ok(())
}

async fn the_trash_can_be_restored_and_emptied(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    for title in ["1", "2", "3"] {
        store.create(NewTask::new(title), None).await?;
    }
    // Purging is final, so it takes two steps.
    let refused = store.purge(number(1)?).await;
    ensure!(kind(&refused) == Some(ErrorKind::InvalidInput), "purging a live task gives {refused:?}");
    for n in 1..=3 {
        ensure!(store.delete(number(n)?).await?.value.is_deleted(), "{n} is not in the trash");
    }
    // Out of the trash before it is emptied, so it must stay.
    ensure!(!other.restore(number(2)?).await?.value.is_deleted(), "2 is still in the trash");
    ensure!(store.get(number(1)?).await?.value.is_deleted(), "a task in the trash cannot be read");
    // A store that has not seen the deletion may take the missing file for one that comes back.
    other.list(&TaskQuery::new().deleted_only()).await?;
    let mut purged = store.empty_trash().await?;
    purged.sort();
    ensure!(purged == [number(1)?, number(3)?], "purged {purged:?}");
    ensure!(kind(&other.get(number(1)?).await) == Some(ErrorKind::NotFound), "1 is still there");
    ensure!(other.list(&TaskQuery::new()).await?.tasks.len() == 1, "2 is gone");
    Ok(())
}

async fn bulk_changes_go_on_after_a_failure(factory: &dyn StoreFactory) -> Result<()> {
    let (store, _) = factory.fresh().await?;
    store.create(NewTask::new("1"), None).await?;
    store.create(NewTask::new("2"), None).await?;
    let patch = TaskPatch::new().with_status(TaskStatus::Ready);
    let results = store.update_all(&[number(1)?, number(9)?, number(2)?], &patch).await;
    let ok: Vec<_> = results.iter().map(|(_, result)| result.is_ok()).collect();
    // Task 9 does not exist; the one after it must be changed all the same.
    ensure!(ok == [true, false, true], "{results:?}");
    Ok(())
}

async fn the_project_is_changed_field_by_field(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let before = store.project().await?;
    let patch =
        ProjectPatch::new().with_definition("# Title\n\ntext\n").with_verify(vec!["cargo test".to_owned()]);
    let after = other.update_project(patch, Some(&before.revision), None).await?;
    // The patch did not name it.
    ensure!(after.value.name == before.value.name, "the name changed");
    ensure!(store.project().await? == after, "written and read differ");
    let stale = store.update_project(ProjectPatch::new().with_name("x"), Some(&before.revision), None).await;
    ensure!(kind(&stale) == Some(ErrorKind::Conflict), "a stale revision gives {stale:?}");
    let task = store.create(NewTask::new("a"), None).await?.value.task_number;
    let next = store.project().await?.value.next_task_number;
    // The counter is part of the project, and creating a task must raise it.
    ensure!(next > task.value(), "the next number is {next} after {task}");
    Ok(())
}

async fn documents_are_written_whole(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    for name in DocumentName::ALL {
        // A store may come with a document, such as a template.
        let before = store.document(*name).await?;
        let before = before.map_or_else(Revision::absent, |document| document.revision);
        let first = match store.write_document(*name, "# one\n", Some(&before), None).await {
            Err(error) if error.kind() == ErrorKind::NotSupported => continue,
            written => written?,
        };
        let read = other.document(*name).await?;
        ensure!(read.as_ref() == Some(&first), "{name}: {first:?} was written, {read:?} read");
        // Two sessions that both saw no document: the second must not overwrite the first.
        let stale = other.write_document(*name, "# late\n", Some(&Revision::absent()), None).await;
        ensure!(
            kind(&stale) == Some(ErrorKind::Conflict),
            "{name} is there, and creating it gives {stale:?}"
        );
        let second = other.write_document(*name, "# two\n", Some(&first.revision), None).await?;
        let stale = store.write_document(*name, "# late\n", Some(&first.revision), None).await;
        ensure!(kind(&stale) == Some(ErrorKind::Conflict), "{name}: a stale revision gives {stale:?}");
        ensure!(store.document(*name).await? == Some(second), "{name}: a stale write happened");
        // Without an expected revision, the last writer wins.
        let third = store.write_document(*name, "# three\n", None, None).await?;
        ensure!(third.value == "# three\n", "{name} is {third:?}");
        // A fence that no task has ever had.
        let stranger = store.write_document(*name, "# late\n", None, Some(Fence(1))).await;
        ensure!(kind(&stranger) == Some(ErrorKind::ClaimLost), "{name}: no claim's fence gives {stranger:?}");
    }
    Ok(())
}

async fn changes_reach_every_subscriber(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let (mut here, mut there) = (store.subscribe(), other.subscribe());
    let task = store.create(NewTask::new("a"), None).await?.value.task_number;
    // A new task takes a number, and the next one is a field of the project. In any order, so each has a stream.
    let (mut here_too, mut there_too) = (store.subscribe(), other.subscribe());
    let second = store.create(NewTask::new("b"), None).await?.value.task_number;
    for stream in [&mut here, &mut there] {
        until(stream, &Change::Task(task)).await?;
        until(stream, &Change::Task(second)).await?;
    }
    for stream in [&mut here_too, &mut there_too] {
        until(stream, &Change::Project).await?;
    }
    // Several changes may arrive as one, but at least one arrives.
    for title in ["b", "c", "d"] {
        other.update(task, TaskPatch::new().with_title(title), None, None).await?;
    }
    for stream in [&mut here, &mut there] {
        until(stream, &Change::Task(task)).await?;
    }
    store.update_project(ProjectPatch::new().with_name("new"), None, None).await?;
    for stream in [&mut here, &mut there] {
        until(stream, &Change::Project).await?;
    }
    store.delete(task).await?;
    store.purge(task).await?;
    // Deletion and purge are changes, too.
    until(&mut there, &Change::Task(task)).await
}

async fn streams_end_with_the_store(factory: &dyn StoreFactory) -> Result<()> {
    let (store, other) = factory.fresh().await?;
    let mut changes = store.subscribe();
    // All handles: a stream does not keep its store alive.
    drop((store, other));
    let end = async { while poll_fn(|context| changes.as_mut().poll_next(context)).await.is_some() {} };
    tokio::time::timeout(DEADLINE, end)
        .await
        .map_err(|_| Error::new(ErrorKind::Timeout, "the stream goes on without its store"))
}

/// Waits for a change, or for [`Change::Everything`], which says it too.
async fn until(changes: &mut Changes, wanted: &Change) -> Result<()> {
    let seen = async {
        while let Some(change) = poll_fn(|context| changes.as_mut().poll_next(context)).await {
            if change == *wanted || change == Change::Everything {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Internal, "the stream ended"))
    };
    tokio::time::timeout(DEADLINE, seen).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, "a change did not arrive")
            .with("change", format_args!("{wanted:?}")))
    })
}
