//! Parsing of bytes to records, with reasons that a person can act on.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_yaml::{Mapping, Value};

use crate::model::{Project, ProjectIndex, Settings, Task, in_words};

/// A kind of content of a YAML file.
pub(in crate::store) trait Record:
    Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Noun for messages: "a task".
    const WHAT: &'static str;
    /// Fields in which our value wins over a concurrent edit.
    const OWNED: &'static [&'static str] = &[];
    /// Fields that belong together: where another program set the first one, all are left to its edit.
    const TOGETHER: &'static [&'static str] = &[];

    /// Returns the version of the format.
    fn version(&self) -> u32;

    /// Returns true if it holds maps beside itself. The derived reader skips duplicate keys in those and among unknown
    /// fields, so that a text with them is parsed once more.
    fn holds_maps(&self) -> bool {
        true
    }
}

impl Record for Task {
    const WHAT: &'static str = "a task";
    const OWNED: &'static [&'static str] =
        &["agent_sessions", "started_at", "completed_at", "updated_at", "merge_failure_reason"];
    const TOGETHER: &'static [&'static str] = &["status", "success", "failure_reason", "completed_at"];

    fn version(&self) -> u32 {
        self.version
    }

    fn holds_maps(&self) -> bool {
        !self.extra.is_empty()
    }
}

impl Record for Project {
    const WHAT: &'static str = "a project";
    const OWNED: &'static [&'static str] = &["updated_at", "next_task_number"];

    fn version(&self) -> u32 {
        self.version
    }
}

impl Record for Settings {
    const WHAT: &'static str = "settings";

    fn version(&self) -> u32 {
        self.version
    }
}

impl Record for ProjectIndex {
    const WHAT: &'static str = "the index of projects";
    fn version(&self) -> u32 {
        self.version
    }
}

/// Reason why a text is rejected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::store) struct Fault {
    /// The line, from 1, if known.
    pub(in crate::store) line: Option<usize>,
    /// The column, from 1, where the place within the line matters.
    pub(in crate::store) column: Option<usize>,
    /// The problem and the expected form.
    pub(in crate::store) reason: String,
    /// The words of the parser, where the reason is in ours.
    pub(in crate::store) said: Option<String>,
}

impl Fault {
    pub(in crate::store) fn new(reason: impl Into<String>) -> Self {
        Self { line: None, column: None, reason: reason.into(), said: None }
    }
}

/// Returns the byte order mark of a file, if any, and its text.
pub(super) fn text_of(bytes: &[u8]) -> Result<(&str, &str), Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        Fault {
            line: Some(1 + good.iter().filter(|byte| **byte == b'\n').count()),
            ..Fault::new("the file is not UTF-8 text")
        }
    })?;
    Ok(text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }))
}

/// Parses a record.
pub(in crate::store) fn decode<T: Record>(bytes: &[u8]) -> Result<T, Fault> {
    let (_, text) = text_of(bytes)?;
    if text.trim().is_empty() {
        return Err(Fault::new(format!("the file is empty, expected {}", T::WHAT)));
    }
    let record: T = serde_yaml::from_str(text).map_err(|error| {
        // A line in the wrong place may first make another value of the one above.
        let syntax = serde_yaml::from_str::<Value>(text).err().map(|error| explain(text, &error));
        if let Some(fault) = syntax.filter(|fault| fault.said.is_some()) {
            return fault;
        }
        let fault = culprit::<T>(text, explain(text, &error));
        Fault { reason: in_words(&fault.reason), ..fault }
    })?;
    // The derived reader accepts duplicates among unknown fields; the generic one rejects them.
    if record.holds_maps() {
        let _: Value = serde_yaml::from_str(text).map_err(|error| explain(text, &error))?;
    }
    match record.version() {
        1 => Ok(record),
        other => {
            let reason = match other {
                0 => "version: 0 is no version of this format, expected 1".to_owned(),
                newer => format!(
                    "version: {newer} is newer than this program knows (1): update Watchfire, or set it back to 1"
                ),
            };
            Err(Fault { line: line_of(text, &["version"]), ..Fault::new(reason) })
        }
    }
}

