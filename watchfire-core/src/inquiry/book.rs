//! All inquiries of one project, and what may happen to them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::record::{AnswerStatus, Inquiry, InquiryState, Party};
use crate::model::{SessionId, Timestamp};
use crate::{Error, ErrorKind, Result};

/// Upper bound for the length of a text, in bytes. More belongs into a file of the project.
pub(super) const LONGEST: usize = 256 << 10;
/// Upper bound for the open inquiries of one session, and for those to one session.
const OPEN: usize = 32;
/// Upper bound for the open inquiries of one session to one other: no agent takes the places of the rest.
const OPEN_TO_ONE: usize = 4;
/// Number of ended inquiries that are kept, of one asker and of all. Without them, a late or a second answer would look like one to
/// an unknown inquiry.
const KEPT: [usize; 2] = [128, 512];
/// Upper bound for their texts together, in bytes, of one asker and of all.
const KEPT_BYTES: [usize; 2] = [2 << 20, 8 << 20];
/// Shortest time for an answer, so that questions which end at once are no way to flood.
const SHORTEST: Duration = Duration::from_secs(1);

/// A request for an inquiry.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) text: String,
    pub(crate) deadline: Timestamp,
    /// Id of the agent's call.
    pub(crate) call: Option<String>,
    /// End of the id, which keeps ids of a book that was lost from being used again.
    pub(crate) salt: u16,
}

/// An inquiry that a session has to hear about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Item {
    /// Another asks the session.
    Question(Inquiry),
    /// An inquiry of the session has ended.
    End(Inquiry),
}

impl Item {
    pub(crate) fn inquiry(&self) -> &Inquiry {
        match self {
            Self::Question(inquiry) | Self::End(inquiry) => inquiry,
        }
    }
}

/// The inquiries of a project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    /// Shared, so that a copy of the book costs little.
    inquiries: BTreeMap<u64, Arc<Inquiry>>,
    /// Numbers of the inquiries that changed since the last [`take_changes`](Self::take_changes).
    changed: BTreeSet<u64>,
    /// Ids of the inquiries that were removed since then.
    removed: Vec<String>,
}

impl Book {
    /// Creates a book from stored inquiries. If two have the same number, the later one stays.
    pub(super) fn of(kept: impl IntoIterator<Item = Inquiry>) -> Self {
        let inquiries = kept.into_iter().map(|inquiry| (inquiry.number, Arc::new(inquiry))).collect();
        Self { inquiries, ..Self::default() }
    }

    /// Opens an inquiry, or returns the one that the same call has opened.
    ///
    /// # Errors
    /// `invalid_input` for a text that is empty or too long; `cycle` if the one that is asked waits for the one that asks;
    /// `busy` at the limit of open inquiries.
    pub(crate) fn ask(&mut self, now: &Timestamp, ask: Ask) -> Result<Inquiry> {
        let Ask { from, to, text, deadline, call, salt } = ask;
        // A call that is taken up again after a restart. It must not ask twice.
        if let Some(known) = call.as_ref().and_then(|call| self.of_call(&from, call)) {
            return Ok(known.clone());
        }
        check(&text)?;
        if let Some(cycle) = self.cycle(&from, &to) {
            let shown: Vec<_> = cycle.iter().map(ToString::to_string).collect();
            return Err(Error::new(ErrorKind::Cycle, "the one that is asked waits for the one that asks")
                .with("cycle", shown.join(" → "))
                .with("hint", "answer what you were asked first: watchfire-agent listen"));
        }
        // For each side: an agent that asks in a loop stops itself, and floods no other.
        let open = |is: &dyn Fn(&Inquiry) -> bool| self.pending().filter(|it| is(it)).count();
        let (own, to_it) = (open(&|it| it.from == from), open(&|it| it.to == to));
        let limit = match from {
            // Who waits for an answer at a terminal asks one question at a time.
            Party::Person => None,
            Party::Session { .. } if open(&|it| it.from == from && it.to == to) >= OPEN_TO_ONE => {
                Some(OPEN_TO_ONE)
            }
            Party::Session { .. } => (own >= OPEN || to_it >= OPEN).then_some(OPEN),
        };
        if let Some(limit) = limit {
            return Err(Error::new(ErrorKind::Busy, "too many questions are open").with("limit", limit));
        }
        let deadline = deadline.max(now.plus(SHORTEST));
        // After the highest, not by their count: the oldest are removed in time.
        let number = self.inquiries.last_key_value().map_or(1, |(number, _)| number + 1);
        let inquiry = Inquiry {
            id: format!("q{number}-{salt:04x}"),
            number,
            from,
            to,
            text,
            asked_at: now.clone(),
            deadline,
            state: InquiryState::Pending,
            call,
            shown: false,
            told: false,
        };
        self.inquiries.insert(number, Arc::new(inquiry.clone()));
        self.changed.insert(number);
        self.prune();
        Ok(inquiry)
    }

