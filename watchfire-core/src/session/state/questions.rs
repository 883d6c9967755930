//! Questions of an agent and their answers.

use crate::model::Question;
use crate::{Error, ErrorKind, Result};

/// Upper bound for the questions that are kept. At the limit, the oldest answered one is dropped.
const KEPT: usize = 64;
/// Upper bound for a question, in characters. The rest is cut off.
const LONGEST: usize = 16 * 1024;

/// Place of a question that a person has answered, as it was before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::session) enum Place {
    /// The agent asks it.
    Open,
    /// It has this answer already.
    Answered,
    /// It was withdrawn meanwhile, or this program has not read it yet.
    Unknown,
    /// The same, and the agent asks another question by its id now.
    Taken,
}

/// All questions that an agent asked in one session. Pure.
#[derive(Debug, Default)]
pub(in crate::session) struct Questions(Vec<Asked>);

#[derive(Debug)]
struct Asked {
    question: Question,
    answer: Option<String>,
    /// True for a question in `signal.json`, which stands there as long as it is asked.
    in_file: bool,
}

impl Asked {
    fn mark(&mut self, text: &str) -> Result<Place> {
        match &self.answer {
            None => {
                self.answer = Some(text.to_owned());
                Ok(Place::Open)
            }
            Some(earlier) if earlier == text => Ok(Place::Answered),
            Some(_) => Err(Error::new(ErrorKind::Conflict, "the question has another answer already")
                .with("question", &self.question.id)),
        }
    }
}

impl Questions {
    /// Returns the questions that were answered before this program took the session over.
    pub(in crate::session) fn answered(answers: impl IntoIterator<Item = (Question, String)>) -> Self {
        let asked = |(question, answer)| Asked {
            question: shortened(question),
            answer: Some(answer),
            in_file: false,
        };
        Self(answers.into_iter().map(asked).collect())
    }

    /// Adds a question and returns true if it is new. The same id with the same text is the same question, also after
    /// its answer: `signal.json` keeps its questions until the agent rewrites it. The same id with another text is a
    /// new question.
    pub(in crate::session) fn ask(&mut self, question: Question, in_file: bool) -> bool {
        let question = shortened(question);
        // Also one whose id was used again since: taken over, a session is told of all its questions once more.
        if self.0.iter().any(|asked| asked.question == question) {
            return false;
        }
        // Those that are answered stay: they may be asked again, in the file or by a program that is told of them once more.
        self.0.retain(|asked| asked.question.id != question.id || asked.answer.is_some());
        if self.0.len() >= KEPT {
            // A flood of questions is cut off at the newest. An open one is never dropped: its life waits for
            // the answer.
            let Some(answered) = self.0.iter().position(|asked| asked.answer.is_some()) else { return false };
            self.0.remove(answered);
        }
        self.0.push(Asked { question, answer: None, in_file });
        true
    }

    /// Takes back the open questions that `signal.json` no longer holds, and returns their ids: the agent has rewritten
    /// the file.
    pub(in crate::session) fn withdraw_all_but(&mut self, held: &[Question]) -> Vec<String> {
        let is_held = |asked: &Asked| held.iter().any(|held| shortened(held.clone()) == asked.question);
        let withdrawn =
            self.0.extract_if(.., |asked| asked.in_file && asked.answer.is_none() && !is_held(asked));
        withdrawn.map(|asked| asked.question.id).collect()
    }

    /// Takes back an open question, and returns true if there was one.
    pub(in crate::session) fn withdraw(&mut self, id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|asked| asked.question.id != id || asked.answer.is_some());
        self.0.len() < before
    }

    /// Marks the question with this id as answered and returns it if it was open. The first answer wins; repeating it
    /// changes nothing.
    ///
    /// # Errors
    /// `not_found` for an unknown id; `conflict` if it was answered with another text.
    pub(in crate::session) fn answer(&mut self, id: &str, text: &str) -> Result<Option<Question>> {
        let has_id = |asked: &Asked| asked.question.id == id;
        let open = self.0.iter().position(|asked| has_id(asked) && asked.answer.is_none());
        // Of those that used the id before, the latest.
        let Some(at) = open.or_else(|| self.0.iter().rposition(has_id)) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                "the agent does not ask this question, or no longer",
            )
            .with("question", id));
        };
        let question = self.0[at].question.clone();
        Ok((self.0[at].mark(text)? == Place::Open).then_some(question))
    }

    /// Marks this very question as answered, also if the agent does not ask it or asks another one by its id.
    ///
    /// # Errors
    /// `conflict` if it was answered with another text.
    pub(in crate::session) fn answer_to(&mut self, question: &Question, text: &str) -> Result<Place> {
        let question = shortened(question.clone());
        if let Some(asked) = self.0.iter_mut().find(|asked| asked.question == question) {
            return asked.mark(text);
        }
        let is_taken = self.0.iter().any(|asked| asked.question.id == question.id && asked.answer.is_none());
        self.0.push(Asked { question, answer: Some(text.to_owned()), in_file: false });
        Ok(if is_taken { Place::Taken } else { Place::Unknown })
    }

    /// Takes back an answer that could not be delivered.
    pub(in crate::session) fn reopen(&mut self, question: &Question) {
        let question = shortened(question.clone());
        if let Some(asked) = self.0.iter_mut().find(|asked| asked.question == question) {
            asked.answer = None;
        }
    }

    /// Returns the questions without an answer, oldest first.
    pub(in crate::session) fn open(&self) -> Vec<Question> {
        let open = self.0.iter().filter(|asked| asked.answer.is_none());
        open.map(|asked| asked.question.clone()).collect()
    }
}