/// Turns an error of the library into a fault, with the position separate and a hint for common mistakes of agents.
pub(super) fn explain(text: &str, error: &serde_yaml::Error) -> Fault {
    let message = error.to_string();
    let line = error.location().map(|location| location.line());
    let mut reason = message;
    if let Some(location) = error.location() {
        reason = reason.replace(&format!(" at line {} column {}", location.line(), location.column()), "");
    }
    // The library's message does not say what to do.
    if reason.contains("more than one document") {
        reason =
            "the file holds more than one document: remove everything from the second `---` on".to_owned();
    } else if let Some(shown) = line.and_then(|line| text.lines().nth(line.saturating_sub(1))) {
        let indent: String = shown.chars().take_while(|c| c.is_whitespace()).collect();
        // The parser does not always name the tab: in an indentation it may be a character that cannot start
        // any token.
        if reason.contains("a tab character") || (reason.contains("any token") && indent.contains('\t')) {
            reason = "a tab where YAML wants spaces".to_owned();
        } else if let Some(place) = misplaced(text, error) {
            return place;
        }
    }
    let again = error.location().and_then(|location| again(text, &location, &reason));
    Fault { line: again.or(line), ..Fault::new(reason) }
}

/// Returns the fault of a line that begins too far to the left or right, or is not the line of a key.
fn misplaced(text: &str, error: &serde_yaml::Error) -> Option<Fault> {
    let (said, location) = (error.to_string(), error.location()?);
    let (mut line, mut column) = (location.line(), location.column());
    // The parser found out on a later line.
    let key = said.split_once("simple key at line ").and_then(|(_, at)| at.split_once(" column "));
    if let Some((at, rest)) = key {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        (line, column) = (at.parse().ok()?, digits.parse().ok()?);
    }
    let shown = text.lines().nth(line.saturating_sub(1))?;
    let before: String = shown.chars().take(column.saturating_sub(1)).collect();
    let begins_there = before.trim().is_empty();
    let reason = if said.contains("could not find expected ':'") {
        "no `: ` on a line where a key is expected: add it, or check the indentation of this line"
    } else if said.contains("mapping values are not allowed") {
        match before.contains(": ") {
            true => "a second `: ` on this line: put quotes around a value that contains `: `",
            false => "wrong indentation: check that this line begins where its neighbours do",
        }
    } else if said.contains("while parsing a block") && begins_there {
        "wrong indentation: check that this line begins where its neighbours do"
    } else if said.contains("while parsing a block") && said.contains("did not find expected key") {
        "text behind the end of a value: put quotes around all of the value"
    } else {
        return None;
    };
    Some(Fault { line: Some(line), column: Some(column), said: Some(said), ..Fault::new(reason) })
}

