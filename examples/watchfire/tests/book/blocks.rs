//! The fenced blocks of a page.

use std::collections::BTreeMap;

/// A fenced block, or the hidden set-up in a comment `<!-- setup … -->`.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Number of its first line in the page, from 1 on.
    pub(crate) first: usize,
    /// The language: `console`, `yaml`, `rust`, …; `setup` for a set-up.
    pub(crate) language: String,
    /// Words after the language and a comma, such as `no_run`.
    pub(crate) flags: Vec<String>,
    /// Attributes after a space, such as `exit=3`. Pages that rustdoc reads have them in a comment on the line before:
    /// `<!-- exit=3 -->`.
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) lines: Vec<String>,
}

/// A command of a `console` block, and what it is to print.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Step {
    /// Number of its line in the page.
    pub(crate) at: usize,
    pub(crate) command: String,
    /// Number of lines of the command.
    pub(crate) height: usize,
    pub(crate) expected: Vec<String>,
}

/// Returns the blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(String, Block)> = None;
    let mut before = "";
    for (index, line) in page.lines().enumerate() {
        let above = std::mem::replace(&mut before, line);
        if let Some((end, block)) = &mut open {
            if line.trim() == end {
                found.extend(open.take().map(|(_, block)| block));
            } else {
                block.lines.push(line.to_owned());
            }
            continue;
        }
        let first = index + 2;
        let ticks = line.len() - line.trim_start_matches('`').len();
        if line == "<!-- setup" {
            open =
                Some(("-->".to_owned(), Block { first, language: "setup".to_owned(), ..Block::default() }));
        } else if ticks >= 3 {
            let comment = above.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            let info = [&line[ticks..], comment.unwrap_or_default()].join(" ");
            open = Some(("`".repeat(ticks), Block { first, ..described(info.trim_end()) }));
        }
    }
    assert!(open.is_none(), "a block has no end: {open:?}");
    found
}

/// Reads what stands after the backticks: `language,flag key=value other="two words"`.
fn described(info: &str) -> Block {
    let (words, mut rest) = info.split_once(' ').unwrap_or((info, ""));
    let mut words = words.split(',').map(str::to_owned);
    let mut block = Block { language: words.next().unwrap_or_default(), ..Block::default() };
    block.flags = words.collect();
    while let Some((key, after)) = rest.split_once('=') {
        let quoted = after.strip_prefix('"').and_then(|inner| inner.split_once('"'));
        let (value, next) = quoted.or_else(|| after.split_once(' ')).unwrap_or((after, ""));
        block.attributes.insert(key.trim().to_owned(), value.to_owned());
        rest = next;
    }
    block
}

impl Block {
    /// Returns the commands of a `console` block. A line that begins with `> ` goes on with the command before it.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (line, at) in self.lines.iter().zip(self.first..) {
            match (steps.last_mut(), line.strip_prefix("$ "), line.strip_prefix("> ")) {
                (_, Some(command), _) => {
                    steps.push(Step { at, command: command.to_owned(), height: 1, expected: Vec::new() });
                }
                (Some(step), None, Some(more)) if step.expected.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(more);
                    step.height += 1;
                }
                (Some(step), None, _) => step.expected.push(line.trim_end().to_owned()),
                (None, None, _) => panic!("line {at}: output without a command: {line}"),
            }
        }
        steps
    }
}

/// Returns true if the output is the expected one. `…` or `...` stands for any text; alone on a line, for any lines.
pub(crate) fn fits<E: AsRef<str>, A: AsRef<str>>(expected: &[E], actual: &[A]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((line, rest)) if ["…", "..."].contains(&line.as_ref().trim()) => {
            (0..=actual.len()).any(|skipped| fits(rest, &actual[skipped..]))
        }
        Some((line, rest)) => actual
            .split_first()
            .is_some_and(|(first, more)| line_fits(line.as_ref(), first.as_ref()) && fits(rest, more)),
    }
}

fn line_fits(expected: &str, actual: &str) -> bool {
    let expected = expected.replace("...", "…");
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == actual.trim_end();
    };
    let (middle, end) = rest.rsplit_once('…').unwrap_or(("", rest));
    let Some(mut left) = actual.trim_end().strip_prefix(start).and_then(|left| left.strip_suffix(end)) else {
        return false;
    };
    middle.split('…').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Checks the reader itself.
pub(crate) fn a_page_is_read_as_people_read_it() {
    let page = "# T\n\n```console exit=3\n$ one\n> two\nout …\n…\n$ three\n```\n<!-- setup\nmake it\n-->\n\
                ````rust,no_run\n```\nx\n```\n````\n```sh skip=\"needs a network\" file=a b=c\nls\n```\n\
                <!-- skip=\"why\" -->\n```sh\nls\n```\n";
    let found = blocks(page);
    let languages: Vec<_> = found.iter().map(|block| block.language.as_str()).collect();
    assert_eq!(languages, ["console", "setup", "rust", "sh", "sh"]);
    assert_eq!((found[0].attributes["exit"].as_str(), found[0].first), ("3", 4));
    assert_eq!(found[2].flags, ["no_run"]);
    assert_eq!(found[2].lines, ["```", "x", "```"]);
    let read: Vec<_> = ["skip", "file", "b"].map(|key| found[3].attributes[key].as_str()).into();
    assert_eq!(read, ["needs a network", "a", "c"]);
    assert_eq!(found[4].attributes["skip"], "why");
    let step = |at, command: &str, height, expected: &[&str]| Step {
        at,
        command: command.to_owned(),
        height,
        expected: expected.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(found[0].steps(), [step(4, "one\ntwo", 2, &["out …", "…"]), step(8, "three", 1, &[])]);

    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    for (expected, actual, outcome) in [
        ("a\nb", "a\nb  ", true),
        ("", "a", false),
        ("a", "", false),
        ("…", "", true),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n...\nd", "a\nb\nc", false),
        ("took … s", "took 1.2 s", true),
        ("… and … and …", "x and y and z", true),
        ("… and … and …", "x and y", false),
        ("ab…ba", "aba", false),
    ] {
        assert_eq!(fits(&lines(expected), &lines(actual)), outcome, "{expected:?} {actual:?}");
    }
}