    /// Returns the inquiry that an earlier take of this call has opened.
    pub(crate) fn of_call(&self, from: &Party, call: &str) -> Option<&Inquiry> {
        self.all().find(|it| it.call.as_deref() == Some(call) && it.from == *from)
    }

    /// Answers an inquiry and returns it. The same answer again changes nothing.
    ///
    /// # Errors
    /// `not_found` for an unknown one; `unauthorized` if another is asked; `already_answered` for a second answer; `expired`
    /// after its deadline; `target_off` if the one that asked has ended.
    pub(crate) fn answer(&mut self, by: &Party, id: &str, text: &str) -> Result<Inquiry> {
        self.answer_as(by, id, text, AnswerStatus::Done)
    }

    /// Answers as [`answer`](Self::answer) does, with what became of a request.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn answer_as(
        &mut self,
        by: &Party,
        id: &str,
        text: &str,
        status: AnswerStatus,
    ) -> Result<Inquiry> {
        let inquiry = self.find(id)?;
        let told = |kind, message: &'static str| Err(Error::new(kind, message).with("id", id));
        // First, so that one who is not asked learns nothing about it.
        if inquiry.to != *by && *by != Party::Person {
            return told(ErrorKind::Unauthorized, "another was asked");
        }
        check(text)?;
        match &inquiry.state {
            InquiryState::Pending => {}
            // The reply to the first try was lost.
            InquiryState::Answered { text: earlier, .. } if earlier == text => return Ok(inquiry.clone()),
            InquiryState::Answered { .. } => {
                return told(ErrorKind::AlreadyAnswered, "it has another answer already");
            }
            InquiryState::Expired => {
                return told(ErrorKind::Expired, "the answer is too late: its time is over");
            }
            InquiryState::TargetOff => {
                return told(ErrorKind::Expired, "the answer is too late: it was given up");
            }
            InquiryState::Withdrawn => {
                return told(ErrorKind::TargetOff, "the one that asked has ended, or no longer waits");
            }
        }
        let number = inquiry.number;
        // The person may answer for any agent. The one that asked has to know whose words these are.
        let by_person = *by == Party::Person && inquiry.to != Party::Person;
        self.set(number, InquiryState::Answered { text: text.to_owned(), by_person, status });
        self.find(id).cloned()
    }

    /// Ends the inquiries whose deadline has passed.
    pub(crate) fn expire(&mut self, now: &Timestamp) {
        let late: Vec<_> = self.pending().filter(|it| it.deadline <= *now).map(|it| it.number).collect();
        late.into_iter().for_each(|number| self.set(number, InquiryState::Expired));
    }

    /// Takes back an open inquiry whose asker no longer waits for it.
    pub(crate) fn withdraw(&mut self, id: &str) {
        let number = self.pending().find(|it| it.id == id).map(|it| it.number);
        number.into_iter().for_each(|number| self.set(number, InquiryState::Withdrawn));
    }

    /// Takes back the open inquiries of the person, who waited in a program that has ended.
    pub(super) fn withdraw_of_person(&mut self) {
        let asked = self.pending().filter(|it| it.from == Party::Person).map(|it| it.number);
        asked.collect::<Vec<_>>().into_iter().for_each(|number| self.set(number, InquiryState::Withdrawn));
    }

    /// Replaces the earlier session of a task by the one that begins, in all inquiries. The alias has to be the same, too.
    pub(crate) fn began(&mut self, party: &Party) {
        let concerned = |it: &Arc<Inquiry>| it.from.goes_on_as(party) || it.to.goes_on_as(party);
        for (number, inquiry) in self.inquiries.iter_mut().filter(|(_, it)| concerned(it)) {
            let inquiry = Arc::make_mut(inquiry);
            for (side, seen) in
                [(&mut inquiry.from, &mut inquiry.told), (&mut inquiry.to, &mut inquiry.shown)]
            {
                if side != party && side.goes_on_as(party) {
                    side.clone_from(party);
                    // Of a question, another conversation knows nothing. An end that was told is over.
                    *seen &= inquiry.state != InquiryState::Pending;
                    self.changed.insert(*number);
                }
            }
        }
    }

    /// Ends the open inquiries from and to whom it `concerns`.
    pub(crate) fn ended(&mut self, concerns: impl Fn(&Party) -> bool) {
        let gone: Vec<_> = self
            .pending()
            .filter_map(|it| match (concerns(&it.from), concerns(&it.to)) {
                // The asking side first: without it, no answer is of use.
                (true, _) => Some((it.number, InquiryState::Withdrawn)),
                (_, true) => Some((it.number, InquiryState::TargetOff)),
                _ => None,
            })
            .collect();
        gone.into_iter().for_each(|(number, state)| self.set(number, state));
    }

    /// Returns the inquiry with this id.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) fn find(&self, id: &str) -> Result<&Inquiry> {
        let found = self.all().find(|inquiry| inquiry.id == id);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no such question").with("id", id))
    }

    /// Yields everything that a session has not been given, oldest first: questions to it, and ends of those that it asked. With
    /// `again`, a pending question counts although it was given.
    pub(crate) fn items(&self, session: &SessionId, again: bool) -> impl Iterator<Item = Item> {
        self.all().filter_map(move |it| {
            if it.is_pending() && it.to.session() == Some(session) && (again || !it.shown) {
                return Some(Item::Question(it.clone()));
            }
            let has_ended = !it.is_pending() && !it.told && it.state != InquiryState::Withdrawn;
            (has_ended && it.from.session() == Some(session)).then(|| Item::End(it.clone()))
        })
    }

    /// Yields the open inquiries, oldest first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Inquiry> {
        self.all().filter(|inquiry| inquiry.is_pending())
    }

    /// Returns true if the deadline of an open inquiry has passed.
    pub(super) fn is_due(&self, now: &Timestamp) -> bool {
        self.pending().any(|it| it.deadline <= *now)
    }

    fn all(&self) -> impl Iterator<Item = &Inquiry> {
        self.inquiries.values().map(|inquiry| &**inquiry)
    }

    /// Notes that a session was given something.
    pub(crate) fn given(&mut self, item: &Item) {
        let Some(inquiry) = self.inquiries.get_mut(&item.inquiry().number).map(Arc::make_mut) else { return };
        let seen = match item {
            Item::Question(_) => &mut inquiry.shown,
            Item::End(_) => &mut inquiry.told,
        };
        // Written only when it changes, because every `listen` comes here.
        if !std::mem::replace(seen, true) {
            self.changed.insert(inquiry.number);
        }
    }

    /// Takes the inquiries that changed, and the ids of those that were removed.
    pub(super) fn take_changes(&mut self) -> (Vec<Inquiry>, Vec<String>) {
        let changed = std::mem::take(&mut self.changed);
        let changed = changed.iter().filter_map(|number| Some((**self.inquiries.get(number)?).clone()));
        (changed.collect(), std::mem::take(&mut self.removed))
    }

    fn set(&mut self, number: u64, state: InquiryState) {
        if let Some(inquiry) = self.inquiries.get_mut(&number) {
            Arc::make_mut(inquiry).state = state;
            self.changed.insert(number);
        }
    }

    /// Returns the parties of the circle that `from` asking `to` would close, from `from` back to itself.
    fn cycle(&self, from: &Party, to: &Party) -> Option<Vec<Party>> {
        // Follows the open questions from the one that is asked. If they lead back, both sides would wait for each other.
        let mut paths = vec![vec![from.clone(), to.clone()]];
        let mut seen: Vec<Party> = Vec::new();
        while let Some(path) = paths.pop() {
            let Some(last) = path.last().filter(|last| !seen.contains(last)).cloned() else { continue };
            // The person waits for many, and nobody for the person: what agents ask a person is no inquiry.
            if last == *from && last != Party::Person {
                return Some(path);
            }
            for next in self.pending().filter(|it| it.from == last) {
                paths.push(path.iter().cloned().chain([next.to.clone()]).collect());
            }
            seen.push(last);
        }
        None
    }

    fn prune(&mut self) {
        // Of each asker by itself, and of all: an agent that asks without end loses its own.
        let (mut all, mut own, mut excess) = (Kept::default(), BTreeMap::<_, Kept>::new(), Vec::new());
        // Newest first. Open questions do not count: each has someone waiting for it.
        for inquiry in self.inquiries.values().rev().filter(|it| !it.is_pending()) {
            let answer = match &inquiry.state {
                InquiryState::Answered { text, .. } => text.len(),
                _ => 0,
            };
            let bytes = inquiry.text.len() + answer;
            let is_within = own.entry(inquiry.from.session()).or_default().add(bytes, 0);
            if !is_within || !all.add(bytes, 1) {
                excess.push(inquiry.number);
            }
        }
        for number in excess {
            self.removed.extend(self.inquiries.remove(&number).map(|inquiry| inquiry.id.clone()));
            // It may have changed and gone in one step, and would be written again.
            self.changed.remove(&number);
        }
    }
}

/// Number and bytes of inquiries that are kept.
#[derive(Default)]
struct Kept(usize, usize);

impl Kept {
    /// Adds one, and returns true while the bound number `of` holds.
    fn add(&mut self, bytes: usize, of: usize) -> bool {
        (self.0, self.1) = (self.0 + 1, self.1 + bytes);
        KEPT.get(of).is_some_and(|most| self.0 <= *most)
            && KEPT_BYTES.get(of).is_some_and(|most| self.1 <= *most)
    }
}

fn check(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "the text is empty"));
    }
    if text.len() > LONGEST {
        return Err(Error::new(ErrorKind::InvalidInput, "the text is too long")
            .with("limit", LONGEST)
            .with("hint", "commit it as a file and name the file"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