/// Returns the line on which a key stands a second time. The library tells only where their map begins.
fn again(text: &str, map: &serde_yaml::Location, reason: &str) -> Option<usize> {
    let (_, key) = reason.split_once("duplicate ")?;
    let key = key.split(['"', '`']).nth(1)?;
    let column = map.column().saturating_sub(1);
    let is_key = |line: &str| names(line.get(column..).unwrap_or_default(), key);
    let mut lines = text.lines().enumerate().skip(map.line().saturating_sub(1));
    // Behind a dash, the map begins within its first line.
    let (first, begin) = lines.next()?;
    let within = lines.take_while(|(_, line)| line.trim().is_empty() || indent(line) >= column);
    let keys =
        within.filter(|(_, line)| indent(line) == column && is_key(line)).map(|(number, _)| number + 1);
    is_key(begin).then_some(first + 1).into_iter().chain(keys).nth(1)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns true if a line begins with this key.
fn names(line: &str, key: &str) -> bool {
    let rest = line.trim_start_matches(['"', '\'']).strip_prefix(key);
    rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
}

/// Finds the field at fault where the library does not name it, or only its section: values that are well-formed YAML, but
/// invalid.
fn culprit<T: Record>(text: &str, fault: Fault) -> Fault {
    let Ok(map) = serde_yaml::from_str::<Mapping>(text) else { return fault };
    let fails_alike = |map: &Mapping| {
        // From text, where a number is a text, too.
        let read = serde_yaml::to_string(map).and_then(|text| serde_yaml::from_str::<T>(&text));
        read.is_err_and(|error| error.to_string().contains(&fault.reason))
    };
    let is_named = map.keys().filter_map(Value::as_str).any(|key| fault.reason.contains(&format!("`{key}`")));
    // Costs one parse for each field, hence the limit on the size.
    // Of what is missing, no field is at fault.
    let is_named = is_named || fault.reason.contains("missing field");
    if is_named || text.len() > 1 << 20 || !fails_alike(&map) {
        return fault;
    }
    let path = faulty(&map, &fails_alike);
    let Some(line) = line_of(text, &path) else { return fault };
    let path = path.join(".");
    // The library may have named the place itself, up to an item of a list, or the section.
    let reason = match fault.reason.split_once(": ") {
        Some((place, _)) if place.starts_with(&path) => fault.reason,
        Some((place, what)) if path.strip_prefix(place).is_some_and(|rest| rest.starts_with('.')) => {
            format!("{path}: {what}")
        }
        _ => format!("{path}: {}", fault.reason),
    };
    Fault { line: Some(line), ..Fault::new(reason) }
}

/// Returns the keys that lead to the field without which a map fails no more.
fn faulty(map: &Mapping, fails: &dyn Fn(&Mapping) -> bool) -> Vec<String> {
    let without = |key: &Value| {
        let mut rest = map.clone();
        rest.shift_remove(key);
        rest
    };
    let Some((key, value)) = map.iter().find(|(key, _)| !fails(&without(key))) else { return Vec::new() };
    let mut path: Vec<String> = key.as_str().map(str::to_owned).into_iter().collect();
    if let (Value::Mapping(inner), 1) = (value, path.len()) {
        path.extend(faulty(inner, &|inner| {
            let mut all = map.clone();
            all.insert(key.clone(), Value::Mapping(inner.clone()));
            fails(&all)
        }));
    }
    path
}

/// Returns the line of a field, or of the section that has it on its line.
pub(in crate::store) fn line_of(text: &str, path: &[impl AsRef<str>]) -> Option<usize> {
    let is_yaml = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut section: Vec<_> = text.lines().enumerate().filter(|(_, line)| is_yaml(line)).collect();
    let mut found = None;
    for key in path {
        let depth = section.first().map_or(0, |(_, line)| indent(line));
        let mut rest = section.into_iter();
        let is_it =
            |(_, line): &(usize, &str)| indent(line) == depth && names(line.trim_start(), key.as_ref());
        let Some((number, _)) = rest.find(is_it) else { break };
        found = Some(number + 1);
        section = rest.take_while(|(_, line)| indent(line) > depth).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version: 1\ntask_id: k7xm2nq9\ntask_number: 1\ntitle: t\nstatus: draft\n";

    fn fault(text: &str) -> Fault {
        decode::<Task>(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn what_may_be_left_open_may_be_left_open() {
        let open = "prompt:\nacceptance_criteria: null\nagent: ''\nsuccess: ~\nfailure_reason:\nposition:\n\
                    agent_sessions: null\ncreated_at: ''\nstarted_at: \"\"\ndeleted_at: null\nlabels:\ndepends_on: null\n";
        let task: Task = decode(format!("\u{feff}{GOOD}{open}").replace('\n', "\r\n").as_bytes()).unwrap();
        assert_eq!(task, decode(GOOD.as_bytes()).unwrap());
        let project =
            "version: 1\nproject_id: p\nname: n\nstatus:\ndefinition:\nmerge:\nverify:\nnext_task_number:\n";
        assert_eq!(decode::<Project>(project.as_bytes()).unwrap().next_task_number, 0);
        let settings = "agents:\n  claude-code:\n  codex:\n    path: null\ndefaults:\n  auto_merge: null\n";
        let settings: Settings = decode(settings.as_bytes()).unwrap();
        assert_eq!((settings.agents.len(), settings.defaults.auto_merge), (2, true));
    }

    #[test]
    fn reasons_name_line_and_field() {
        for (text, line, words) in [
            (String::new(), None, "empty"),
            ("\n \n".to_owned(), None, "empty"),
            (GOOD.replace("status: draft\n", ""), Some(1), "missing field `status`"),
            (
                GOOD.replace("status: draft", "status: dra"),
                Some(5),
                "unknown word \"dra\", expected one of draft, ready, done",
            ),
            (
                GOOD.replace("task_number: 1", "task_number: one"),
                Some(3),
                "task_number: expected a whole number from 0 on, found the text \"one\"",
            ),
            (GOOD.replace("title: t", "title: [t]"), Some(4), "title: expected a text, found a list"),
            (GOOD.replace("title: t", "title: a: b"), Some(4), "put quotes around"),
            (GOOD.replace("title: t", "title: \"cut"), None, "quoted scalar"),
            (GOOD.replace("title: t", "title: \"a\" b"), Some(4), "text behind the end of a value"),
            (GOOD.replace("title: t", " title: t"), Some(4), "wrong indentation"),
            (GOOD.replace("title: t", "title"), Some(4), "no `: ` on a line where a key is expected"),
            (GOOD.replace("title: t", "title: t\nodd:\n  a: 1\n b: 2"), Some(7), "wrong indentation"),
            (GOOD.replace("title: t", "title: t\nodd:\n  a: 1\n    b: 2"), Some(7), "wrong indentation"),
            (GOOD.replace("title: t", "title: t\nlabels:\n  - a\n - b"), Some(7), "wrong indentation"),
            (format!("{GOOD}prompt: |\n\tx\n"), Some(7), "a tab where YAML wants spaces"),
            (format!("{GOOD}title: again\n"), Some(6), "duplicate field `title`"),
            (format!("{GOOD}odd: 1\n'odd': 2\n"), Some(7), "duplicate entry with key \"odd\""),
            (format!("{GOOD}odd:\n  a: 1\n  odd: 2\n  a: 3\n"), Some(9), "duplicate entry with key \"a\""),
            (
                format!("{GOOD}odd:\n- a: 1\n  b: 2\n  a: 3\n- a: 4\n"),
                Some(9),
                "duplicate entry with key \"a\"",
            ),
            (format!("{GOOD}---\n{GOOD}"), None, "more than one document"),
            (GOOD.replace("version: 1", "version: 2"), Some(1), "newer than this program knows"),
            (format!("# mine\n{}", GOOD.replace("version: 1", "version: 0")), Some(2), "no version"),
            (format!("{GOOD}started_at: yesterday\n"), Some(6), "started_at: invalid timestamp"),
            ("- a\n".to_owned(), None, "expected"),
            ("just words\n".to_owned(), None, "expected"),
        ] {
            let fault = fault(&text);
            assert!(fault.reason.contains(words), "{text:?}: {fault:?}");
            assert!(line.is_none() || fault.line == line, "{text:?}: {fault:?}");
        }
        for (text, line, words) in [
            ("color: 12\n", 4, "color: not a colour, expected #rrggbb, found \"12\""),
            ("stall_after: -1\n", 4, "stall_after: invalid duration"),
            ("verify: [a, {b: c}]\n", 4, "verify[1]: expected a text"),
            (
                "# wildfire:\nwildfire:\n  execute:\n    model: {}\n",
                7,
                "wildfire.execute.model: expected a text",
            ),
            ("sandbox_rules: {deny: [x]}\n", 4, "sandbox_rules.deny: expected a path"),
        ] {
            let project = format!("version: 1\nproject_id: p\nname: n\n{text}");
            let fault = decode::<Project>(project.as_bytes()).unwrap_err();
            assert_eq!(fault.line, Some(line), "{text:?}: {fault:?}");
            assert!(fault.reason.starts_with(words), "{text:?}: {fault:?}");
        }
        for (text, line, words) in [
            (
                "defaults:\n  auto_merge: true\n\n  prune_every: x\n",
                4,
                "defaults.prune_every: invalid duration",
            ),
            ("notify:\n  events: [asks, foo]\n", 2, "notify.events: unknown word"),
            ("tui: {}\nagents: {}\n'max_parallel': many\n", 3, "max_parallel: expected a whole number"),
            ("tui:\n  keys:\n    theme: a\n  theme: pink\n", 4, "tui.theme: unknown word"),
        ] {
            let fault = decode::<Settings>(text.as_bytes()).unwrap_err();
            assert_eq!(fault.line, Some(line), "{text:?}: {fault:?}");
            assert!(fault.reason.starts_with(words), "{text:?}: {fault:?}");
        }
        let fault = fault(&GOOD.replace("title: t", "title: t\nodd:\n  a: 1\n b: 2"));
        assert_eq!((fault.line, fault.column), (Some(7), Some(2)));
        assert!(fault.said.unwrap().contains("did not find expected key"));
        let fault = decode::<Task>(b"version: 1\ntitle: \xff\n").unwrap_err();
        assert_eq!((fault.line, fault.reason.as_str()), (Some(2), "the file is not UTF-8 text"));
    }
}
