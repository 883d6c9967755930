//! Reads a profile as the kernel does, for tests: the last rule that matches counts, a denial of one operation by its
//! own name is not lifted by a later wildcard.

/// A piece of the profile language.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Word(String),
    Text(String),
    List(Vec<Self>),
}

use Expression::{List, Text, Word};

/// Reads a whole profile. Panics at what is not one: this is test code.
pub(super) fn parse(text: &str) -> Vec<Expression> {
    let mut letters = text.chars().peekable();
    let mut open: Vec<Vec<Expression>> = vec![Vec::new()];
    while let Some(letter) = letters.next() {
        let item = match letter {
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' => List(open.pop().expect("a list to close")),
            '"' => {
                let mut text = String::new();
                loop {
                    match letters.next().expect("a string that ends") {
                        '"' => break,
                        '\\' => text.push(letters.next().expect("something after a backslash")),
                        other => text.push(other),
                    }
                }
                Text(text)
            }
            space if space.is_whitespace() => continue,
            first => {
                let mut word = String::from(first);
                while let Some(next) =
                    letters.next_if(|next| !next.is_whitespace() && !"()\"".contains(*next))
                {
                    word.push(next);
                }
                Word(word)
            }
        };
        open.last_mut().expect("balanced").push(item);
    }
    assert_eq!(open.len(), 1, "balanced");
    open.remove(0)
}

/// Whether the profile allows an operation on a path.
pub(super) fn allows(profile: &[Expression], operation: &str, path: &str) -> bool {
    let mut verdict = false;
    let mut pinned = false;
    for expression in profile {
        let List(items) = expression else { panic!("not a list: {expression:?}") };
        let Some(Word(action)) = items.first() else { panic!("no action: {items:?}") };
        let operations: Vec<_> = items[1..]
            .iter()
            .filter_map(|item| if let Word(word) = item { Some(word) } else { None })
            .collect();
        let filters: Vec<_> = items[1..].iter().filter(|item| matches!(item, List(_))).collect();
        let Some(by) = operations.iter().find(|pattern| covers(pattern, operation)) else { continue };
        // Several filters in one rule: any of them.
        if !filters.is_empty() && !filters.iter().any(|filter| matches(filter, path)) {
            continue;
        }
        let exact = by.as_str() == operation;
        match action.as_str() {
            "deny" => {
                verdict = false;
                pinned |= exact;
            }
            "allow" => {
                verdict = !pinned || exact;
                pinned &= !exact;
            }
            other => panic!("unknown action {other}"),
        }
    }
    verdict
}

fn covers(pattern: &str, operation: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(head) => operation.starts_with(head),
        None => pattern == operation,
    }
}

fn matches(filter: &Expression, path: &str) -> bool {
    let List(items) = filter else { panic!("not a filter: {filter:?}") };
    match items.as_slice() {
        [Word(name), Text(text)] if name == "literal" => path == text,
        [Word(name), Text(text)] if name == "subpath" => {
            path == text
                || path.strip_prefix(text.as_str()).is_some_and(|rest| rest.starts_with('/') || text == "/")
        }
        [Word(name), Text(text)] if name == "regex" => super::evaluate::expression(text, path),
        [Word(name), rest @ ..] if name == "require-all" => rest.iter().all(|filter| matches(filter, path)),
        [Word(name), rest @ ..] if name == "require-any" => rest.iter().any(|filter| matches(filter, path)),
        [Word(name), rest] if name == "require-not" => !matches(rest, path),
        [Word(name), ..] if ["with", "target", "remote", "global-name"].contains(&name.as_str()) => {
            name == "with"
        }
        other => panic!("unknown filter {other:?}"),
    }
}

/// The few expressions that profiles use: literals, escapes, `.`, `[^/]`, groups with `|`, `?`, `*`, `^` and `$`.
fn expression(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let anchored = pattern.first() == Some(&'^');
    let pattern = if anchored { &pattern[1..] } else { &pattern[..] };
    let starts = if anchored { 0..1 } else { 0..text.len() + 1 };
    starts.into_iter().any(|start| step(pattern, &text[start..], &mut |_| true))
}

/// Matches `pattern` at the beginning of `text`, and hands what is left to `then`.
fn step(pattern: &[char], text: &[char], then: &mut dyn FnMut(&[char]) -> bool) -> bool {
    let Some(first) = pattern.first() else { return then(text) };
    if *first == '$' && pattern.len() == 1 {
        return text.is_empty() && then(text);
    }
    let length = match first {
        '\\' => 2,
        '[' => pattern.iter().position(|letter| *letter == ']').expect("a class that ends") + 1,
        '(' => group_end(pattern) + 1,
        _ => 1,
    };
    let (atom, rest) = pattern.split_at(length);
    let (quantity, rest) = match rest.first() {
        Some('?') => ('?', &rest[1..]),
        Some('*') => ('*', &rest[1..]),
        _ => ('1', rest),
    };
    match quantity {
        '1' => once(atom, text, &mut |left| step(rest, left, then)),
        '?' => once(atom, text, &mut |left| step(rest, left, then)) || step(rest, text, then),
        _ => many(atom, rest, text, then),
    }
}

fn many(atom: &[char], rest: &[char], text: &[char], then: &mut dyn FnMut(&[char]) -> bool) -> bool {
    step(rest, text, then)
        || once(atom, text, &mut |left| left.len() < text.len() && many(atom, rest, left, then))
}

fn once(atom: &[char], text: &[char], then: &mut dyn FnMut(&[char]) -> bool) -> bool {
    if atom[0] == '(' {
        return alternatives(&atom[1..atom.len() - 1]).into_iter().any(|one| step(one, text, then));
    }
    let Some(letter) = text.first() else { return false };
    let fits = match atom {
        ['\\', escaped] => letter == escaped,
        ['[', '^', none @ .., ']'] => !none.contains(letter),
        ['[', any @ .., ']'] => any.contains(letter),
        ['.'] => true,
        [literal] => letter == literal,
        other => panic!("unknown expression {other:?}"),
    };
    fits && then(&text[1..])
}

fn group_end(pattern: &[char]) -> usize {
    let mut depth = 0;
    let mut index = 0;
    loop {
        match pattern[index] {
            '\\' => index += 1,
            '(' => depth += 1,
            ')' if depth == 1 => return index,
            ')' => depth -= 1,
            _ => {}
        }
        index += 1;
    }
}

fn alternatives(inside: &[char]) -> Vec<&[char]> {
    let (mut parts, mut depth, mut start, mut index) = (Vec::new(), 0, 0, 0);
    while index < inside.len() {
        match inside[index] {
            '\\' => index += 1,
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(&inside[start..index]);
                start = index + 1;
            }
            _ => {}
        }
        index += 1;
    }
    parts.push(&inside[start..]);
    parts
}
