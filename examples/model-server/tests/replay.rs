//! Recordings of real agents, replayed through the emulator: their screens and titles must give these states and
//! issues, and these texts in their input boxes, and no others, however the bytes are cut.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use watchfire_backends as _;
use watchfire_core::backend::{Backend, Backends, Fact, InputBox, Observation};
use watchfire_core::terminal::{Size, Terminal as _};
use watchfire_term::Emulator;

/// Agent, recording, and what its screens and titles say over its whole length.
const RECORDINGS: &[(&str, &str, &[&str])] = &[
    ("claude-code", "claude-e401", &["auth_required"]),
    ("claude-code", "claude-e429", &["rate_limited"]),
    ("claude-code", "claude-e529", &["overloaded"]),
    ("claude-code", "claude-equota", &["out_of_credit"]),
    ("claude-code", "claude-first-perm", &["action_required"]),
    ("claude-code", "claude-first-trust", &["action_required", "trust_dialog"]),
    ("claude-code", "claude-typed", &[]),
    ("claude-code", "claude-resize", &[]),
    ("codex", "codex-e401", &["auth_required"]),
    ("codex", "codex-e429", &["rate_limited"]),
    ("codex", "codex-e429sub", &["usage_limit"]),
    ("codex", "codex-e529", &["overloaded"]),
    ("codex", "codex-equota", &["out_of_credit"]),
    ("codex", "codex-first-trust", &["action_required", "trust_dialog"]),
    ("codex", "codex-typed", &[]),
    ("gemini", "gemini-e401", &["auth_required"]),
    ("gemini", "gemini-e429sub", &["action_required", "usage_limit"]),
    ("gemini", "gemini-first-trust", &["action_required", "trust_dialog"]),
    ("gemini", "gemini-typed", &[]),
    ("copilot", "copilot-first-trust", &["action_required", "trust_dialog"]),
    ("copilot", "copilot-typed", &[]),
    ("opencode", "opencode-e429sub", &["usage_limit"]),
    ("opencode", "opencode-first-perm", &["action_required"]),
    ("opencode", "opencode-typed", &[]),
];

