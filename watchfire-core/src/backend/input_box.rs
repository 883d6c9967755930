//! The input box of an agent, as its screen shows it.

/// The content of the box into which text is typed, as read from the screen.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InputBox {
    /// There is no box: the agent shows a dialog, or has not finished drawing.
    Absent,
    /// The box shows this text. Lines may be broken anywhere, and long text may be folded into a placeholder such as
    /// `[Pasted text #1 +61 lines]`. A hint that the program shows in an empty box is left out, so an empty box gives a
    /// blank text.
    Holds(String),
    /// The screen does not show whether there is a box.
    Unknown,
}

/// Number of characters from which a visible end identifies the whole text, since boxes scroll and show only the end.
const ENOUGH: usize = 120;

impl InputBox {
    /// Returns true if there is a box without text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Holds(text) if visible(text).next().is_none())
    }

    /// Returns true if the box holds `text` and no other: all that is visible matches its end, or a placeholder counts
    /// its lines or characters.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        let Self::Holds(shown) = self else { return false };
        // Agents fold a long paste, so its text cannot be compared, only counted.
        if let Some(placeholder) = placeholder(shown) {
            return stands_for(placeholder, text);
        }
        let (shown, ours): (Vec<char>, Vec<char>) = (visible(shown).collect(), visible(text).collect());
        // Agents scroll a long text, so its end must do. Nothing visible proves nothing, not even for a blank
        // text.
        !shown.is_empty() && (shown == ours || shown.len() >= ENOUGH && ours.ends_with(&shown))
    }
}

/// Yields the characters that a screen shows regardless of where it breaks lines.
fn visible(text: &str) -> impl Iterator<Item = char> {
    // Emulators merge joiners and variation selectors into the character before, or drop them.
    let joins =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}');
    text.chars().filter(move |c| !c.is_whitespace() && !c.is_control() && !joins(*c))
}

/// Returns the words of the placeholder for a paste, if the box shows nothing else.
fn placeholder(shown: &str) -> Option<&str> {
    let words = shown.trim().strip_prefix('[')?.strip_suffix(']')?;
    // Brackets inside mean that the box shows more than one placeholder.
    let is_paste = (words.starts_with("Paste") || words.starts_with("paste")) && !words.contains(['[', ']']);
    is_paste.then_some(words)
}

/// Returns true if the count in a placeholder fits `text`: its lines, its lines after the first, or its characters. A
/// placeholder without a count stands for a single long line.
fn stands_for(placeholder: &str, text: &str) -> bool {
    let words = placeholder.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    // The number of the paste itself, such as `#1`, does not parse and is passed over.
    let count = words.windows(2).find_map(|pair| match pair {
        [count, unit] => Some((*count, count.trim_start_matches(['~', '+']).parse::<usize>().ok()?, *unit)),
        _ => None,
    });
    let lines = text.lines().count();
    match count {
        Some((count, n, "line" | "lines")) => {
            n.checked_add(usize::from(count.starts_with('+'))) == Some(lines)
        }
        // Agents written in JavaScript count UTF-16 units, others characters or bytes.
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
