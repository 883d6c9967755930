//! Matches patterns of ignore and attribute files as git's `wildmatch` does, in time that grows with the product of both
//! lengths.
//!
//! git and libgit2 backtrack: sixty times `*a` in a pattern that an agent wrote would keep them busy for
//! ever. Here the set of reachable positions in the pattern advances by one byte of the text at a time.

/// A parsed pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
    fold: bool,
}

#[derive(Debug)]
enum Token {
    Byte(u8),
    /// `?`: any byte but `/`.
    One,
    /// `*`: any bytes but `/`.
    Star,
    /// `**` at the end: anything.
    Rest,
    /// `**/`: nothing, or anything that ends with `/`.
    Folders,
    /// `[…]`: the bytes whose value is true. Never `/`.
    Class(Box<[bool; 256]>),
}

impl Pattern {
    /// Parses a pattern. It ignores case if `fold` is true. Returns `None` if git takes it for a pattern that
    /// matches nothing.
    pub(crate) fn new(text: &[u8], fold: bool) -> Option<Self> {
        let mut tokens = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            at += 1;
            match byte {
                b'\\' => {
                    tokens.push(Token::Byte(*text.get(at)?));
                    at += 1;
                }
                b'?' => tokens.push(Token::One),
                b'[' => {
                    let (class, next) = class(text, at, fold)?;
                    tokens.push(Token::Class(class));
                    at = next;
                }
                b'*' => {
                    // `**` counts only as a whole part of the path; elsewhere it is `*`. git matches the plain text before the
                    // first special character by itself, so that `d**` begins with `**` for it.
                    let is_first = tokens.iter().all(|token| matches!(token, Token::Byte(_)))
                        && !text.iter().take(at).any(|byte| *byte == b'\\');
                    let begins = is_first || text.get(at - 2) == Some(&b'/');
                    let first = at;
                    while text.get(at) == Some(&b'*') {
                        at += 1;
                    }
                    let is_double = at > first && begins;
                    match text.get(at) {
                        None if is_double => tokens.push(Token::Rest),
                        Some(b'/') if is_double => {
                            tokens.push(Token::Folders);
                            at += 1;
                        }
                        _ => tokens.push(Token::Star),
                    }
                }
                byte => tokens.push(Token::Byte(byte)),
            }
        }
        Some(Self { tokens, fold })
    }

    /// Returns true if the pattern matches the whole of `text`.
    pub(crate) fn matches(&self, mut text: &[u8]) -> bool {
        // Nearly every pattern is a name, or `*` with an ending. The plain bytes at both ends then decide.
        let mut tokens = self.tokens.as_slice();
        while let [Token::Byte(wanted), rest @ ..] = tokens {
            match text {
                [byte, after @ ..] if self.same(*wanted, *byte) => (tokens, text) = (rest, after),
                _ => return false,
            }
        }
        while let [rest @ .., Token::Byte(wanted)] = tokens {
            match text {
                [before @ .., byte] if self.same(*wanted, *byte) => (tokens, text) = (rest, before),
                _ => return false,
            }
        }
        match tokens {
            [] => text.is_empty(),
            [Token::Star] => !text.contains(&b'/'),
            _ => self.matches_any(tokens, text),
        }
    }

    fn matches_any(&self, tokens: &[Token], text: &[u8]) -> bool {
        let mut now = vec![false; tokens.len() + 1];
        let mut next = vec![false; tokens.len() + 1];
        reach(tokens, &mut now, 0);
        for &byte in text {
            next.fill(false);
            let mut any = false;
            for (at, token) in tokens.iter().enumerate() {
                if now.get(at) != Some(&true) {
                    continue;
                }
                let to = match token {
                    Token::Byte(wanted) if self.same(*wanted, byte) => at + 1,
                    Token::One if byte != b'/' => at + 1,
                    Token::Class(class) if class.get(usize::from(byte)) == Some(&true) => at + 1,
                    Token::Star if byte != b'/' => at,
                    Token::Rest => at,
                    Token::Folders => {
                        // Stays before the `/`, because only whole parts may be left out.
                        next.iter_mut().skip(at).take(1).for_each(|here| *here = true);
                        any = true;
                        if byte != b'/' {
                            continue;
                        }
                        at + 1
                    }
                    _ => continue,
                };
                reach(tokens, &mut next, to);
                any = true;
            }
            // No position is left: the rest of the text cannot change that.
            if !any {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        now.last() == Some(&true)
    }

    fn same(&self, a: u8, b: u8) -> bool {
        a == b || (self.fold && a.eq_ignore_ascii_case(&b))
    }
}

/// A pattern as a line of an ignore or attribute file has it.
#[derive(Debug)]
pub(crate) struct PathPattern {
    pattern: Pattern,
    /// True for a line with `!`.
    pub(crate) is_negated: bool,
    /// True for a line that ends with `/`.
    only_folders: bool,
    /// True for a line without another `/`. It is matched with the last part of a path only.
    by_name: bool,
}

impl PathPattern {
    /// Parses a line without what surrounds the pattern. Returns `None` for one that matches nothing.
    pub(crate) fn new(line: &[u8], fold: bool) -> Option<Self> {
        let (line, is_negated) = line.strip_prefix(b"!").map_or((line, false), |rest| (rest, true));
        let (line, only_folders) = line.strip_suffix(b"/").map_or((line, false), |rest| (rest, true));
        if line.is_empty() {
            return None;
        }
        let by_name = !line.contains(&b'/');
        // A `/` at the beginning binds the pattern to the folder of the file.
        let line = line.strip_prefix(b"/").unwrap_or(line);
        Some(Self { pattern: Pattern::new(line, fold)?, is_negated, only_folders, by_name })
    }

    /// Returns true if it matches `path`, seen from the folder of its file, whose last part is `name`.
    pub(crate) fn matches(&self, path: &[u8], name: &[u8], is_folder: bool) -> bool {
        (is_folder || !self.only_folders) && self.pattern.matches(if self.by_name { name } else { path })
    }
}

/// Marks position `at`, and those after it that need no byte.
fn reach(tokens: &[Token], set: &mut [bool], at: usize) {
    for position in at.. {
        let Some(here) = set.get_mut(position) else { return };
        *here = true;
        if !matches!(tokens.get(position), Some(Token::Star | Token::Rest | Token::Folders)) {
            return;
        }
    }
}

/// Reads the class whose `[` is just before `at`, and returns it with the position after its `]`.
fn class(text: &[u8], mut at: usize, fold: bool) -> Option<(Box<[bool; 256]>, usize)> {
    let negated = matches!(text.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let mut set = Box::new([false; 256]);
    let mut add = |low: u8, high: u8| {
        for byte in low..=high {
            let cases = [byte, byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
            for byte in cases.into_iter().take(if fold { 3 } else { 1 }) {
                set.iter_mut().skip(usize::from(byte)).take(1).for_each(|it| *it = true);
            }
        }
    };
    let mut is_first = true;
    loop {
        let mut byte = *text.get(at)?;
        // A `]` in the first place is a member of the class.
        if byte == b']' && !is_first {
            at += 1;
            break;
        }
        is_first = false;
        at += 1;
        if byte == b'[' && text.get(at) == Some(&b':') {
            let name = text.get(at + 1..)?;
            let length = name.windows(2).position(|pair| pair == b":]")?;
            let is_in = posix(name.get(..length)?)?;
            (0..=u8::MAX).filter(is_in).for_each(|byte| add(byte, byte));
            at += length + 3;
            continue;
        }
        if byte == b'\\' {
            byte = *text.get(at)?;
            at += 1;
        }
        // A `-` before the `]` is a member of the class.
        if text.get(at) == Some(&b'-') && text.get(at + 1).is_some_and(|byte| *byte != b']') {
            let mut high = *text.get(at + 1)?;
            at += 2;
            if high == b'\\' {
                high = *text.get(at)?;
                at += 1;
            }
            add(byte, high);
        } else {
            add(byte, byte);
        }
    }
    for (byte, is_in) in set.iter_mut().enumerate() {
        // No class matches `/`, not even a negated one.
        *is_in = (*is_in != negated) && byte != usize::from(b'/');
    }
    Some((set, at))
}

fn posix(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| (b' '..=b'~').contains(byte),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern.as_bytes(), false).is_some_and(|pattern| pattern.matches(text.as_bytes()))
    }

    #[test]
    fn patterns_match_as_gits_do() {
        for (pattern, text) in [
            ("foo", "foo"),
            ("f?o", "foo"),
            ("*f", "foof"),
            ("*ob*a*r*", "foobar"),
            ("\\*", "*"),
            ("a[c-e]", "ad"),
            ("a[!b]", "ac"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]x]", "7"),
            ("**/foo", "foo"),
            ("**/foo", "a/b/foo"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("a/**", "a/x/y"),
            ("a**b", "axb"),
            // The plain text at the beginning is matched by itself, and `**` then begins the rest.
            ("d**", "d/a/b"),
            ("foo**/bar", "foobar"),
            ("foo**/bar", "foox/y/bar"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("foo", "fo"),
            ("*", "a/b"),
            ("a?b", "a/b"),
            ("a[^x]b", "a/b"),
            ("a**b", "a/b"),
            ("?d**", "xd/a"),
            ("**/foo", "xfoo"),
            ("a/**/b", "axb"),
            ("[a", "a"),
            ("a\\", "a\\"),
            ("[[:odd:]]", "o"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(Pattern::new(b"A[x-z]", true).unwrap().matches(b"aY"));
    }

    #[test]
    fn no_pattern_explodes() {
        let started = Instant::now();
        assert!(!matches(&format!("{}b", "*a".repeat(60)), &"a".repeat(200)));
        assert!(!matches(&format!("{}b", "**/a/".repeat(60)), &"a/".repeat(200)));
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
