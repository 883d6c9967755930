use proptest::prelude::*;

use super::*;
use crate::model::TaskNumber;

fn at(second: i64) -> Timestamp {
    Timestamp::from_unix_millis(1_000_000_000_000 + second * 1000)
}

/// Session `life` of task `task`; each has a session of its own.
fn party(task: u32, life: u32) -> Party {
    Party::Session {
        session: format!("s{task}-{life}").parse().unwrap(),
        alias: format!("alias-{task}").parse().unwrap(),
        task: TaskNumber::new(task),
    }
}

fn ask(from: &Party, to: &Party, text: &str) -> Ask {
    let (from, to) = (from.clone(), to.clone());
    Ask { from, to, text: text.to_owned(), deadline: at(100), call: None, salt: 0 }
}

fn session(party: &Party) -> SessionId {
    party.session().unwrap().clone()
}

#[test]
fn only_the_one_asked_answers_and_once() {
    let [a, b, c] = [1, 2, 3].map(|task| party(task, 1));
    let mut book = Book::default();
    let id = book.ask(&at(0), ask(&a, &b, "which port?")).unwrap().id;
    assert_eq!(id, "q1-0000");
    let code = |result: Result<Inquiry>| result.unwrap_err().code();
    assert_eq!(code(book.answer(&c, &id, "80")), "unauthorized");
    assert_eq!(code(book.answer(&a, &id, "80")), "unauthorized", "nor the one that asks");
    assert_eq!(code(book.answer(&b, "q9-0000", "80")), "not_found");
    assert_eq!(code(book.answer(&b, &id, " ")), "invalid_input");
    book.answer(&b, &id, "80").unwrap();
    book.answer(&b, &id, "80").unwrap();
    assert_eq!(code(book.answer(&b, &id, "81")), "already_answered");
    assert_eq!(code(book.answer(&c, &id, "81")), "unauthorized", "a foreigner learns nothing of its state");
    let Some(Item::End(end)) = book.items(&session(&a), false).next() else { panic!("an answer") };
    assert_eq!(
        end.state,
        InquiryState::Answered { text: "80".into(), by_person: false, status: AnswerStatus::Done }
    );
    book.given(&Item::End(end));
    assert_eq!(book.items(&session(&a), true).next(), None);
}

#[test]
fn a_late_answer_is_told_that_it_is_late() {
    let [a, b] = [1, 2].map(|task| party(task, 1));
    let mut book = Book::default();
    let id = book.ask(&at(0), ask(&a, &b, "?")).unwrap().id;
    book.expire(&at(99));
    assert!(book.find(&id).unwrap().is_pending());
    book.expire(&at(100));
    assert_eq!(book.answer(&b, &id, "x").unwrap_err().code(), "expired");
    let second = book.ask(&at(0), ask(&a, &b, "?")).unwrap().id;
    book.ended(|it| it == &a);
    assert_eq!(book.answer(&b, &second, "x").unwrap_err().code(), "target_off");
    assert_eq!(book.items(&session(&b), true).next(), None, "nobody waits for it any more");
}

#[test]
fn a_circle_is_refused_and_shown() {
    let [a, b, c] = [1, 2, 3].map(|task| party(task, 1));
    let mut book = Book::default();
    let first = book.ask(&at(0), ask(&a, &b, "?")).unwrap().id;
    book.ask(&at(0), ask(&b, &c, "?")).unwrap();
    let error = book.ask(&at(0), ask(&c, &a, "?")).unwrap_err();
    assert_eq!(error.code(), "cycle");
    let shown = "alias-3 (task #0003) → alias-1 (task #0001) → alias-2 (task #0002) → alias-3 (task #0003)";
    assert_eq!(error.detail("cycle"), Some(shown));
    assert_eq!(book.ask(&at(0), ask(&a, &a, "?")).unwrap_err().code(), "cycle", "of one");
    book.answer(&b, &first, "yes").unwrap();
    book.ask(&at(0), ask(&c, &a, "?")).unwrap();
    for _ in 0..2 {
        book.ask(&at(0), ask(&Party::Person, &a, "the person may ask everyone")).unwrap();
    }
}