#[test]
fn recordings_say_what_happened() {
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    let mut missing = Vec::new();
    for (agent, name, expected) in RECORDINGS {
        let backend = backends.get(agent).unwrap();
        let Some(path) = find(&format!("{name}-120x40")) else {
            missing.push(*name);
            continue;
        };
        let whole = replay(&*backend, &path, usize::MAX);
        let issues: BTreeSet<&str> = whole
            .iter()
            .map(String::as_str)
            .filter(|word| !["idle", "processing", "turn", "session"].contains(word))
            .collect();
        if issues != expected.iter().copied().collect() {
            wrong.push(format!("{name}: {issues:?}, not {expected:?}"));
        }
        for pieces in [1, 7] {
            if replay(&*backend, &path, pieces) != whole {
                wrong.push(format!("{name}: in pieces of {pieces} it says something else"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(missing.len() < RECORDINGS.len(), "no recording found");
    if !missing.is_empty() {
        eprintln!("SKIPPED, not here: {}", missing.join(", "));
    }
}

const ASKED: &str = "Please do the scripted job.";

/// Agent, recording, and what stands in its input box one after the other, empty or not there (`None`) in between.
const BOXES: &[(&str, &str, &[Option<&str>])] = &[
    // While it works, what it prints stands where the box was: nothing is typed then.
    (
        "aider",
        "aider-typed-120x40",
        &[None, Some("I will create the file and update the task. FAKE-DONE-7391"), None, Some("^C")],
    ),
    ("claude-code", "claude-typed-120x40", &[None, Some(ASKED), None]),
    ("claude-code", "claude-paste-80x24", &[None, Some(ASKED), None]),
    ("codex", "codex-typed-120x40", &[None, Some(ASKED), None]),
    // It shows a part of a paste's frame.
    ("continue", "continue-typed-120x40", &[None, Some("[200~Please do the scripted job."), None]),
    ("copilot", "copilot-paste-80x24", &[None, Some(ASKED), None]),
    ("gemini", "gemini-pastecr-80x24", &[None, Some(ASKED), None]),
    ("opencode", "opencode-pastecr-80x24", &[None, Some(ASKED), None]),
];

#[test]
fn input_boxes_hold_what_was_typed() {
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    for (agent, name, expected) in BOXES {
        let backend = backends.get(agent).unwrap();
        let path = find(name).unwrap_or_else(|| panic!("{name} is not here"));
        let whole = boxes(&*backend, &path, usize::MAX);
        if whole.iter().map(Option::as_deref).ne(expected.iter().copied()) {
            wrong.push(format!("{name}: {whole:?}, not {expected:?}"));
        }
        for pieces in [1, 7] {
            if boxes(&*backend, &path, pieces) != whole {
                wrong.push(format!("{name}: in pieces of {pieces} it holds something else"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Recordings of a paste that the agent folds into a mark, and what the mark is.
const FOLDED: &[(&str, &str, &str)] = &[
    ("claude-code", "claude-folded-80x24", "[Pasted text #1 +60 lines]"),
    ("codex", "codex-folded-80x24", "[Pasted Content 1932 chars]"),
    ("copilot", "copilot-folded-80x24", "[Paste #1 - 61 lines]"),
    ("gemini", "gemini-folded-80x24", "[Pasted Text: 61 lines]"),
    ("opencode", "opencode-folded-80x24", "[Pasted ~61 lines]"),
];

/// The text of these recordings, with so many lines before its last one.
fn pasted(lines: usize) -> String {
    let line = |n| format!("{n:02} it's `code` grüße 🔥 and more\n");
    (1..=lines).map(line).collect::<String>() + "the last one"
}

#[test]
fn a_folded_paste_is_known_for_ours() {
    let backends = Backends::linked().unwrap();
    let mut wrong = Vec::new();
    for (agent, name, mark) in FOLDED {
        let backend = backends.get(agent).unwrap();
        let path = find(name).unwrap_or_else(|| panic!("{name} is not here"));
        for pieces in [usize::MAX, 1, 7] {
            let mut seen: Vec<InputBox> = Vec::new();
            play(&path, pieces, |terminal, moment| {
                let now = backend.input_box(&terminal.snapshot());
                if moment.rest > SHORT_PAUSE && seen.last() != Some(&now) {
                    seen.push(now);
                }
            });
            // Empty, ours alone, and empty again: that is what a delivery waits for.
            let held: Vec<_> =
                seen.iter().filter(|it| matches!(it, InputBox::Holds(_)) && !it.is_empty()).collect();
            let is_mark = |it: &InputBox| matches!(it, InputBox::Holds(text) if text.trim() == *mark);
            let known = held.len() == 1 && is_mark(held[0]) && held[0].holds(&pasted(60));
            let others = [pasted(59), pasted(61), pasted(0), format!("{} {}", pasted(60), pasted(60))];
            let taken = others.iter().find(|text| held.iter().any(|it| it.holds(text)));
            let ends = seen.iter().position(|it| it.is_empty())
                < seen.iter().position(|it| it.holds(&pasted(60)))
                && !seen.last().is_some_and(|it| it.holds(&pasted(60)));
            if !known || taken.is_some() || !ends {
                wrong.push(format!("{name} in pieces of {pieces}: {seen:?}, {taken:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first line in the input box wherever the recording pauses; nothing where there is none, or it is empty.
fn boxes(backend: &dyn Backend, path: &Path, pieces: usize) -> Vec<Option<String>> {
    let mut all: Vec<Option<String>> = Vec::new();
    play(path, pieces, |terminal, moment| {
        if moment.rest > SHORT_PAUSE {
            let text = match backend.input_box(&terminal.snapshot()) {
                InputBox::Holds(text) if !text.trim().is_empty() => {
                    text.trim().lines().next().map(|line| line.trim().to_owned())
                }
                _ => None,
            };
            if all.last() != Some(&text) {
                all.push(text);
            }
        }
    });
    all
}

/// Recordings in this project, then those of a folder beside it.
fn find(name: &str) -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let others = std::env::var_os("WATCHFIRE_RECORDINGS").map(PathBuf::from);
    [Some(ours), others]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(format!("{name}.raw")))
        .find(|path| path.is_file())
}

/// All that was said, each once: the screen is read wherever the recording pauses, and once a second.
fn replay(backend: &dyn Backend, path: &Path, pieces: usize) -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    let (mut title, mut read) = (String::new(), 0.0);
    play(path, pieces, |terminal, moment| {
        let now = terminal.title().unwrap_or_default().to_owned();
        if now != title {
            note(&mut said, backend.interpret(&Observation::Title(&now)));
            title = now;
        }
        if moment.rest > PAUSE || moment.time - read > 1.0 {
            read = moment.time;
            let screen = terminal.snapshot().text();
            note(&mut said, backend.interpret(&Observation::Screen(&screen)));
        }
    });
    said
}

/// The end of what came at once.
struct Moment {
    time: f64,
    /// How long nothing more comes.
    rest: f64,
}

/// The shortest rest in which a screen is read.
const PAUSE: f64 = 0.3;
/// The shortest rest in which an input box is read.
const SHORT_PAUSE: f64 = 0.1;

/// Feeds a recording in pieces of at most this length, and looks at the terminal wherever something came.
fn play(path: &Path, pieces: usize, mut look: impl FnMut(&mut Emulator, Moment)) {
    let bytes = fs::read(path).unwrap();
    let timing = fs::read_to_string(path.with_extension("timing.jsonl")).unwrap();
    let chunks: Vec<(f64, usize)> = timing
        .lines()
        .filter_map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            Some((value.get(0)?.as_f64()?, usize::try_from(value.get(1)?.as_u64()?).ok()?))
        })
        .collect();
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap();
    let (cols, rows) = name.rsplit('-').next().unwrap().split_once('x').unwrap();
    let mut terminal = Emulator::new(Size::new(cols.parse().unwrap(), rows.parse().unwrap()));
    let mut at = 0;
    for (index, (time, length)) in chunks.iter().enumerate() {
        let chunk = &bytes[at..(at + length).min(bytes.len())];
        at += chunk.len();
        for piece in chunk.chunks(pieces) {
            terminal.feed(piece);
        }
        let rest = chunks.get(index + 1).map_or(f64::INFINITY, |(next, _)| next - time);
        look(&mut terminal, Moment { time: *time, rest });
    }
}

fn note(said: &mut BTreeSet<String>, facts: Vec<Fact>) {
    said.extend(facts.into_iter().map(|fact| match fact {
        Fact::Status(status) => status.as_str().to_owned(),
        Fact::Issue(issue) => serde_json::to_value(issue.kind).unwrap().as_str().unwrap().to_owned(),
        Fact::TurnCompleted => "turn".to_owned(),
        Fact::VendorSession(_) => "session".to_owned(),
        other => format!("{other:?}"),
    }));
}
