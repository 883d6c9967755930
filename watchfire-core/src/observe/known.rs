//! The records that a session repeats after another program has taken it over.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::record::Body;
use super::store::StoredBody;
use crate::backend::{Fact, Issue, IssueKind, Source, Status};

/// Records that are in the log already, by their hash, and how often each is to come once more.
///
/// A program that takes a session over reads its conversation and its stream from the beginning. Only what is read there can
/// come again, and only until it has been read once.
#[derive(Debug, Default)]
pub(super) struct Known {
    transcript: HashMap<u64, u32>,
    stream: HashMap<u64, u32>,
    /// Number of turns that ended, whoever reported it: the conversation has the ends that hooks reported, too.
    turns: usize,
    /// True if the turns whose ends are read now are all among them.
    are_old: bool,
    /// The questions of the agent, which it is asked for once more.
    questions: Vec<Value>,
    /// The issues that were open, the newest of each kind, who told of them, and whether the agent was asked to go on with them.
    issues: Vec<(Source, Issue, bool)>,
    /// Kind and text of the issues that hooks told of, and that the conversation may have, too.
    by_hook: HashSet<(IssueKind, String)>,
    /// The latest status, and who told it.
    status: Option<(Source, Status)>,
    /// Who told of the end of the latest turn, unless another began.
    ended: Option<Source>,
}

/// How an agent stood when the program ended that had its session.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Before {
    /// The issues that were open, and whether the agent was asked to go on with them.
    pub(crate) issues: Vec<(Issue, bool)>,
    /// What hooks had told of the present. Nothing says it again.
    pub(crate) told: Vec<Fact>,
}

/// Name of the event that the agent was asked to go on after its issues.
pub(crate) const GOES_ON: &str = "goes_on";

/// Name of the event that a person pressed a key, and what hooks have told of the status counts no more.
pub(crate) const KEY_PRESSED: &str = "key_pressed";

impl Known {
    /// Adds a record.
    pub(super) fn add(&mut self, source: Source, body: &Body) {
        match body {
            Body::Issue(issue) => {
                self.issues.retain(|(_, open, _)| open.kind != issue.kind);
                self.issues.push((source, issue.clone(), false));
                if source == Source::Hook {
                    self.by_hook.insert((issue.kind, issue.message.clone()));
                }
            }
            Body::IssueCleared(kind) => self.issues.retain(|(_, open, _)| open.kind != *kind),
            Body::Lifecycle { name, .. } if name == GOES_ON => {
                self.issues.iter_mut().for_each(|(_, _, is_passed)| *is_passed = true);
            }
            Body::Lifecycle { name, .. } if name == KEY_PRESSED => self.status = None,
            Body::Status(status) => {
                self.status = Some((source, *status));
                self.ended.take_if(|_| *status == Status::Processing);
            }
            body if *body == Body::event("turn_completed") => self.ended = Some(source),
            _ => {}
        }
        if let Body::Event { name, payload } = body {
            let questions = payload.get("questions").and_then(Value::as_array).into_iter().flatten();
            match name.as_str() {
                "turn_completed" if source != Source::Protocol => return self.turns += 1,
                "questions" => self.questions.extend(questions.cloned()),
                "questions_withdrawn" => {
                    let withdrawn: Vec<_> = questions.collect();
                    self.questions.retain(|asked| !asked.get("id").is_some_and(|id| withdrawn.contains(&id)));
                }
                _ => {}
            }
        }
        if let Some((known, hash)) = self.of(source, body) {
            *known.entry(hash).or_default() += 1;
        }
    }

    /// Returns true if the record is known, and forgets it once.
    pub(super) fn take(&mut self, source: Source, body: &Body) -> bool {
        if self.are_old && source == Source::Transcript && *body == Body::event("turn_completed") {
            return true;
        }
        if self.transcript.is_empty() && self.stream.is_empty() {
            return false;
        }
        let Some((known, hash)) = self.of(source, body) else { return false };
        let Some(count) = known.get_mut(&hash) else { return false };
        *count -= 1;
        if *count == 0 {
            known.remove(&hash);
        }
        true
    }

