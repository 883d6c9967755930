//! The colours of code in a diff.

use std::ops::Range;
use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};
use watchfire_client::work_proto::{DiffLine, DiffPart};

/// The longest diff that is coloured, in lines, and its longest line, in bytes: others are read without colours.
const LONGEST: usize = 10_000;
const WIDEST: usize = 500;

/// A part of a text by what it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ink {
    /// A comment.
    Comment,
    /// Text in quotes.
    Text,
    /// A number, a constant.
    Constant,
    /// A word of the language.
    Keyword,
    /// The name of something that is defined or called.
    Name,
    /// A type.
    Type,
}

/// Parts of each line of a diff, as bytes of its text without the sign.
pub type Inks = Vec<Vec<(Range<usize>, Ink)>>;

/// Scopes of the grammars by what they are; the first that fits counts.
const SCOPES: [(&str, Ink); 14] = [
    ("comment", Ink::Comment),
    ("string", Ink::Text),
    ("constant", Ink::Constant),
    ("entity.name.type", Ink::Type),
    ("entity.name.class", Ink::Type),
    ("entity.name.struct", Ink::Type),
    ("support.type", Ink::Type),
    ("support.class", Ink::Type),
    ("storage.type.numeric", Ink::Constant),
    ("storage", Ink::Keyword),
    ("keyword.operator", Ink::Comment),
    ("keyword", Ink::Keyword),
    ("entity.name", Ink::Name),
    ("support.function", Ink::Name),
];

fn scopes() -> &'static [(Scope, Option<Ink>)] {
    static ALL: OnceLock<Vec<(Scope, Option<Ink>)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let scope = |(name, ink): (&str, Ink)| {
            // Operators are everywhere: as text they leave the eye to the rest.
            let ink = (name != "keyword.operator").then_some(ink);
            Some((Scope::new(name).ok()?, ink))
        };
        SCOPES.into_iter().filter_map(scope).collect()
    })
}

fn grammars() -> &'static SyntaxSet {
    static ALL: OnceLock<SyntaxSet> = OnceLock::new();
    ALL.get_or_init(two_face::syntax::extra_newlines)
}

/// Returns the colours of a diff. Text in an unknown language has none. May take a while.
#[must_use]
pub fn inks(lines: &[DiffLine]) -> Inks {
    let mut inks = vec![Vec::new(); lines.len()];
    if lines.len() > LONGEST {
        return inks;
    }
    // Before and after, each read as one text.
    let mut sides = None;
    let mut grammar = None;
    for (line, inks) in lines.iter().zip(&mut inks) {
        let part = line.part();
        match part {
            DiffPart::File => grammar = grammar_of(&line.text),
            // Between two hunks something is missing.
            DiffPart::Hunk => sides = grammar.map(|grammar| [(); 2].map(|()| Reader::new(grammar))),
            DiffPart::Note => {}
            DiffPart::Added | DiffPart::Deleted | DiffPart::Unspecified => {
                let Some([old, new]) = &mut sides else { continue };
                let text = line.text.get(1..).unwrap_or_default();
                if text.len() > WIDEST {
                    sides = None;
                    continue;
                }
                *inks = match part {
                    DiffPart::Deleted => old.read(text),
                    DiffPart::Added => new.read(text),
                    _ => {
                        drop(old.read(text));
                        new.read(text)
                    }
                };
            }
        }
    }
    inks
}

/// Returns the grammar of a file, by its name in a heading such as `modified src/main.rs (+2 -1)`.
fn grammar_of(heading: &str) -> Option<&'static syntect::parsing::SyntaxReference> {
    let path = heading.split(' ').rfind(|word| !word.starts_with(['(', '+', '-']))?;
    let name = path.rsplit('/').next()?;
    let ending = name.rsplit_once('.').map_or(name, |(_, ending)| ending);
    let all = grammars();
    all.find_syntax_by_extension(name).or_else(|| all.find_syntax_by_extension(ending))
}

