//! The spans of lives: one for each life, and below it one for each state that the life was in.
//!
//! The ids of a trace and its root come from the life itself, so that a life that outlives the daemon is one trace all the same: the
//! next daemon sends the rest of it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde::Serialize;
use watchfire_core::model::{ProjectId, Timestamp};
use watchfire_core::schedule::{Change, Ending, Life, LifeId, LifeState};

use super::meters::Meters;
use crate::notify::is_failure;

/// The lives of a project that have not ended.
pub(super) struct Lives<'a> {
    project: Vec<KeyValue>,
    id: ProjectId,
    meters: &'a Meters,
    open: BTreeMap<LifeId, Open>,
}

/// A life under way. The log has its times in whole seconds, so those of what is seen as it happens are kept beside it.
struct Open {
    life: Life,
    began: SystemTime,
    since: SystemTime,
}

/// Returns the stable code of a value: its field `tag`, as in the journal.
fn code(value: &impl Serialize, tag: &str) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.get(tag).and_then(|code| code.as_str()).unwrap_or("unknown").to_owned()
}

/// Returns the code of an ending. Work that was given up has the code of its last attempt.
fn ending(how: &Ending) -> String {
    match how {
        Ending::GaveUp { last, .. } => ending(last),
        how => code(how, "ending"),
    }
}

/// Returns true for the states of work that is to be merged.
fn merges(state: &LifeState) -> bool {
    matches!(
        state,
        LifeState::Queued
            | LifeState::Merging
            | LifeState::Verifying { .. }
            | LifeState::Publishing { .. }
            | LifeState::Held { .. }
            | LifeState::Incomplete { .. }
    )
}

impl<'a> Lives<'a> {
    /// Returns the lives of a project as they are now.
    pub(super) fn new(id: &ProjectId, name: &str, meters: &'a Meters, open: Vec<Life>) -> Self {
        let project = vec![
            KeyValue::new("watchfire.project.id", id.to_string()),
            KeyValue::new("watchfire.project.name", name.to_owned()),
        ];
        let of = |life: Life| (life.id, Open { began: time(&life.began), since: time(&life.since), life });
        let open: BTreeMap<_, _> = open.into_iter().map(of).collect();
        let lives = Self { project, id: id.clone(), meters, open };
        lives.open.values().for_each(|open| lives.count_session(&open.life, 1));
        lives
    }

    /// Takes in a change that is made `now`, counts what it means, and returns the spans that end with it.
    pub(super) fn take_in(&mut self, change: &Change, now: SystemTime) -> Vec<SpanData> {
        match change {
            Change::Life(life) => self.life(life, now),
            Change::SessionOver { session, end, .. } => {
                let of = self.with("watchfire.agent", session.backend.to_string());
                self.meters.usage(&of, end.usage, end.cost);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn life(&mut self, life: &Life, now: SystemTime) -> Vec<SpanData> {
        let mut spans = Vec::new();
        let before = self.open.remove(&life.id);
        let (mut began, mut since) = (now, now);
        if let Some(before) = &before {
            began = before.began;
            match (before.life.state.word(), &before.life.since) == (life.state.word(), &life.since) {
                true => since = before.since,
                false => spans.push(self.state(before, now)),
            }
            self.count_session(&before.life, -1);
        }
        let before = before.as_ref().map(|before| &before.life);
        // An attempt that failed is followed by another: its ending is the setback then.
        let setback = life.setback.as_ref();
        let setback = setback.filter(|it| before.and_then(|before| before.setback.as_ref()) != Some(it));
        let was_merging = before.is_some_and(|before| merges(&before.state)) && !merges(&life.state);
        let ended = life.ending();
        if let Some(how) = ended.or(setback).filter(|_| was_merging) {
            self.meters.merges.add(1, &self.with("watchfire.ending", ending(how)));
        }
        let Some(how) = ended else {
            self.count_session(life, 1);
            self.open.insert(life.id, Open { life: life.clone(), began, since });
            return spans;
        };
        if life.subject.task().is_some() {
            self.meters.tasks.add(1, &self.with("watchfire.ending", ending(how)));
        }
        spans.push(self.whole(life, how, (began, now)));
        spans
    }

    /// Adds to the number of sessions that run, if `life` has one.
    fn count_session(&self, life: &Life, by: i64) {
        if let Some(session) = &life.session {
            self.meters.sessions.add(by, &self.with("watchfire.agent", session.backend.to_string()));
        }
    }

    fn with(&self, key: &'static str, value: String) -> Vec<KeyValue> {
        [self.project.as_slice(), &[KeyValue::new(key, value)]].concat()
    }

    /// Returns the span of a whole life.
    fn whole(&self, life: &Life, how: &Ending, times: (SystemTime, SystemTime)) -> SpanData {
        let mut span = self.span(life, code(&life.subject, "subject"), times);
        span.attributes.push(KeyValue::new("watchfire.ending", ending(how)));
        if is_failure(how) {
            span.status = Status::error(ending(how));
        }
        span
    }

    /// Returns the span of the state that a life was in until `end`.
    fn state(&self, Open { life, since, .. }: &Open, end: SystemTime) -> SpanData {
        let mut span = self.span(life, life.state.word().to_owned(), (*since, end));
        span.parent_span_id = span.span_context.span_id();
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let place = format!("{} {}", life.state.word(), since.as_nanos());
        span.span_context = self.context(life, &place);
        match &life.state {
            LifeState::Waiting { on, .. } => {
                span.attributes.push(KeyValue::new("watchfire.wait", code(on, "wait")));
            }
            LifeState::Limited { issue, .. } => {
                span.attributes.push(KeyValue::new("watchfire.issue", code(issue, "kind")));
            }
            _ => {}
        }
        span
    }

    fn span(&self, life: &Life, name: String, (start, end): (SystemTime, SystemTime)) -> SpanData {
        let mut attributes = self.project.clone();
        attributes.push(KeyValue::new("watchfire.life.id", number(life.id.0)));
        attributes.push(KeyValue::new("watchfire.attempt", i64::from(life.attempt.0)));
        if let Some(task) = life.subject.about() {
            attributes.push(KeyValue::new("watchfire.task.number", i64::from(task.value())));
        }
        if let Some(agent) = &life.backend {
            attributes.push(KeyValue::new("watchfire.agent", agent.to_string()));
        }
        SpanData {
            span_context: self.context(life, ""),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: start,
            // A clock that was set back in between must not make a span of negative length.
            end_time: end.max(start),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("watchfire")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }

    /// Returns the ids of the span at `place` in the trace of `life`. Trace and root have the same ids in every process.
    fn context(&self, life: &Life, place: &str) -> SpanContext {
        let of = format!("{} {} {}", self.id, life.id, life.began.unix_millis());
        let span = hash(&format!("{of} {place}"));
        let (trace, span) = (hash(&of).to_be_bytes(), span.to_be_bytes());
        let [_, _, _, _, _, _, _, _, span @ ..] = span;
        let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
        SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
    }
}

impl Drop for Lives<'_> {
    /// The sessions of a project that is closed are counted no more.
    fn drop(&mut self) {
        self.open.values().for_each(|open| self.count_session(&open.life, -1));
    }
}

fn time(at: &Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.unix_millis()).unwrap_or(0))
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the 128-bit hash of a text by FNV-1a, which is the same in every release.
fn hash(text: &str) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0100_0000_0000_0000_013b;
    text.bytes().fold(START, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