    /// Returns true if what the record says is known, and only said once more.
    pub(super) fn has(&mut self, source: Source, body: &Body) -> bool {
        let is_told = matches!(body, Body::Issue(issue) if source == Source::Transcript
            && self.by_hook.contains(&(issue.kind, issue.message.clone())));
        is_told || self.of(source, body).is_some_and(|(known, hash)| known.contains_key(&hash))
    }

    /// Forgets how the agent stood: what followed is not in the log.
    pub(super) fn lose_track(&mut self) {
        (self.status, self.ended) = (None, None);
        self.issues.clear();
    }

    /// Returns how the agent stood.
    pub(super) fn before(&self) -> Before {
        let by_hook = |source| source == Source::Hook;
        let issues = self.issues.iter().map(|(_, issue, is_passed)| (issue.clone(), *is_passed)).collect();
        let pressing = self.issues.iter().filter(|(source, _, is_passed)| by_hook(*source) && !is_passed);
        let mut told: Vec<_> = pressing.map(|(_, issue, _)| Fact::Issue(issue.clone())).collect();
        told.extend(self.ended.filter(|source| by_hook(*source)).map(|_| Fact::TurnCompleted));
        told.extend(
            self.status.filter(|(source, _)| by_hook(*source)).map(|(_, status)| Fact::Status(status)),
        );
        Before { issues, told }
    }

    /// Notes that what is read of the conversation now has the ends of so many turns, and forgets as many. Only the last end
    /// of a portion becomes a record.
    pub(super) fn read_turns(&mut self, ended: usize) {
        self.are_old = ended <= self.turns;
        self.turns = self.turns.saturating_sub(ended);
    }

    /// Returns true if the question is known, and forgets it.
    pub(super) fn take_question(&mut self, question: &Value) -> bool {
        let at = self.questions.iter().position(|asked| asked == question);
        at.map(|at| self.questions.swap_remove(at)).is_some()
    }

    /// Forgets what can no longer come from `source`.
    pub(super) fn forget(&mut self, source: Source) {
        if source == Source::Transcript {
            (self.turns, self.are_old) = (0, false);
            self.by_hook.clear();
        }
        if let Some(known) = self.read_from(source) {
            *known = HashMap::new();
        }
    }

    /// Makes no difference any more between what was said in the stream and in the conversation.
    pub(super) fn merge(&mut self) {
        for (hash, count) in std::mem::take(&mut self.stream) {
            *self.transcript.entry(hash).or_default() += count;
        }
    }

    fn read_from(&mut self, source: Source) -> Option<&mut HashMap<u64, u32>> {
        match source {
            Source::Transcript => Some(&mut self.transcript),
            Source::Protocol => Some(&mut self.stream),
            _ => None,
        }
    }

