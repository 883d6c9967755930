//! Moving pictures of a terminal, as SVG: each row once, each picture for its time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use watchfire_core::terminal::{Attributes, Color, Line, Snapshot};

const CELL: (f64, f64) = (8.0, 17.0);
const EDGE: f64 = 10.0;
const INK: &str = "#c9d1d9";
const PAPER: &str = "#0d1117";
const NAMED: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];

/// Returns pictures that are shown one after the other, each until the next one begins, and again from the start.
pub(crate) fn moving(pictures: &[(Duration, std::sync::Arc<Snapshot>)], end: Duration) -> String {
    let size = pictures[0].1.size;
    let width = f64::from(size.cols()) * CELL.0 + 2.0 * EDGE;
    let height = f64::from(size.rows()) * CELL.1 + 2.0 * EDGE;
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    let (mut frames, mut times) = (String::new(), String::new());
    for (n, (from, snapshot)) in pictures.iter().enumerate() {
        let until = pictures.get(n + 1).map_or(end, |(next, _)| *next);
        let percent = |at: Duration| at.as_secs_f64() / end.as_secs_f64() * 100.0;
        let (from, until) = (percent(*from), percent(until));
        let last = n + 1 == pictures.len();
        let hides = if last { String::new() } else { format!("{until:.3}%{{visibility:hidden}}") };
        let shows = if n == 0 { String::new() } else { "0%{visibility:hidden}".to_owned() };
        let _ = write!(
            times,
            "@keyframes k{n}{{{shows}{from:.3}%{{visibility:visible}}{hides}}}.f{n}{{animation:k{n} {:.1}s step-end infinite}}",
            end.as_secs_f64()
        );
        let _ = write!(frames, "<g class=\"f f{n}\">");
        for (row, line) in snapshot.lines.iter().enumerate() {
            let drawn = of_line(line);
            if drawn.is_empty() {
                continue;
            }
            let next = rows.len();
            let id = *rows.entry(drawn).or_insert(next);
            let top = EDGE + CELL.1 * row as f64;
            let _ = write!(frames, "<use href=\"#r{id}\" y=\"{top:.0}\"/>");
        }
        frames.push_str("</g>\n");
    }
    let rows: String = rows.iter().map(|(drawn, id)| format!("<g id=\"r{id}\">{drawn}</g>\n")).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"13\">\n\
         <style>.f{{visibility:hidden}}text{{white-space:pre}}{times}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n<defs>\n{rows}</defs>\n{frames}</svg>\n"
    )
}

/// Draws a row at the top: backgrounds, and the text of each look at its columns.
fn of_line(line: &Line) -> String {
    let (mut column, mut back, mut text) = (0.0, String::new(), String::new());
    for (run, words) in line.runs() {
        let columns = f64::from(run.columns);
        let style = run.style;
        let reversed = style.attributes.contains(Attributes::INVERSE);
        let (ink, paper) = (of(style.foreground, INK), of(style.background, PAPER));
        let (ink, paper) = if reversed { (paper, ink) } else { (ink, paper) };
        let at = EDGE + column * CELL.0;
        if paper != PAPER {
            let width = columns * CELL.0;
            let _ = write!(
                back,
                "<rect x=\"{at:.0}\" width=\"{width:.0}\" height=\"{:.0}\" fill=\"{paper}\"/>",
                CELL.1
            );
        }
        if !words.trim().is_empty() {
            let bold = if style.attributes.contains(Attributes::BOLD) { " font-weight=\"bold\"" } else { "" };
            let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            // As wide as its cells, whatever the font is.
            let _ = write!(
                text,
                "<text x=\"{at:.0}\" y=\"13\" fill=\"{ink}\"{bold} textLength=\"{:.0}\">{words}</text>",
                columns * CELL.0
            );
        }
        column += columns;
    }
    back + &text
}

fn of(color: Color, usual: &str) -> String {
    match color {
        Color::Indexed(n @ 0..=15) => NAMED[usize::from(n)].to_owned(),
        Color::Indexed(n @ 16..=231) => {
            let n = n - 16;
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            format!("#{:02x}{:02x}{:02x}", level(n / 36), level(n / 6 % 6), level(n % 6))
        }
        Color::Indexed(n) => {
            let grey = 8 + 10 * (n - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        _ => usual.to_owned(),
    }
}
