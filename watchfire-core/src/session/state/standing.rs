//! State of an agent, from all its sources: hooks, transcript, title and screen. Decides which source counts.

use crate::backend::{Fact, Issue, IssueKind, Source, Status};
use crate::observe::Body;

/// Upper bound for the length of a vendor's session id.
const LONGEST_ID: usize = 128;

/// State of an agent. Pure: a fact becomes a record or nothing.
#[derive(Debug)]
pub(in crate::session) struct Standing {
    status: Status,
    /// The strongest source that reported a status. Weaker ones are ignored until a key is pressed.
    teller: Option<Source>,
    turn: Turn,
    /// True if the end of a turn has to be derived from the status, because no source reports it.
    turns_by_status: bool,
    issues: Vec<Issue>,
    /// Kind and text of issues with which the agent was asked to go on. They may stay on its screen for as long as it likes.
    passed: Vec<(IssueKind, String)>,
    /// The issues that an earlier program knew, for the times that it found.
    known: Vec<Issue>,
    /// True while old observations are read again, which an earlier program has heard. The agent does not meet their issues anew.
    is_repeated: bool,
    /// Number of turns that ended since the sandbox last refused something.
    turns_since_refusal: usize,
    vendor_session: Option<(Source, String)>,
    worked: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Turn {
    Open,
    /// Ended, as first reported by this source. Other sources report the same end later; the same source reports the
    /// end of the next turn.
    Ended(Source),
}

impl Standing {
    /// Returns the state of an agent that has just started. `vendor_session` is the id that we chose, if any. With
    /// `hooks`, these report the end of a turn; otherwise the change from processing to idle does.
    pub(in crate::session) fn new(vendor_session: Option<String>, hooks: bool) -> Self {
        Self {
            status: Status::Starting,
            teller: None,
            turn: Turn::Open,
            turns_by_status: !hooks,
            issues: Vec::new(),
            passed: Vec::new(),
            known: Vec::new(),
            is_repeated: false,
            turns_since_refusal: 0,
            // The weakest source: any other that names an id knows better than our choice.
            vendor_session: vendor_session.map(|id| (Source::Screen, id)),
            worked: false,
        }
    }

    /// Notes that an earlier program saw the agent run.
    pub(in crate::session) fn set_worked(&mut self) {
        self.worked = true;
    }

    pub(in crate::session) fn status(&self) -> Status {
        self.status
    }

    pub(in crate::session) fn vendor_session(&self) -> Option<&str> {
        self.vendor_session.as_ref().map(|(_, id)| id.as_str())
    }

    /// Returns true if it was ever seen at work.
    pub(in crate::session) fn worked(&self) -> bool {
        self.worked
    }

    /// Returns true if another source has reported the end of the turn that `source` reports now.
    pub(in crate::session) fn is_over_for(&self, source: Source) -> bool {
        matches!(self.turn, Turn::Ended(by) if by != source)
    }

    /// Returns true between two turns.
    pub(in crate::session) fn is_turn_over(&self) -> bool {
        matches!(self.turn, Turn::Ended(_))
    }

    /// Listens to every source again. Hooks may not report the effect of a person's keys: no vendor has a hook for an
    /// interrupted turn. Returns whom it listened to alone.
    pub(in crate::session) fn key_pressed(&mut self) -> Option<Source> {
        self.teller.take()
    }

    /// Takes in an issue that an earlier program knew, and whether it had asked the agent to go on with it.
    pub(in crate::session) fn add_known(&mut self, issue: Issue, is_passed: bool) {
        if is_passed && issue.kind.is_blocking() {
            self.passed.push((issue.kind, issue.message.clone()));
        }
        self.known.push(issue);
    }

    /// Says whether what it takes in next is only read again.
    pub(in crate::session) fn set_repeated(&mut self, is_repeated: bool) {
        self.is_repeated = is_repeated;
    }

    /// Returns the open issue of the same kind and text as one that `source` reports.
    pub(in crate::session) fn open(&self, issue: &Issue, source: Source) -> Option<&Issue> {
        let is_same = |open: &&Issue| open.kind == issue.kind && open.message == issue.message;
        let known = self.issues.iter().chain(&self.known).find(is_same);
        known.filter(|_| !self.comes_again(issue, source))
    }

    /// Returns true for an issue with which the agent was asked to go on, and that it has met again. A screen may show the old
    /// one.
    fn comes_again(&self, issue: &Issue, source: Source) -> bool {
        source > Source::Osc && !self.is_repeated && self.is_passed(issue)
    }

    fn is_passed(&self, issue: &Issue) -> bool {
        self.passed.iter().any(|(kind, text)| *kind == issue.kind && *text == issue.message)
    }