fn shortened(mut question: Question) -> Question {
    if let Some((end, _)) = question.question.char_indices().nth(LONGEST) {
        question.question.truncate(end);
    }
    question
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(questions: &Questions) -> Vec<String> {
        questions.open().into_iter().map(|question| question.id).collect()
    }

    #[test]
    fn a_question_is_open_once_and_answered_once() {
        let mut questions = Questions::default();
        let port = Question::new("port", "Which port?");
        assert!(questions.ask(port.clone(), false) && !questions.ask(port.clone(), false));
        assert_eq!(questions.answer("host", "x").unwrap_err().code(), "not_found");
        assert_eq!(questions.answer("port", "80").unwrap(), Some(port.clone()));
        assert_eq!(questions.answer("port", "80").unwrap(), None, "the same again is fine");
        assert_eq!(questions.answer("port", "81").unwrap_err().code(), "conflict");
        assert!(!questions.ask(port, false), "asked again after its answer");
        assert!(questions.open().is_empty());
        assert!(
            questions.ask(Question::new("port", "Which port for tests?"), false),
            "another text is another question"
        );
        assert_eq!(ids(&questions), ["port"]);
    }

    #[test]
    fn what_was_answered_in_another_program_is_not_asked_again() {
        let rounds = ["a?", "b?"].map(|text| Question::new("1", text));
        let mut questions = Questions::answered(rounds.clone().map(|asked| (asked, "x".to_owned())));
        assert!(rounds.into_iter().all(|asked| !questions.ask(asked, false)));
        assert!(questions.open().is_empty());
        let next = ["c?", "d?"].map(|text| Question::new("1", text));
        for (asked, answer) in next.into_iter().zip(["x", "y"]) {
            assert!(questions.ask(asked.clone(), false));
            assert_eq!(questions.answer("1", answer).unwrap(), Some(asked), "the open one is meant");
            assert!(questions.open().is_empty());
        }
        assert_eq!(questions.answer("1", "x").unwrap_err().code(), "conflict", "with the latest answer");
    }

    #[test]
    fn an_open_question_gives_way_to_the_next_by_its_id() {
        let mut questions = Questions::answered([(Question::new("1", "a?"), "x".to_owned())]);
        questions.ask(Question::new("1", "b?"), false);
        questions.ask(Question::new("1", "c?"), false);
        assert_eq!(questions.open(), [Question::new("1", "c?")]);
        assert!(!questions.ask(Question::new("1", "a?"), true), "it has its answer");
    }

    #[test]
    fn an_answer_to_a_withdrawn_question_answers_no_other() {
        let mut questions = Questions::default();
        let [first, second] =
            ["Which port?", "Which port for tests?"].map(|text| Question::new("port", text));
        questions.ask(second.clone(), true);
        assert_eq!(questions.answer_to(&first, "80").unwrap(), Place::Taken);
        assert_eq!(questions.open(), std::slice::from_ref(&second));
        assert!(!questions.ask(first.clone(), true), "it has its answer");
        assert_eq!(questions.answer_to(&first, "80").unwrap(), Place::Answered);
        assert_eq!(questions.answer_to(&first, "81").unwrap_err().code(), "conflict");
        assert_eq!(questions.answer_to(&second, "81").unwrap(), Place::Open);
        assert!(questions.open().is_empty());
        assert_eq!(questions.answer_to(&Question::new("host", "Which?"), "x").unwrap(), Place::Unknown);
    }

    #[test]
    fn an_answer_that_did_not_arrive_leaves_the_question_open() {
        let mut questions = Questions::default();
        questions.ask(Question::new("1", "a?"), false);
        questions.answer("1", "b").unwrap();
        questions.reopen(&Question::new("1", "a?"));
        assert_eq!(ids(&questions), ["1"]);
        assert!(questions.answer("1", "c").unwrap().is_some());
    }

    #[test]
    fn a_flood_of_questions_is_bounded_and_loses_none_that_is_open() {
        let mut questions = Questions::default();
        questions.ask(Question::new("first", "a?"), false);
        questions.answer("first", "b").unwrap();
        for n in 0..200 {
            questions.ask(Question::new(n.to_string(), "?".repeat(LONGEST + 1)), true);
        }
        let open = questions.open();
        assert_eq!(open.len(), KEPT);
        assert!(open.iter().any(|question| question.id == "0" && question.question.len() == LONGEST));
    }

    #[test]
    fn questions_that_the_file_no_longer_holds_are_withdrawn() {
        let mut questions = Questions::default();
        let [kept, gone, answered] = ["kept", "gone", "answered"].map(|id| Question::new(id, "a?"));
        let long = Question::new("long", "?".repeat(LONGEST + 1));
        for question in [&kept, &gone, &answered, &long] {
            questions.ask(question.clone(), true);
        }
        questions.ask(Question::new("message", "b?"), false);
        questions.answer("answered", "c").unwrap();
        assert_eq!(questions.withdraw_all_but(&[kept.clone(), long.clone()]), ["gone"]);
        assert_eq!(ids(&questions), ["kept", "long", "message"]);
        assert_eq!(questions.answer("answered", "c").unwrap(), None, "an answer stays what it is");
        assert_eq!(questions.answer("gone", "c").unwrap_err().code(), "not_found");
        assert_eq!(questions.withdraw_all_but(&[]), ["kept", "long"]);
        assert!(questions.ask(gone, true), "it may be asked again");
    }
}
