//! Draws a run as a block of lines at the bottom of the terminal. The block is redrawn in place, and lines that stay
//! scroll up above it.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use watchfire_core::Result;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::Record;
use watchfire_core::schedule::{Change, LifeState};

use super::View;
use super::board::{Board, Kind, Row, Said};
use crate::fit::fitted;
use crate::out::Out;
use crate::style::Style;
use crate::terminal::{self, Changed};
use crate::text;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Largest number of tasks that are shown. Others are only counted.
const SHOWN: usize = 8;

pub(super) struct Live {
    out: Out,
    board: Board,
    frame: usize,
    /// Widths of the lines on the screen now, in columns.
    drawn: Vec<usize>,
    began: Instant,
    _terminal: Changed,
}

impl Live {
    pub(super) fn new(out: Out, titles: BTreeMap<TaskNumber, String>) -> Result<Self> {
        let terminal = terminal::quiet()?;
        Ok(Self {
            out,
            board: Board::new(titles),
            frame: 0,
            drawn: Vec::new(),
            began: Instant::now(),
            _terminal: terminal,
        })
    }

    /// Replaces the block, with `said` above it, in one write so that nothing flickers.
    fn draw(&mut self, said: &[String], now: Instant) {
        let columns = usize::from(terminal::size().cols());
        // Synchronized output: a terminal that knows it shows the frame at once. Others ignore it.
        let mut text = String::from("\x1b[?2026h");
        // With the present width: after a resize the old lines may have wrapped.
        text.push_str(&erase(&self.drawn, columns));
        // Not into the last column, of which the erasing would take the character.
        for line in fitted(&said.join("\n"), columns.saturating_sub(1)).lines() {
            text.push_str(line);
            text.push_str("\x1b[K\r\n");
        }
        let block = block(&self.board, self.frame, self.began, now, columns, self.out.style);
        self.drawn = block.iter().map(|line| line.width).collect();
        for line in block {
            text.push_str(&line.painted);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[?2026l");
        self.out.raw(&text);
    }

    fn paint(&self, said: &Said) -> String {
        let style = self.out.style;
        match said.kind {
            Kind::Step => style.dim(&format!("· {}", said.text)),
            Kind::Good => format!("{} {}", style.green("✓"), said.text),
            Kind::Bad => format!("{} {}", style.red("✗"), said.text),
            Kind::Attention => format!("{} {}", style.yellow("!"), said.text),
        }
    }
}

impl View for Live {
    fn record(&mut self, record: &Record, now: Instant) {
        let said = self.board.take_in(&record.change, now);
        let lines: Vec<_> =
            // Steps are visible in the block.
            said.iter().filter(|said| said.kind != Kind::Step).map(|said| self.paint(said)).collect();
        if !lines.is_empty() {
            self.draw(&lines, now);
        }
    }

    fn change(&mut self, change: &Change, now: Instant) {
        self.board.take_in(change, now);
    }

    fn tick(&mut self, doing: &HashMap<String, String>, now: Instant) {
        self.frame = self.frame.wrapping_add(1);
        for row in self.board.rows.values_mut() {
            if let Some(doing) = row.session.as_ref().and_then(|session| doing.get(session.as_str())) {
                row.doing = text::line(doing);
            }
        }
        self.draw(&[], now);
    }

    fn needs_title(&self, task: TaskNumber) -> bool {
        !self.board.knows(task)
    }

    fn set_title(&mut self, task: TaskNumber, title: &str) {
        self.board.set_title(task, title);
    }

    fn note(&mut self, text: &str) {
        let line = self.out.style.yellow(&text::line(text));
        self.draw(&[line], Instant::now());
    }

    fn is_live(&self) -> bool {
        true
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The summary follows in place of the block.
        self.out.raw(&erase(&self.drawn, usize::from(terminal::size().cols())));
    }
}

/// Returns the bytes that erase lines of these widths from a screen of `columns`.
fn erase(widths: &[usize], columns: usize) -> String {
    let rows: usize = widths.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r\x1b[J") }
}

struct Line {
    painted: String,
    width: usize,
}

fn block(
    board: &Board,
    frame: usize,
    began: Instant,
    now: Instant,
    columns: usize,
    style: Style,
) -> Vec<Line> {
    // The last column stays empty: some terminals wrap as soon as a character is in it.
    let columns = columns.saturating_sub(1);
    let mut lines = Vec::new();
    let spinner = SPINNER.get(frame % SPINNER.len()).copied().unwrap_or("*");
    // In the order of subjects, so that rows keep their places.
    for (subject, row) in board.rows.iter().take(SHOWN) {
        lines.extend(item(&board.name(*subject, row.run), row, spinner, now, columns, style));
    }
    let hidden = board.rows.len().saturating_sub(SHOWN);
    let mut status = format!("{} under way, {} ended", board.rows.len(), board.ended());
    if hidden > 0 {
        status.push_str(&format!(" ({hidden} not shown)"));
    }
    let status =
        text::clip(&format!("{status}  {}", text::elapsed(now.saturating_duration_since(began))), columns);
    lines.push(Line { width: text::width(&status), painted: style.dim(&status) });
    lines
}

/// Returns the lines of one task: its name and state, and below them the activity of its agent.
fn item(name: &str, row: &Row, spinner: &str, now: Instant, columns: usize, style: Style) -> Vec<Line> {
    let took = text::elapsed(now.saturating_duration_since(row.began));
    let step = match &row.state {
        LifeState::Running if !row.who.is_empty() => row.who.clone(),
        state => state.word().to_owned(),
    };
    let right = format!("{step}  {took}");
    let left = format!("{spinner} ");
    let room = columns.saturating_sub(text::width(&left) + text::width(&right) + 2);
    let name = text::clip(name, room);
    let gap = " ".repeat(room.saturating_sub(text::width(&name)) + 2);
    let plain = format!("{left}{name}{gap}{right}");
    // Clipped text has no colours: the cut could fall inside of an escape sequence.
    let first = if text::width(&plain) <= columns {
        let painted = format!("{} {}{gap}{}", style.yellow(spinner), style.bold(&name), style.cyan(&right));
        Line { width: text::width(&plain), painted }
    } else {
        let clipped = text::clip(&plain, columns);
        Line { width: text::width(&clipped), painted: clipped }
    };
    let below = match row.state {
        // While the agent works, its activity changes all the time. In other states the detail says why.
        LifeState::Running => row.doing.as_str(),
        _ => row.detail.as_str(),
    };
    if below.is_empty() {
        return vec![first];
    }
    let below = text::clip(&format!("    {below}"), columns);
    vec![first, Line { width: text::width(&below), painted: style.dim(&below) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_core::model::Timestamp;
    use watchfire_core::schedule::{Life, LifeId, Subject};

    fn board() -> (Board, Instant) {
        let number = TaskNumber::new(7).unwrap();
        let mut board = Board::new([(number, "A rather long title of a task 漢字漢字".to_owned())].into());
        let now = Instant::now();
        let at = Timestamp::from_unix_millis(0);
        let mut life = Life::new(LifeId(1), Subject::of_task(number), at);
        life.state = LifeState::Running;
        board.take_in(&Change::Life(Box::new(life)), now);
        board.rows.values_mut().for_each(|row| row.doing = "compiling everything anew".to_owned());
        (board, now)
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let (board, now) = board();
        for columns in 1..90 {
            for line in block(&board, 3, now, now, columns, Style::new(false)) {
                assert_eq!(line.width, text::width(&line.painted));
                assert!(line.width < columns.max(1) || line.width == 0, "{columns}: {}", line.painted);
            }
        }
    }

    #[test]
    fn erasing_counts_wrapped_rows() {
        assert_eq!(erase(&[], 80), "");
        assert_eq!(erase(&[10, 0], 80), "\x1b[2A\r\x1b[J");
        assert_eq!(erase(&[79, 10], 40), "\x1b[3A\r\x1b[J");
    }
}