    /// Notes that the agent is asked to go on: its issues do not keep it from that any more.
    pub(in crate::session) fn pass(&mut self) {
        let blocking = self.issues.iter().chain(&self.known).filter(|issue| issue.kind.is_blocking());
        self.passed = blocking.map(|issue| (issue.kind, issue.message.clone())).collect();
    }

    /// Returns the open issues that a person should know of now, oldest first: those that block the agent, and a stall.
    pub(in crate::session) fn pressing(&self) -> Vec<Issue> {
        let is_pressing = |issue: &&Issue| issue.kind != IssueKind::SandboxDenied && !self.is_passed(issue);
        self.issues.iter().filter(is_pressing).cloned().collect()
    }

    /// Takes in the facts of one observation: the last status counts, and a turn ends once.
    pub(in crate::session) fn take_all(&mut self, facts: Vec<Fact>, source: Source) -> Vec<Body> {
        let status = facts.iter().rposition(|fact| matches!(fact, Fact::Status(_)));
        let end = facts.iter().position(|fact| *fact == Fact::TurnCompleted);
        // An agent that a login error kept from its first turn also reports the end of one.
        self.worked |= end.is_some() && !facts.contains(&Fact::Status(Status::Error));
        let (mut records, mut last) = (Vec::new(), None);
        for (at, fact) in facts.into_iter().enumerate() {
            match fact {
                Fact::Status(_) if Some(at) == status => last = Some(fact),
                Fact::Status(_) => {}
                Fact::TurnCompleted if Some(at) != end => {}
                fact => records.extend(self.take(fact, source)),
            }
        }
        // A portion of a transcript that is read late holds whole turns. Only the change that it ends with is
        // the present.
        let worked = self.status == Status::Processing && self.turn == Turn::Open;
        let status = last.and_then(|status| self.take(status, source));
        if worked && self.turns_by_status && status == Some(Body::Status(Status::Idle)) {
            records.extend(self.take(Fact::TurnCompleted, source));
        }
        if records.contains(&Body::event("turn_completed")) {
            records.extend(self.expire_refusal(source));
        }
        // After the end of the turn: a waiter for idle then finds the turn counted.
        records.extend(status);
        records
    }

    /// Counts a turn that ended, and clears the denial after a whole turn without one. The turn in which it occurred
    /// may have ended because of it.
    fn expire_refusal(&mut self, source: Source) -> Option<Body> {
        self.turns_since_refusal += 1;
        let over = self.turns_since_refusal > 1;
        over.then(|| self.take(Fact::IssueCleared(IssueKind::SandboxDenied), source)).flatten()
    }

