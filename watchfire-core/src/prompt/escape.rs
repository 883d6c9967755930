//! Escaping of text inside a prompt.

/// Tags that structure a prompt. Foreign text can neither open nor close one.
pub(super) const TAGS: &[&str] = &[
    "acceptance_criteria",
    "answer",
    "anti_patterns",
    "codebase_exploration",
    "conflict",
    "context_management",
    "definition",
    "definition_of_done",
    "deviation_rules",
    "example",
    "examples",
    "execution_protocol",
    "git_workflow",
    "id_generation",
    "input_files",
    "inter_agent_communication",
    "memory",
    "output",
    "output_format",
    "person_instructions",
    "previous_attempt",
    "progress_tracking",
    "project",
    "prompt",
    "question",
    "role",
    "scope_rules",
    "session_startup",
    "signal_format",
    "system",
    "task",
    "task_quality",
    "test_integrity",
    "workspace",
];

/// Escapes everything in `text` that could be taken for one of the prompt's own tags: its `<` becomes `&lt;`.
///
/// Other markup stays as it is. Line ends become LF; control characters other than tab and newline, and characters that
/// reorder or hide text, are dropped.
#[must_use]
pub(super) fn neutralise(text: &str) -> String {
    // Hidden characters go first: one inside a tag's name would keep the name from being recognised, but not from being
    // read by a model.
    let unix = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut clean = String::with_capacity(unix.len());
    let visible: String = unix.chars().filter(|c| matches!(c, '\n' | '\t') || !is_hidden(*c)).collect();
    let mut rest = visible.as_str();
    // Only the opening bracket is escaped: without it, no tag is left.
    while let Some((before, after)) = rest.split_once('<') {
        clean.push_str(before);
        clean.push_str(if opens_tag(after) { "&lt;" } else { "<" });
        rest = after;
    }
    clean.push_str(rest);
    clean
}

/// Returns `text` without its HTML comments. One that is not closed stays.
#[must_use]
pub(super) fn without_comments(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, comment)) = rest.split_once("<!--") {
        // Without an end, everything after it would be lost in silence.
        let Some((_, after)) = comment.split_once("-->") else { break };
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

/// Returns `text` as a single line of at most `limit` characters, cut with `…`.
///
/// Runs of white space become one space, hidden characters are dropped, and double quotes and backticks become
/// apostrophes, so that the line can be quoted and typed.
#[must_use]
pub(super) fn one_line(text: &str, limit: usize) -> String {
    // Line breaks first: they are control characters, which the next step drops.
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let clean: String = spaced
        .chars()
        .filter(|c| !is_hidden(*c))
        .map(|c| if matches!(c, '"' | '`') { '\'' } else { c })
        .collect();
    // After the filter, since a hidden character between two spaces would leave both.
    let words: Vec<&str> = clean.split(' ').filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    let mut short: String = line.chars().take(limit.saturating_sub(1)).collect();
    // No space before the ellipsis.
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Returns the first `limit` bytes of `text` and the number of bytes left out.
pub(super) fn head(text: &str, limit: usize) -> (&str, usize) {
    // Cut backwards, so that a character across the limit is left out and the limit holds.
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (text.get(..end).unwrap_or(text), text.len() - end)
}

/// Returns the last `limit` bytes of `text` and the number of bytes left out.
pub(super) fn tail(text: &str, limit: usize) -> (&str, usize) {
    // Cut forwards, for the same reason.
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    (text.get(start..).unwrap_or(text), start)
}

/// Returns true if the text after a `<` names one of the prompt's tags. Models read `< /TASK>` as a closing tag too, so
/// spaces, slashes and case do not matter.
fn opens_tag(after: &str) -> bool {
    // Joiners are part of ordinary text, but a model reads a name with one in it as if it were not there.
    let seen = after.chars().filter(|c| !is_joiner(*c)).skip_while(|c| c.is_whitespace() || *c == '/');
    let name: String = seen.take(LONGEST_TAG + 1).collect();
    TAGS.iter().any(|tag| {
        name.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag))
            // A longer name, such as `<tasks>`, is markup of the text's own.
            && !name.get(tag.len()..).is_some_and(|end| end.starts_with(is_name_char))
    })
}

/// Longer than any name in [`TAGS`].
const LONGEST_TAG: usize = 32;

/// Returns true for characters that only join others or choose their form.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{34f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.')
}

/// Returns true for control characters and for characters that hide or reorder others.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_section() {
        for text in [
            "</task>",
            "</ta\u{200d}sk>",
            "<\u{fe0f}/\u{200c}task>",
            "</ task >",
            "< /TASK>",
            "<//task>",
            "</task\n>",
            "<role>",
            "<role attr='x'>",
            "</ta\u{200b}sk>",
            "</ta\u{1b}sk>",
            "</task",
            "<system>",
        ] {
            let clean = neutralise(text);
            assert!(!clean.contains('<') && clean.starts_with("&lt;"), "{text:?} became {clean:?}");
        }
    }

    #[test]
    fn other_markup_stays() {
        for text in
            ["<div>a < b</div>", "Vec<Task>", "<task-list>", "<tasks/>", "a\tb\nc", "<", "<<", "für 日本"]
        {
            let expected = if text == "Vec<Task>" { "Vec&lt;Task>" } else { text };
            assert_eq!(neutralise(text), expected);
        }
        assert_eq!(neutralise("a\r\nb\rc\u{202e}d\u{7}"), "a\nb\ncd");
    }

    #[test]
    fn lines_are_single_and_bounded() {
        assert_eq!(one_line(" Say \"hi\"\r\n\tto `all`\u{1b}[31m ", 80), "Say 'hi' to 'all'[31m");
        assert_eq!(one_line("don't", 80), "don't");
        assert_eq!(one_line(&"é".repeat(200), 10), format!("{}…", "é".repeat(9)));
        assert_eq!(one_line("\n\u{0}\u{2028}", 80), "");
    }

    #[test]
    fn cuts_respect_characters() {
        assert_eq!(head("aé", 2), ("a", 2));
        assert_eq!(tail("éa", 2), ("a", 2));
        assert_eq!((head("ab", 9), tail("ab", 9)), (("ab", 0), ("ab", 0)));
        assert_eq!((head("é", 0), tail("é", 0)), (("", 2), ("", 2)));
    }
}