/// Reads one side of a diff.
struct Reader {
    state: ParseState,
    stack: ScopeStack,
}

impl Reader {
    fn new(grammar: &syntect::parsing::SyntaxReference) -> Self {
        Self { state: ParseState::new(grammar), stack: ScopeStack::new() }
    }

    fn read(&mut self, text: &str) -> Vec<(Range<usize>, Ink)> {
        // A grammar that cannot read it colours nothing.
        let Ok(ops) = self.state.parse_line(&format!("{text}\n"), grammars()) else { return Vec::new() };
        let (mut inks, mut from) = (Vec::new(), 0);
        let mut put = |range: Range<usize>, stack: &ScopeStack| {
            if let Some(ink) = ink_of(stack).filter(|_| !range.is_empty()) {
                inks.push((range, ink));
            }
        };
        for (at, op) in ops {
            put(from..at.min(text.len()), &self.stack);
            from = at.min(text.len());
            // A pop of what is not there changes nothing.
            drop(self.stack.apply(&op));
        }
        put(from..text.len(), &self.stack);
        inks
    }
}

/// Returns the colour of the innermost scope that has one.
fn ink_of(stack: &ScopeStack) -> Option<Ink> {
    let known = |scope: &Scope| scopes().iter().find(|(known, _)| known.is_prefix_of(*scope));
    stack.scopes.iter().rev().find_map(known).and_then(|(_, ink)| *ink)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(DiffPart, &str)]) -> Vec<Vec<(String, Ink)>> {
        let lines: Vec<_> = lines
            .iter()
            .map(|(part, text)| DiffLine { part: (*part).into(), text: (*text).to_owned() })
            .collect();
        let words = |(line, inks): (&DiffLine, &Vec<(Range<usize>, Ink)>)| {
            inks.iter().map(|(range, ink)| (line.text[1..][range.clone()].to_owned(), *ink)).collect()
        };
        lines.iter().zip(&inks(&lines)).map(words).collect()
    }

    #[test]
    fn each_side_is_read_as_its_language() {
        let found = read(&[
            (DiffPart::File, "modified src/main.rs (+2 -1)"),
            (DiffPart::Hunk, "@@ -1,2 +1,3 @@"),
            (DiffPart::Deleted, "-/* one"),
            (DiffPart::Added, "+fn two() -> u8 { 2 }"),
            (DiffPart::Added, "+// \"three\""),
            (DiffPart::Hunk, "@@ -9 +9 @@"),
            (DiffPart::Unspecified, " let four = \"4\";"),
            (DiffPart::File, "added notes (+1 -0)"),
            (DiffPart::Hunk, "@@ -0,0 +1 @@"),
            (DiffPart::Added, "+fn five"),
        ]);
        let has = |line: usize, word: &str, ink: Ink| {
            assert!(
                found[line].iter().any(|(text, it)| text.contains(word) && *it == ink),
                "{:?}",
                found[line]
            );
        };
        has(2, "one", Ink::Comment);
        // The comment is not open on this side.
        has(3, "fn", Ink::Keyword);
        has(3, "two", Ink::Name);
        has(3, "2", Ink::Constant);
        has(4, "three", Ink::Comment);
        has(6, "let", Ink::Keyword);
        has(6, "4", Ink::Text);
        assert_eq!(found[9], []);
    }

    #[test]
    fn what_cannot_be_read_has_no_colours() {
        let long = format!("+{}", "x".repeat(WIDEST + 1));
        let found = read(&[
            (DiffPart::File, "modified a.py (+1 -0)"),
            (DiffPart::Added, "+before any hunk"),
            (DiffPart::Hunk, "@@ -1 +1 @@"),
            (DiffPart::Added, &long),
            (DiffPart::Added, "+1"),
            (DiffPart::Note, "\\ no newline at the end"),
        ]);
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
        let many = vec![(DiffPart::Added, "+1"); LONGEST + 1];
        assert_eq!(read(&many).len(), many.len());
    }
}