    fn take(&mut self, fact: Fact, source: Source) -> Option<Body> {
        match fact {
            Fact::Status(status) => {
                if self.teller.is_some_and(|teller| source < teller) {
                    return None;
                }
                self.teller = Some(source);
                if status == Status::Processing {
                    self.turn = Turn::Open;
                    self.worked = true;
                }
                (std::mem::replace(&mut self.status, status) != status).then_some(Body::Status(status))
            }
            Fact::TurnCompleted => match self.turn {
                // A second source reports the end that another one has reported first.
                Turn::Ended(by) if by != source => None,
                _ => {
                    self.turn = Turn::Ended(source);
                    Some(Body::event("turn_completed"))
                }
            },
            Fact::VendorSession(id) => {
                // Also refuses ids with characters of a shell or a path: an agent chooses what its transcript
                // says.
                let weaker = self.vendor_session.as_ref().is_some_and(|(by, _)| source < *by);
                if weaker || !is_id(&id) {
                    return None;
                }
                let new = self.vendor_session() != Some(&id);
                let payload = serde_json::json!({ "id": id });
                self.vendor_session = Some((source, id));
                new.then(|| Body::lifecycle("vendor_session", payload))
            }
            Fact::Issue(issue) => {
                if issue.kind == IssueKind::SandboxDenied {
                    self.turns_since_refusal = 0;
                }
                let again = self.comes_again(&issue, source);
                // Screens repeat an issue with each redraw.
                if self.issues.contains(&issue) && !again {
                    return None;
                }
                self.passed.retain(|(kind, text)| *kind != issue.kind || *text == issue.message && !again);
                // The newest wording replaces the older one of its kind, e.g. another time of reset.
                self.issues.retain(|open| open.kind != issue.kind);
                self.issues.push(issue.clone());
                Some(Body::Issue(issue))
            }
            Fact::IssueCleared(kind) => {
                let before = self.issues.len();
                self.issues.retain(|open| open.kind != kind);
                self.passed.retain(|(passed, _)| *passed != kind);
                self.known.retain(|known| known.kind != kind);
                (self.issues.len() < before).then_some(Body::IssueCleared(kind))
            }
        }
    }
}

/// Returns true if `id` is safe in command lines and file names.
fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
        // A leading dash would be an option, a leading dot could leave the folder.
        && !id.starts_with(['-', '.'])
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: Status) -> Vec<Fact> {
        vec![Fact::Status(status)]
    }

    #[test]
    fn a_weaker_source_never_overrides_a_stronger_one() {
        let mut standing = Standing::new(None, true);
        assert_eq!(standing.take_all(status(Status::Idle), Source::Screen), [Body::Status(Status::Idle)]);
        standing.take_all(status(Status::Processing), Source::Hook);
        for source in [Source::Screen, Source::Osc, Source::Transcript] {
            assert_eq!(standing.take_all(status(Status::Idle), source), []);
        }
        assert_eq!(standing.status(), Status::Processing);
        assert_eq!(standing.take_all(status(Status::Idle), Source::Hook), [Body::Status(Status::Idle)]);
        assert_eq!(standing.take_all(status(Status::Idle), Source::Protocol), []);
    }

    #[test]
    fn after_a_key_all_are_heard_again() {
        let mut standing = Standing::new(None, true);
        standing.take_all(status(Status::Processing), Source::Hook);
        standing.key_pressed();
        assert_eq!(standing.take_all(status(Status::Idle), Source::Screen), [Body::Status(Status::Idle)]);
    }

    #[test]
    fn a_turn_ends_once_whoever_says_so() {
        let mut standing = Standing::new(None, true);
        let mut ends =
            |source| standing.take_all(vec![Fact::TurnCompleted, Fact::TurnCompleted], source).len();
        assert_eq!([ends(Source::Hook), ends(Source::Transcript)], [1, 0]);
        // The next turn, too short for anyone to have seen it begin.
        assert_eq!([ends(Source::Hook), ends(Source::Transcript)], [1, 0]);
        standing.take_all(status(Status::Processing), Source::Hook);
        let mut ends = |source| standing.take_all(vec![Fact::TurnCompleted], source).len();
        assert_eq!([ends(Source::Transcript), ends(Source::Hook)], [1, 0]);
    }

    #[test]
    fn a_turn_is_over_for_those_who_report_its_end_later() {
        let mut standing = Standing::new(None, true);
        assert!(!standing.is_over_for(Source::Hook), "it has not ended");
        standing.take_all(vec![Fact::TurnCompleted], Source::Transcript);
        assert!(standing.is_over_for(Source::Hook));
        assert!(!standing.is_over_for(Source::Transcript), "it would report the end of the next one");
        standing.take_all(status(Status::Processing), Source::Screen);
        assert!(!standing.is_over_for(Source::Hook));
    }

    #[test]
    fn a_whole_turn_read_late_is_no_second_turn() {
        let mut standing = Standing::new(None, true);
        standing.take_all(vec![Fact::TurnCompleted], Source::Hook);
        let late = vec![Fact::Status(Status::Processing), Fact::TurnCompleted, Fact::Status(Status::Idle)];
        assert_eq!(standing.take_all(late, Source::Transcript), [Body::Status(Status::Idle)]);
    }

    #[test]
    fn without_hooks_the_status_tells_the_end_of_a_turn() {
        let mut standing = Standing::new(None, false);
        let idle = || Body::Status(Status::Idle);
        assert_eq!(standing.take_all(status(Status::Idle), Source::Screen), [idle()], "its first");
        for _ in 0..2 {
            standing.take_all(status(Status::Processing), Source::Screen);
            let ended = [Body::event("turn_completed"), idle()];
            assert_eq!(standing.take_all(status(Status::Idle), Source::Screen), ended);
            assert_eq!(standing.take_all(vec![Fact::TurnCompleted], Source::Transcript), []);
        }
        standing.take_all(status(Status::Processing), Source::Protocol);
        let said = vec![Fact::Status(Status::Idle), Fact::TurnCompleted];
        assert_eq!(standing.take_all(said, Source::Protocol).len(), 2, "it says so itself");
    }

    #[test]
    fn an_issue_is_told_once_and_cleared_once() {
        let mut standing = Standing::new(None, true);
        let issue = Issue::new(IssueKind::RateLimited, "slow down");
        let mut take = |fact: Fact| standing.take_all(vec![fact], Source::Screen).len();
        assert_eq!([take(Fact::Issue(issue.clone())), take(Fact::Issue(issue))], [1, 0]);
        let cleared = Fact::IssueCleared(IssueKind::RateLimited);
        assert_eq!([take(cleared.clone()), take(cleared)], [1, 0]);
    }

    #[test]
    fn a_refusal_blocks_no_agent() {
        let mut standing = Standing::new(None, true);
        let kinds = [IssueKind::SandboxDenied, IssueKind::AuthRequired];
        standing.take_all(kinds.map(|kind| Fact::Issue(Issue::new(kind, "x"))).into(), Source::Screen);
        assert_eq!(standing.pressing(), [Issue::new(IssueKind::AuthRequired, "x")]);
    }

    #[test]
    fn a_refusal_is_over_when_a_turn_gets_by_without() {
        let mut standing = Standing::new(None, true);
        let mut take = |fact: Fact| {
            let records = standing.take_all(vec![fact], Source::Transcript);
            records.iter().filter(|it| matches!(it, Body::Issue(_) | Body::IssueCleared(_))).count()
        };
        let refused = |path: &str| Fact::Issue(Issue::new(IssueKind::SandboxDenied, path));
        let end = || Fact::TurnCompleted;
        let said: Vec<usize> = [
            (refused("/a"), 1),
            // The turn in which it happened, and the next one, in which the same happens again.
            (end(), 0),
            (refused("/a"), 0),
            (end(), 0),
            (refused("/b"), 1),
            (end(), 0),
            (end(), 1),
            (end(), 0),
            (refused("/b"), 1),
        ]
        .map(|(fact, expected)| take(fact).abs_diff(expected))
        .into();
        assert_eq!(said, [0; 9]);
    }

    fn limit() -> Issue {
        Issue::new(IssueKind::UsageLimit, "resets in 8s")
    }

    #[test]
    fn an_issue_with_which_the_agent_goes_on_counts_when_it_is_met_again() {
        let mut standing = Standing::new(None, true);
        standing.take_all(vec![Fact::Issue(limit())], Source::Osc);
        standing.pass();
        assert_eq!(standing.pressing(), []);
        // It is still on the screen.
        assert_eq!(standing.take_all(vec![Fact::Issue(limit())], Source::Screen), []);
        assert_eq!((standing.pressing(), standing.open(&limit(), Source::Screen)), (vec![], Some(&limit())));
        assert_eq!(standing.open(&limit(), Source::Protocol), None, "it has another end");
        assert_eq!(standing.take_all(vec![Fact::Issue(limit())], Source::Protocol), [Body::Issue(limit())]);
        assert_eq!(standing.pressing(), [limit()]);

        standing.pass();
        let other = Issue::new(IssueKind::UsageLimit, "resets in 9s");
        standing.take_all(vec![Fact::Issue(other.clone())], Source::Screen);
        assert_eq!(standing.pressing(), [other]);
    }

    #[test]
    fn an_issue_that_an_earlier_program_knew_keeps_its_end() {
        let mut standing = Standing::new(None, true);
        standing.add_known(limit(), false);
        assert_eq!((standing.pressing(), standing.open(&limit(), Source::Screen)), (vec![], Some(&limit())));
        // The agent was asked to go on before its screen was read again.
        standing.pass();
        standing.take_all(vec![Fact::Issue(limit())], Source::Screen);
        assert_eq!(standing.pressing(), []);
    }

    #[test]
    fn an_issue_with_which_an_earlier_program_let_it_go_on_counts_when_it_is_met_again() {
        let mut standing = Standing::new(None, true);
        standing.add_known(limit(), true);
        standing.set_repeated(true);
        for source in [Source::Screen, Source::Transcript] {
            assert_eq!(standing.open(&limit(), source), Some(&limit()));
            standing.take_all(vec![Fact::Issue(limit())], source);
            assert_eq!(standing.pressing(), []);
        }
        standing.set_repeated(false);
        assert_eq!(standing.open(&limit(), Source::Transcript), None, "it has another end");
        standing.take_all(vec![Fact::Issue(limit())], Source::Transcript);
        assert_eq!(standing.pressing(), [limit()]);
    }

    #[test]
    fn ids_are_plain_and_the_stronger_one_stays() {
        let mut standing = Standing::new(Some("chosen".into()), true);
        let mut take = |id: &str, source| {
            standing.take_all(vec![Fact::VendorSession(id.into())], source);
            standing.vendor_session().unwrap().to_owned()
        };
        for id in ["", "../../x", "-rf", "a b", &"x".repeat(200)] {
            assert_eq!(take(id, Source::Protocol), "chosen");
        }
        assert_eq!(take("01a1-fffe", Source::Transcript), "01a1-fffe");
        assert_eq!(take("other", Source::Screen), "01a1-fffe");
    }
}
