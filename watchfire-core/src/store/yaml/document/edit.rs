//! Changes fields in a text, and nothing else.

use std::ops::Range;

use serde_yaml::{Mapping, Value};
use yaml_edit::{Mapping as MappingNode, Sequence as SequenceNode, YamlFile, YamlNode};

use super::Fault;
use super::merge::fields;
use super::read::{Record, decode, text_of};
use super::render::{self, Rendered};

/// Returns the text of a new file, and the record that reading it gives.
pub(in crate::store) fn compose<T: Record>(record: &T) -> Result<(String, T), Fault> {
    let mut text = render::entries(&fields(record)?, 0).join("\n");
    text.push('\n');
    verify(text, record)
}

/// Changes the text `bytes`, which holds `before`, so that it holds `after`. Lines of fields that are equal in both
/// keep every byte. Returns the text, and the record that reading it gives.
///
/// A removed field takes its line along, unless the line has a comment: then it becomes `null`.
pub(in crate::store) fn edit<T: Record>(bytes: &[u8], before: &T, after: &T) -> Result<(String, T), Fault> {
    let (mark, text) = text_of(bytes)?;
    let (old, new) = (fields(before)?, fields(after)?);
    let root = YamlFile::parse(text).tree().document().and_then(|document| document.as_mapping());
    let root = root.ok_or_else(|| refusal("its top level"))?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut result = Err(refusal("the changed fields"));
    // A block scalar at the end of the file, without a line break, changes its value once a line follows. So
    // new fields are tried at several places, with and without a final line break, until the result reads as
    // meant.
    for (at_top, end) in [(false, ""), (false, newline), (true, ""), (true, newline)] {
        let mut editor = Editor { text, newline, at_top, splices: Vec::new() };
        if root.is_flow_style() {
            editor.flow_mapping(&root, &old, &new)?;
        } else {
            editor.mapping(&root, &old, &new)?;
        }
        result = verify(format!("{mark}{}{end}", editor.apply()?), after);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Returns the text with its record, if that is the intended one. Timestamps are compared as they are written, in
/// whole seconds.
fn verify<T: Record>(text: String, meant: &T) -> Result<(String, T), Fault> {
    let meant: Option<T> = serde_yaml::from_value(Value::Mapping(fields(meant)?)).ok();
    match decode::<T>(text.as_bytes()) {
        Ok(read) if Some(&read) == meant.as_ref() => Ok((text, read)),
        _ => Err(refusal("the changed fields")),
    }
}

fn refusal(what: &str) -> Fault {
    Fault::new(format!(
        "{what} cannot be changed without touching the rest of the file: write it in plain block style, or change it \
         by hand"
    ))
}

struct Editor<'a> {
    text: &'a str,
    newline: &'static str,
    /// True to insert new entries before all others.
    at_top: bool,
    splices: Vec<(Range<usize>, String)>,
}

/// One `key: value` in the text.
struct Entry {
    key: Value,
    start: usize,
    after_colon: usize,
    /// The value, without the space and line breaks that separate it from the next entry.
    value: Range<usize>,
    node: Option<YamlNode>,
}

impl<'a> Editor<'a> {
    fn mapping(&mut self, node: &MappingNode, old: &Mapping, new: &Mapping) -> Result<(), Fault> {
        let entries = self.entries(node)?;
        let first = entries.first().ok_or_else(|| refusal("an empty mapping"))?;
        // New entries are indented like the first one.
        let column = first.start - self.line_start(first.start);
        let find = |key: &Value| entries.iter().find(|entry| entry.key == *key);
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            if let Some(entry) = find(key) {
                self.remove(entry);
            }
        }
        let mut previous = None;
        for (key, value) in new {
            let (was, entry) = (old.get(key), find(key));
            match entry {
                Some(entry) if was != Some(value) => self.replace(entry, was, value, column)?,
                None if was != Some(value) => {
                    let value = only_new(was, value);
                    self.insert(previous, first, render::entry(key, &value, column));
                }
                _ => {}
            }
            // A new field goes behind the last existing one of the record's own order.
            previous = entry.or(previous);
        }
        Ok(())
    }

    fn entries(&self, node: &MappingNode) -> Result<Vec<Entry>, Fault> {
        node.entries().map(|entry| self.entry(entry.key_node(), entry.value_node())).collect()
    }

    fn entry(&self, key: Option<YamlNode>, node: Option<YamlNode>) -> Result<Entry, Fault> {
        let key = range(&key.ok_or_else(|| refusal("an entry without a key"))?);
        let written = self.slice(&key);
        let after = self.text.get(key.end..).unwrap_or_default();
        let spaces = after.len() - after.trim_start_matches([' ', '\t']).len();
        if !after[spaces..].starts_with(':') {
            return Err(refusal(&format!("an entry with the complex key {written}")));
        }
        let after_colon = key.end + spaces + 1;
        let full = node.as_ref().map(range).filter(|range| range.start >= after_colon && !range.is_empty());
        let value = full.map_or(after_colon..after_colon, |range| {
            let shown = self.slice(&range);
            let header = shown.lines().next().unwrap_or_default();
            // `|+` and `>+` keep trailing line breaks, which are then part of the value.
            let kept = shown.starts_with(['|', '>'])
                && header.split('#').next().is_some_and(|header| header.contains('+'));
            let trimmed = if kept {
                shown.strip_suffix('\n').map_or(shown, |rest| rest.strip_suffix('\r').unwrap_or(rest))
            } else if shown.starts_with(['|', '>']) {
                // A line of spaces may belong to the text.
                shown.trim_end_matches(['\n', '\r'])
            } else {
                shown.trim_end()
            };
            range.start..range.start + trimmed.len()
        });
        let start = key.start;
        // A key may be quoted. Only its value compares with the keys of the record.
        let key = serde_yaml::from_str(written).unwrap_or_else(|_| written.into());
        Ok(Entry { key, start, after_colon, value, node })
    }

    fn replace(
        &mut self,
        entry: &Entry,
        was: Option<&Value>,
        value: &Value,
        column: usize,
    ) -> Result<(), Fault> {
        match (&entry.node, was, value) {
            (Some(YamlNode::Mapping(node)), Some(Value::Mapping(old)), Value::Mapping(new))
                // A mapping that becomes empty keeps no entries to edit. It is rendered anew as `{}` below.
                if !new.is_empty() =>
            {
                return if node.is_flow_style() {
                    self.flow_mapping(node, old, new)
                } else {
                    self.mapping(node, old, new)
                };
            }
            (Some(YamlNode::Sequence(node)), Some(Value::Sequence(old)), Value::Sequence(new))
                if !node.is_flow_style() && self.sequence(node, old, new)? =>
            {
                return Ok(());
            }
            _ => {}
        }
        let old = self.slice(&entry.value);
        let gap = self.text.get(entry.after_colon..entry.value.start).unwrap_or_default();
        // Other places may refer to it, and would change with it or break.
        if gap.trim_start().starts_with(['&', '!']) || old.starts_with(['&', '!', '*']) {
            return Err(refusal(&format!("a value with an anchor, an alias or a tag ({old})")));
        }
        let Rendered { head, body } = render::like(old, value, column);
        let body: String = body.iter().map(|line| format!("{}{line}", self.newline)).collect();
        let spaced = if head.is_empty() { String::new() } else { format!(" {head}") };
        let key_line_end = self.line_end(entry.after_colon);
        if entry.value.start > key_line_end {
            // The value is below its key. A comment on the key's line stays.
            self.splice(entry.after_colon..entry.after_colon, spaced);
            self.splice(key_line_end..entry.value.end, body);
        } else if old.starts_with(['|', '>']) {
            // Only the header, such as `|2-`, gives way to the new one. A comment behind it stays.
            let indicator = old.len() - old.trim_start_matches(|c: char| "|>+-0123456789".contains(c)).len();
            self.splice(entry.after_colon..entry.value.start + indicator, spaced);
            self.splice(key_line_end..entry.value.end.max(key_line_end), body);
        } else {
            // The spaces that a person put before the value stay, unless the value moves to the lines below.
            let written = if gap.is_empty() || head.is_empty() {
                (entry.after_colon, spaced)
            } else {
                (entry.value.start, head)
            };
            self.splice(written.0..entry.value.end, written.1);
            // Behind the rest of the line, which may be a comment.
            let end = self.line_end(entry.value.end);
            self.splice(end..end, body);
        }
        Ok(())
    }

    fn remove(&mut self, entry: &Entry) {
        let start = self.line_start(entry.start);
        let end = self.line_end(entry.value.end);
        // An entry may follow the `-` of a list item, which has to stay.
        let alone = self.slice(&(start..entry.start)).trim().is_empty();
        let commented = self.slice(&(entry.value.end..end)).contains('#')
            || self.slice(&(entry.after_colon..self.line_end(entry.after_colon))).contains(" #");
        if !alone || commented {
            // An error here is found by the verification.
            let _ = self.replace(entry, None, &Value::Null, 0);
            return;
        }
        let rest = self.text.get(end..).unwrap_or_default();
        let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
        self.splice(start..end + newline, String::new());
    }

    fn insert(&mut self, previous: Option<&Entry>, first: &Entry, lines: Vec<String>) {
        let start = self.line_start(first.start);
        let own_line = self.slice(&(start..first.start)).trim().is_empty();
        let lines = lines.join(self.newline);
        match previous {
            // Behind a `-` no line can be put before the first entry, so a new one goes below it.
            _ if own_line && (previous.is_none() || self.at_top) => {
                self.splice(start..start, format!("{lines}{}", self.newline))
            }
            other => {
                let end = self.line_end(other.unwrap_or(first).value.end);
                self.splice(end..end, format!("{}{lines}", self.newline));
            }
        }
    }

    /// Changes items in place, removes some, appends some. Returns false, with nothing done, for any other change.
    fn sequence(&mut self, node: &SequenceNode, old: &[Value], new: &[Value]) -> Result<bool, Fault> {
        let nodes: Vec<YamlNode> = node.values().collect();
        let kept: Vec<&Value> = old.iter().filter(|item| new.iter().any(|other| same(item, other))).collect();
        // Items that change places are left to a rewrite of the whole list.
        let in_order = kept.iter().zip(new).all(|(a, b)| same(a, b));
        let (Some(first), Some(last), true) = (nodes.first(), nodes.last(), in_order) else {
            return Ok(false);
        };
        // The tree and the reader have to see the same items. Otherwise an edit would hit the wrong one.
        if nodes.len() != old.len() || kept.is_empty() {
            return Ok(false);
        }
        let start = range(first).start;
        let dash = self.slice(&(self.line_start(start)..start));
        let column = dash.len() - dash.trim_start_matches(' ').len();
        let last = self.item_end(last);
        for (item, node) in old.iter().zip(&nodes) {
            let place = range(node);
            match (new.iter().find(|other| same(item, other)), node) {
                (None, _) => {
                    let start = self.line_start(place.start);
                    if self.slice(&(start..place.start)).trim() != "-" {
                        return Err(refusal("an item of a list"));
                    }
                    let end = self.item_end(node);
                    // From the line break before it, so that appended items go to the end of the list.
                    self.splice(start.saturating_sub(self.newline.len())..end, String::new());
                }
                (Some(other), YamlNode::Mapping(node)) if item != other => match (item, other) {
                    (Value::Mapping(old), Value::Mapping(new)) if node.is_flow_style() => {
                        self.flow_mapping(node, old, new)?;
                    }
                    (Value::Mapping(old), Value::Mapping(new)) => self.mapping(node, old, new)?,
                    _ => return Err(refusal("an item of a list")),
                },
                (Some(other), _) if item != other => return Err(refusal("an item of a list")),
                _ => {}
            }
        }
        // `new` begins with the items that are kept, as was checked above.
        for item in new.iter().skip(kept.len()) {
            let lines = render::item(item, column).join(self.newline);
            self.splice(last..last, format!("{}{lines}", self.newline));
        }
        Ok(true)
    }

    fn item_end(&self, node: &YamlNode) -> usize {
        let range = range(node);
        let shown = self.slice(&range).trim_end();
        self.line_end(range.start + shown.len())
    }

    fn flow_mapping(&mut self, node: &MappingNode, old: &Mapping, new: &Mapping) -> Result<(), Fault> {
        let entries = self.entries(node)?;
        let find = |key: &Value| entries.iter().find(|entry| entry.key == *key);
        let last = entries.last().ok_or_else(|| refusal("an empty mapping"))?;
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            if let Some(entry) = find(key) {
                // Removing it would need the comma of a neighbour; `null` reads as absent.
                self.splice(entry.value.clone(), " null".to_owned());
            }
        }
        for (key, value) in new {
            let was = old.get(key);
            match find(key) {
                _ if was == Some(value) => {}
                Some(entry) => {
                    let space = if entry.value.start == entry.after_colon { " " } else { "" };
                    self.splice(entry.value.clone(), format!("{space}{}", render::flow(value)));
                }
                None => {
                    let (key, value) = (render::flow(key), render::flow(&only_new(was, value)));
                    self.splice(last.value.end..last.value.end, format!(", {key}: {value}"));
                }
            }
        }
        Ok(())
    }

    fn splice(&mut self, range: Range<usize>, text: String) {
        if !(range.is_empty() && text.is_empty()) {
            self.splices.push((range, text));
        }
    }

    fn apply(mut self) -> Result<String, Fault> {
        // Collected in the order of the fields, applied in the order of the text.
        // The sort is stable, so entries that are inserted at one place keep their order.
        self.splices.sort_by_key(|(range, _)| (range.start, range.end));
        let mut edited = String::with_capacity(self.text.len() + 256);
        let mut done = 0;
        for (range, replacement) in &self.splices {
            // Overlapping splices are a mistake of ours, and must not corrupt the file.
            let kept = self.text.get(done..range.start).ok_or_else(|| refusal("overlapping fields"))?;
            edited.push_str(kept);
            edited.push_str(replacement);
            done = range.end;
        }
        edited.push_str(self.text.get(done..).unwrap_or_default());
        Ok(edited)
    }

    fn slice(&self, range: &Range<usize>) -> &'a str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
    }

    /// Returns the end of the line of `at`, before its line break.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let line = if line.len() < rest.len() { line.strip_suffix('\r').unwrap_or(line) } else { line };
        at + line.len()
    }
}

/// Returns the part of a new field that differs from the default that was read for it.
fn only_new(was: Option<&Value>, value: &Value) -> Value {
    match (was, value) {
        (Some(Value::Mapping(was)), Value::Mapping(map)) => {
            let new = map.iter().filter(|(key, value)| was.get(*key) != Some(*value));
            Value::Mapping(new.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        _ => value.clone(),
    }
}

/// Returns true if two items of a list stand for the same thing, possibly changed.
fn same(a: &Value, b: &Value) -> bool {
    match (a.get("project_id"), b.get("project_id")) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn range(node: &YamlNode) -> Range<usize> {
    let range = node.byte_range();
    range.start as usize..range.end as usize
}