    /// Returns the hash of a record that can come again. A status is not counted: it says what is now.
    fn of(&mut self, source: Source, body: &Body) -> Option<(&mut HashMap<u64, u32>, u64)> {
        let known = self.read_from(source)?;
        match body {
            Body::Transcript(_) | Body::Event { .. } | Body::Issue(_) | Body::IssueCleared(_) => {}
            _ => return None,
        }
        let mut hasher = DefaultHasher::new();
        match body {
            // "Try again in 5 minutes" gives another time with each reading.
            Body::Issue(Issue { kind, message, .. }) => (*kind as u8, message).hash(&mut hasher),
            body => serde_json::to_vec(&StoredBody::of(body)?).ok()?.hash(&mut hasher),
        }
        Some((known, hasher.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_twice_is_known_twice() {
        let mut known = Known::default();
        let note = || Body::event("note");
        known.add(Source::Transcript, &note());
        known.add(Source::Transcript, &note());
        // It is not read again.
        known.add(Source::Hook, &note());
        assert!(!known.take(Source::Hook, &note()) && !known.take(Source::Protocol, &note()));
        let found = [(); 3].map(|()| known.take(Source::Transcript, &note()));
        assert_eq!(found, [true, true, false]);
        known.add(Source::Transcript, &note());
        known.forget(Source::Transcript);
        assert!(!known.take(Source::Transcript, &note()));
    }

    #[test]
    fn a_turn_that_a_hook_has_ended_is_not_over_twice() {
        let (mut known, turn) = (Known::default(), Body::event("turn_completed"));
        known.add(Source::Hook, &turn);
        known.add(Source::Transcript, &turn);
        known.read_turns(2);
        assert!(known.take(Source::Transcript, &turn));
        known.read_turns(1);
        assert!(!known.take(Source::Transcript, &turn), "it ended while nobody watched");
        known.add(Source::Hook, &turn);
        known.read_turns(2);
        assert!(!known.take(Source::Transcript, &turn), "one of them is new");
    }

    #[test]
    fn an_issue_is_known_whenever_it_ends() {
        let mut known = Known::default();
        let issue = |at: &str| {
            let issue = Issue::new(IssueKind::UsageLimit, "try again in 5 minutes");
            Body::Issue(issue.with_reset_at(at.parse().unwrap()))
        };
        known.add(Source::Transcript, &issue("2026-02-03T13:05:00Z"));
        assert!(known.take(Source::Transcript, &issue("2026-02-03T13:15:00Z")));
    }

    #[test]
    fn a_question_is_known_until_it_is_withdrawn() {
        let mut known = Known::default();
        let asked = |id: &str| serde_json::json!({ "id": id, "question": "Which port?" });
        let event = |name: &str, payload| Body::Event { name: name.to_owned(), payload };
        let both = serde_json::json!({ "questions": [asked("1"), asked("2")] });
        known.add(Source::Hook, &event("questions", both));
        known.add(Source::Hook, &event("questions_withdrawn", serde_json::json!({ "questions": ["1"] })));
        assert!(!known.take_question(&asked("1")));
        assert!(known.take_question(&asked("2")) && !known.take_question(&asked("2")));
    }

    #[test]
    fn the_issues_are_those_that_were_open() {
        let mut known = Known::default();
        let issue = |kind| Issue::new(kind, "try again in 5 minutes");
        let (limit, login) = (issue(IssueKind::UsageLimit), issue(IssueKind::AuthRequired));
        for body in [
            Body::Issue(issue(IssueKind::Overloaded)),
            Body::Issue(limit.clone()),
            Body::lifecycle(GOES_ON, Value::Null),
            Body::IssueCleared(IssueKind::Overloaded),
            Body::Issue(login.clone()),
        ] {
            known.add(Source::Transcript, &body);
        }
        assert_eq!(known.before().issues, [(limit.clone(), true), (login.clone(), false)]);
        assert!(known.has(Source::Transcript, &Body::Issue(limit.clone())), "whatever its time is then");
        // It is met again.
        known.add(Source::Transcript, &Body::Issue(limit.clone()));
        assert_eq!(known.before().issues, [(login, false), (limit, false)]);
        assert_eq!(known.before().told, [], "the transcript is read again");
    }

    #[test]
    fn what_hooks_told_of_the_present_is_told_again() {
        let mut known = Known::default();
        let limit = Issue::new(IssueKind::UsageLimit, "try again in 5 minutes");
        let (begun, ended) = (Body::Status(Status::Processing), Body::event("turn_completed"));
        let told =
            [ended.clone(), begun.clone(), Body::Issue(limit.clone()), ended, Body::Status(Status::Error)];
        told.iter().for_each(|body| known.add(Source::Hook, body));
        let stands = [Fact::Issue(limit.clone()), Fact::TurnCompleted, Fact::Status(Status::Error)];
        assert_eq!(known.before().told, stands);
        // The conversation has it too, and is read once more.
        assert!(known.has(Source::Transcript, &Body::Issue(limit.clone())));
        known.forget(Source::Transcript);
        assert!(!known.has(Source::Transcript, &Body::Issue(limit)));
        known.add(Source::Process, &Body::lifecycle(GOES_ON, Value::Null));
        known.add(Source::Hook, &begun);
        assert_eq!(known.before().told, [Fact::Status(Status::Processing)]);
        known.add(Source::Process, &Body::lifecycle(KEY_PRESSED, Value::Null));
        assert_eq!(known.before().told, [], "a person may have ended its turn");
        known.add(Source::Screen, &Body::Status(Status::Idle));
        assert_eq!(known.before().told, [], "the screen is read again");
    }
}
