//! Prints one line for everything that happens, for pipes and logs.

use std::collections::BTreeMap;
use std::time::Instant;

use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::Record;
use watchfire_core::schedule::Change;

use super::View;
use super::board::{Board, Kind};
use crate::out::Out;

pub(super) struct Lines {
    out: Out,
    board: Board,
}

impl Lines {
    pub(super) fn new(out: Out, titles: BTreeMap<TaskNumber, String>) -> Self {
        Self { out, board: Board::new(titles) }
    }
}

impl View for Lines {
    fn record(&mut self, record: &Record, now: Instant) {
        // Steps too: nothing else shows them here.
        self.change(&record.change, now);
    }

    fn change(&mut self, change: &Change, now: Instant) {
        for said in self.board.take_in(change, now) {
            match said.kind {
                Kind::Attention => self.note(&format!("! {}", said.text)),
                Kind::Step | Kind::Good | Kind::Bad => self.note(&said.text),
            }
        }
    }

    fn needs_title(&self, task: TaskNumber) -> bool {
        !self.board.knows(task)
    }

    fn set_title(&mut self, task: TaskNumber, title: &str) {
        self.board.set_title(task, title);
    }

    fn note(&mut self, text: &str) {
        self.out.text(&format!("{text}\n"));
    }
}