#[test]
fn the_successor_of_a_session_takes_its_place() {
    let [a, b, again, other] = [party(1, 1), party(2, 1), party(2, 2), party(3, 2)];
    let mut book = Book::default();
    let inquiry = book.ask(&at(0), ask(&a, &b, "?")).unwrap();
    book.given(&Item::Question(inquiry.clone()));
    book.began(&other);
    assert_eq!(book.items(&session(&other), true).next(), None);
    book.began(&again);
    assert_eq!(book.answer(&b, &inquiry.id, "x").unwrap_err().code(), "unauthorized");
    assert!(
        matches!(book.items(&session(&again), false).next(), Some(Item::Question(_))),
        "it was not given to this one"
    );
    book.answer(&again, &inquiry.id, "x").unwrap();
}

#[test]
fn the_same_call_makes_one_inquiry_and_a_flood_is_bounded() {
    let [a, b, c] = [1, 2, 3].map(|task| party(task, 1));
    let mut book = Book::default();
    let once = Ask { call: Some("c1".to_owned()), ..ask(&a, &b, "?") };
    let id = book.ask(&at(0), once.clone()).unwrap().id;
    assert_eq!(book.ask(&at(1), once).unwrap().id, id);
    for _ in 1..OPEN_TO_ONE {
        book.ask(&at(0), ask(&a, &b, "?")).unwrap();
    }
    let code = |book: &mut Book, of: Ask| book.ask(&at(0), of).map_err(|error| error.code()).err();
    assert_eq!(code(&mut book, ask(&a, &b, "?")), Some("busy"));
    assert_eq!(code(&mut book, ask(&a, &c, &"x".repeat(LONGEST + 1))), Some("invalid_input"));
    assert_eq!(code(&mut book, ask(&c, &b, "?")), None, "another is not kept out");
    for other in 10..10 + (OPEN - OPEN_TO_ONE) as u32 {
        assert_eq!(code(&mut book, ask(&a, &party(other, 1), "?")), None);
    }
    assert_eq!(code(&mut book, ask(&a, &party(90, 1), "?")), Some("busy"));
    for task in 100..100 + OPEN as u32 {
        let _ = book.ask(&at(0), ask(&party(task, 1), &b, "?"));
    }
    assert_eq!(code(&mut book, ask(&party(99, 1), &b, "?")), Some("busy"));
    assert_eq!(code(&mut book, ask(&Party::Person, &b, "?")), None, "the person always gets through");
}

#[test]
fn who_asks_without_end_loses_only_its_own() {
    let [a, b, c] = [1, 2, 3].map(|task| party(task, 1));
    let mut book = Book::default();
    let quiet = book.ask(&at(0), ask(&c, &b, "?")).unwrap().id;
    book.answer(&b, &quiet, "yes").unwrap();
    let mut last = String::new();
    for _ in 0..KEPT[1] + 50 {
        last = book.ask(&at(0), ask(&a, &b, "?")).unwrap().id;
        book.answer(&b, &last, "y").unwrap();
    }
    let (changed, removed) = book.take_changes();
    assert!(changed.len() <= KEPT[0] + 3 && removed.len() >= 50, "{} {}", changed.len(), removed.len());
    assert!(book.find(&quiet).is_ok() && book.find(&last).is_ok());
    // A time that is over at once would be a way around the bound of open ones.
    let at_once = Ask { deadline: at(0), ..ask(&a, &b, "?") };
    book.ask(&at(0), at_once).unwrap();
    book.expire(&at(0));
    assert_eq!(book.pending().count(), 1);
}

