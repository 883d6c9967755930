//! What stands in an agent's input box.

/// What a screen shows of the box into which text is typed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InputBox {
    /// There is none to type into: the agent asks something else, or is still drawing.
    Absent,
    /// It holds this, as it is shown: lines may be broken anywhere, and long text may be folded into a mark such as
    /// `[Pasted text #1 +61 lines]`. Blank: it is empty. A hint that the program shows in an empty box is left out.
    Holds(String),
    /// Nobody can tell from the screen.
    Unknown,
}

/// From this length on, in characters, the end of a text stands for all of it: boxes scroll.
const TELLING: usize = 120;

impl InputBox {
    /// Whether there is a box, and nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Holds(text) if seen(text).next().is_none())
    }

    /// Whether it holds `text` and nothing else: all of it, as far as the box is large enough; or a mark that folds it,
    /// with its count of lines or characters.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        let Self::Holds(shown) = self else { return false };
        if let Some(mark) = mark(shown) {
            return stands_for(mark, text);
        }
        let (shown, ours): (Vec<char>, Vec<char>) = (seen(shown).collect(), seen(text).collect());
        !shown.is_empty() && (shown == ours || shown.len() >= TELLING && ours.ends_with(&shown))
    }
}

/// What of a text a screen shows wherever its lines are broken.
fn seen(text: &str) -> impl Iterator<Item = char> {
    let joins =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}');
    text.chars().filter(move |c| !c.is_whitespace() && !c.is_control() && !joins(*c))
}

/// The words of a mark that stands for a paste, if that is all there is.
fn mark(shown: &str) -> Option<&str> {
    let mark = shown.trim().strip_prefix('[')?.strip_suffix(']')?;
    let is_mark = (mark.starts_with("Paste") || mark.starts_with("paste")) && !mark.contains(['[', ']']);
    is_mark.then_some(mark)
}

/// Whether a mark counts what `text` has: lines, those after the first one, or characters. One that counts nothing stands
/// for a long line.
fn stands_for(mark: &str, text: &str) -> bool {
    let words = mark.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let count = words.windows(2).find_map(|pair| match pair {
        [count, unit] => Some((*count, count.trim_start_matches(['~', '+']).parse::<usize>().ok()?, *unit)),
        _ => None,
    });
    let lines = text.lines().count();
    match count {
        Some((count, n, "line" | "lines")) => {
            n.checked_add(usize::from(count.starts_with('+'))) == Some(lines)
        }
        Some((_, n, _)) => [text.chars().count(), text.encode_utf16().count(), text.len()].contains(&n),
        None => lines == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(shown: &str, text: &str) -> bool {
        InputBox::Holds(shown.to_owned()).holds(text)
    }

    #[test]
    fn only_the_whole_text_counts() {
        assert!(holds("say hello\n  world", "say hello world"));
        assert!(holds("grüße 火\n🔥", "grüße 火🔥"));
        for shown in
            ["", "say hello", "xsay hello world", "say hello worldx", "say hello world say hello world"]
        {
            assert!(!holds(shown, "say hello world"), "{shown}");
        }
        assert!(!InputBox::Absent.holds("") && !InputBox::Unknown.holds("a") && !holds("", ""));
    }

    #[test]
    fn a_long_text_is_known_by_its_end() {
        let text: String = (0..200).map(|n| format!("line {n}\n")).collect();
        let end = &text[text.len() - 300..];
        assert!(holds(end, &text));
        assert!(!holds(&end[250..], &text), "too short to tell");
        assert!(!holds(&format!("{end}x"), &text) && !holds(&text[..300], &text));
    }

    #[test]
    fn a_mark_stands_for_a_paste_of_its_size() {
        let text: String = "a line\n".repeat(61) + "end";
        for mark in [
            "[Pasted text #1 +61 lines]",
            "[Pasted Text: 62 lines]",
            "[Paste #1 - 62 lines]",
            "[Pasted ~62 lines] ",
            &format!("[Pasted Content {} chars]", text.chars().count()),
        ] {
            assert!(holds(mark, &text), "{mark}");
        }
        for mark in
            ["[Pasted text #1 +60 lines]", "x [Pasted ~62 lines]", "[Pasted ~62 lines] [Pasted ~62 lines]"]
        {
            assert!(!holds(mark, &text), "{mark}");
        }
    }

    /// As Claude Code, Codex, Gemini, Copilot, opencode and Continue were seen to fold.
    #[test]
    fn a_mark_stands_for_no_other_paste() {
        let (long, seven) = ("word ".repeat(700) + "end", "one\n2\n3\n4\n5\n6\nseven");
        for mark in ["[Pasted text #1]", "[Pasted text #2]", "[Paste #7]", "[Pasted ~1 lines] "] {
            assert!(holds(mark, &long), "{mark}");
            assert!(!holds(mark, seven), "{mark}");
        }
        for mark in [
            "[Pasted text #4 +6 lines]",
            "[Pasted Text: 7 lines]",
            "[Paste #1, 7 lines]",
            "[Pasted ~7 lines]",
        ] {
            assert!(holds(mark, seven), "{mark}");
            for other in ["one", "one\ntwo", &seven[2..], &seven[4..], &format!("0\n{seven}")] {
                assert_eq!(holds(mark, other), other.lines().count() == 7, "{mark}: {other}");
            }
        }
        for mark in ["[Pasted Content 3503 chars]", "[Pasted Text: 3503 chars]"] {
            assert!(holds(mark, &long) && !holds(mark, &long[1..]), "{mark}");
        }
        assert!(!holds(&format!("[Pasted text #1 +{} lines]", usize::MAX), "one"));
        // Its own number is no count.
        assert!(
            !holds("[Pasted text #2 +60 lines]", "one\ntwo") && !holds("[Pasted text #1 +60 lines]", "one")
        );
    }

    #[test]
    fn blanks_are_nothing() {
        assert!(InputBox::Holds(" \u{a0}\n ".into()).is_empty());
        assert!(
            !InputBox::Holds("x".into()).is_empty()
                && !InputBox::Absent.is_empty()
                && !InputBox::Unknown.is_empty()
        );
    }
}