#[test]
fn what_has_ended_is_bounded_by_its_size_too() {
    let [a, b] = [1, 2].map(|task| party(task, 1));
    let mut book = Book::default();
    let long = "x".repeat(LONGEST);
    for _ in 0..60 {
        let id = book.ask(&at(0), ask(&a, &b, &long)).unwrap().id;
        book.answer(&b, &id, &long).unwrap();
    }
    let kept: usize = book.all().map(|it| it.text.len()).sum();
    assert!(kept <= KEPT_BYTES[0], "{kept}");
    assert!(book.find("q60-0000").is_ok() && book.find("q1-0000").is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u32, u32),
    Answer(u32, usize),
    Began(u32),
    Ended(u32),
    Given(u32),
    Pass(i64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let who = 1..5_u32;
    prop_oneof![
        4 => (who.clone(), who.clone()).prop_map(|(from, to)| Step::Ask(from, to)),
        4 => (who.clone(), 0..20_usize).prop_map(|(by, which)| Step::Answer(by, which)),
        1 => who.clone().prop_map(Step::Began),
        1 => who.clone().prop_map(Step::Ended),
        2 => who.prop_map(Step::Given),
        1 => (1..40_i64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
    ]
}

/// Returns true if following open inquiries leads back to some session.
fn has_cycle(book: &Book) -> bool {
    let edges: Vec<_> = book.pending().map(|it| (session(&it.from), session(&it.to))).collect();
    let mut left: BTreeSet<_> = edges.iter().flat_map(|(a, b)| [a, b]).collect();
    while let Some(leaf) =
        left.iter().copied().find(|it| edges.iter().all(|(a, b)| a != *it || !left.contains(b)))
    {
        left.remove(leaf);
    }
    !left.is_empty()
}

proptest! {
    #[test]
    fn whatever_happens_the_book_is_sound(steps in prop::collection::vec(step(), 1..120)) {
        let mut book = Book::default();
        let mut disk: BTreeMap<String, Inquiry> = BTreeMap::new();
        let mut lives = [1_u32; 5];
        let (mut now, mut ids) = (0, Vec::new());
        // The end of each inquiry, once it has one.
        let mut ends: BTreeMap<String, InquiryState> = BTreeMap::new();
        for step in steps {
            let at_now = at(now);
            book.expire(&at_now);
            match step {
                Step::Ask(from, to) => {
                    let (from, to) = (party(from, lives[from as usize]), party(to, lives[to as usize]));
                    let asked = Ask { deadline: at(now + 30), ..ask(&from, &to, "?") };
                    if let Ok(inquiry) = book.ask(&at_now, asked) {
                        ids.push(inquiry.id);
                    }
                }
                Step::Answer(by, which) => {
                    let Some(id) = ids.get(which) else { continue };
                    let (by, before) = (party(by, lives[by as usize]), book.find(id).unwrap().clone());
                    let answered = book.answer(&by, id, "text");
                    let is_allowed = before.to == by && (before.is_pending() || matches!(before.state, InquiryState::Answered { .. }));
                    prop_assert_eq!(answered.is_ok(), is_allowed);
                    prop_assert!(!before.is_pending() || before.deadline > at_now);
                }
                Step::Began(who) => {
                    lives[who as usize] += 1;
                    book.began(&party(who, lives[who as usize]));
                }
                Step::Ended(who) => {
                    let gone = party(who, lives[who as usize]);
                    book.ended(|it| session(it) == session(&gone));
                }
                Step::Given(who) => {
                    let who = session(&party(who, lives[who as usize]));
                    let first = book.items(&who, false).next();
                    if let Some(item) = first {
                        let oldest = book.items(&who, false).map(|it| it.inquiry().number).min();
                        prop_assert_eq!(Some(item.inquiry().number), oldest, "the oldest first");
                        book.given(&item);
                        prop_assert!(book.items(&who, false).all(|it| it != item), "given once");
                    }
                }
                Step::Pass(seconds) => now += seconds,
                Step::Reload => book = Book::of(disk.values().cloned()),
            }
            let (changed, removed) = book.take_changes();
            removed.iter().for_each(|id| drop(disk.remove(id)));
            for inquiry in changed {
                let text = serde_json::to_string(&inquiry).unwrap();
                disk.insert(inquiry.id.clone(), serde_json::from_str(&text).unwrap());
            }
            prop_assert!(!has_cycle(&book));
            for id in &ids {
                let state = &book.find(id).unwrap().state;
                match ends.get(id) {
                    Some(end) => prop_assert_eq!(end, state, "an end is final"),
                    None if *state != InquiryState::Pending => drop(ends.insert(id.clone(), state.clone())),
                    None => {}
                }
            }
        }
    }
}
