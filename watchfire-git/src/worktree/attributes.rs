//! Attributes of paths, as git reads them.
//!
//! libgit2 matches the patterns of attribute files by backtracking, without an end that one could wait for. A file of
//! attributes may come from an agent, so it is read here: no link is followed, no FIFO is waited for, lengths are bounded,
//! and so is the time for matching.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use watchfire_core::{Error, ErrorKind, Result};

use crate::files;
use crate::objects::tree::join;
use crate::worktree::wildmatch::PathPattern;

/// Name of the files in which a project gives attributes.
pub(crate) const ATTRIBUTES: &str = ".gitattributes";

/// Upper bound for a file of attributes, in bytes. git ignores one of more than 100 MB.
const LONGEST: u64 = 4 << 20;
/// Upper bound for a line, in bytes. git ignores longer ones.
const LONGEST_LINE: usize = 2048;
/// Upper bound for the time that one reader spends on matching. Half a million paths with a hundred rules take a tenth.
const LIMIT: Duration = Duration::from_secs(20);

/// The value of an attribute. There is none where git calls it unspecified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Value {
    Set,
    Unset,
    Text(Vec<u8>),
}

/// Names and values, in the order of the line. `None` is `!name`.
type Gives = Vec<(Vec<u8>, Option<Value>)>;

/// Reads the content of a file in the index by its path.
pub(crate) type FromIndex<'a> = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + 'a>;

/// Contents of attribute files by path, in place of those in the working tree. `None` for one that is not there.
pub(crate) type Replaced = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The attributes of the paths of one working tree.
pub(crate) struct Attributes<'a> {
    files: PathBuf,
    index: FromIndex<'a>,
    replaced: Replaced,
    fold: bool,
    /// Rules of `info/attributes`, which outweigh all others.
    info: Rc<Vec<Rule>>,
    /// Rules of the person and of this machine, and those that git brings. The strongest first.
    outer: [Rc<Vec<Rule>>; 3],
    /// Rules by folder. Neighbours share them.
    levels: RefCell<HashMap<Vec<u8>, Rc<Vec<Rule>>>>,
    macros: BTreeMap<Vec<u8>, Gives>,
    spent: Cell<Duration>,
}

/// One line of an attribute file.
#[derive(Debug)]
struct Rule {
    subject: Subject,
    gives: Gives,
}

#[derive(Debug)]
enum Subject {
    Paths(PathPattern),
    /// The name of a macro.
    Macro(Vec<u8>),
}

impl<'a> Attributes<'a> {
    /// Opens the attributes of the working tree `files`. In a repository without one, all are in the index.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn open(repo: &git2::Repository, files: &Path, index: FromIndex<'a>) -> Result<Self> {
        Self::replacing(repo, files, index, Replaced::new())
    }

    /// Opens the attributes that the working tree `files` has with the files `replaced`.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn replacing(
        repo: &git2::Repository,
        files: &Path,
        index: FromIndex<'a>,
        replaced: Replaced,
    ) -> Result<Self> {
        let config = repo.config().and_then(|mut config| config.snapshot()).ok();
        let fold = config.as_ref().is_some_and(|config| config.get_bool("core.ignorecase").unwrap_or(false));
        let global = config.and_then(|config| config.get_path("core.attributesFile").ok());
        // git's default, in case the setting is missing.
        let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".config"));
        let base = std::env::var_os("XDG_CONFIG_HOME").filter(|base| !base.is_empty());
        let global =
            global.or_else(|| Some(base.map_or_else(home, |base| Some(base.into()))?.join("git/attributes")));
        let own = |path: Option<PathBuf>| {
            // The person's own. They may be links, for example to a folder with settings.
            let text = path
                .and_then(|path| files::read_plain(&path.canonicalize().unwrap_or(path), LONGEST).ok()?);
            Rc::new(rules(&text.unwrap_or_default(), fold, true))
        };
        let info = own(Some(repo.commondir().join("info/attributes")));
        let built_in = Rc::new(rules(b"[attr]binary -diff -merge -text", fold, true));
        let outer = [own(global), own(Some("/etc/gitattributes".into())), built_in];
        let mut this = Self {
            files: files.to_owned(),
            index,
            replaced,
            fold,
            info,
            outer,
            levels: RefCell::default(),
            macros: BTreeMap::new(),
            spent: Cell::default(),
        };
        let root = this.level(&[])?;
        let lists = [&this.info, &root].into_iter().chain(&this.outer);
        for rule in lists.flat_map(|list| list.iter().rev()) {
            if let Subject::Macro(name) = &rule.subject {
                // The strongest definition counts.
                this.macros.entry(name.clone()).or_insert_with(|| rule.gives.clone());
            }
        }
        Ok(this)
    }

    /// Returns the values of the attributes `names` of the file at `path`.
    ///
    /// # Errors
    /// `timeout` if the patterns take longer to match than any honest ones; errors of the disk.
    pub(crate) fn of<const N: usize>(&self, path: &[u8], names: [&str; N]) -> Result<[Option<Value>; N]> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut levels = vec![(self.level(&[])?, 0)];
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            levels.push((self.level(path.get(..end).unwrap_or_default())?, end + 1));
        }
        let inner = levels.iter().rev().map(|(rules, start)| (rules, path.get(*start..).unwrap_or_default()));
        let outer = self.outer.iter().map(|rules| (rules, path));
        let mut known: BTreeMap<&[u8], &Option<Value>> = BTreeMap::new();
        let began = Instant::now();
        'all: for (rules, path) in [(&self.info, path)].into_iter().chain(inner).chain(outer) {
            // The last rule that matches counts, and the list of the innermost folder comes first.
            for (count, rule) in rules.iter().rev().enumerate() {
                if count % 32 == 31 && self.spent.get() + began.elapsed() > LIMIT {
                    return Err(self.too_slow());
                }
                let Subject::Paths(pattern) = &rule.subject else { continue };
                if pattern.is_negated || !pattern.matches(path, name, false) {
                    continue;
                }
                self.give(&rule.gives, &mut known);
                if names.iter().all(|name| known.contains_key(name.as_bytes())) {
                    break 'all;
                }
            }
        }
        self.spent.set(self.spent.get() + began.elapsed());
        if self.spent.get() > LIMIT {
            return Err(self.too_slow());
        }
        Ok(names.map(|name| known.get(name.as_bytes()).and_then(|value| (*value).clone())))
    }

    /// Adds the attributes of a rule, except for those already known.
    fn give<'b>(&'b self, gives: &'b Gives, known: &mut BTreeMap<&'b [u8], &'b Option<Value>>) {
        for (name, value) in gives.iter().rev() {
            if known.contains_key(name.as_slice()) {
                continue;
            }
            known.insert(name, value);
            // Before the rest of the line, which is weaker. A macro that names itself is known by now.
            if let (Some(Value::Set), Some(gives)) = (value, self.macros.get(name)) {
                self.give(gives, known);
            }
        }
    }

    /// Returns the rules that the folder at `path` gives.
    fn level(&self, path: &[u8]) -> Result<Rc<Vec<Rule>>> {
        if let Some(known) = self.levels.borrow().get(path) {
            return Ok(Rc::clone(known));
        }
        let file = join(path, ATTRIBUTES.as_bytes());
        let at = self.files.join(OsStr::from_bytes(&file));
        let text = match (self.replaced.get(&file), files::absent(std::fs::symlink_metadata(&at))) {
            (Some(text), _) => text.clone().filter(|text| text.len() as u64 <= LONGEST),
            // A sparse checkout has files in the index only.
            (None, Ok(None)) => (self.index)(&file),
            // A folder on the way that is a file by now, or that cannot be read.
            (None, Err(_)) => None,
            (None, Ok(Some(_))) => files::read_plain(&at, LONGEST)?,
        };
        // Macros are defined at the top only.
        let rules = Rc::new(text.map_or_else(Vec::new, |text| rules(&text, self.fold, path.is_empty())));
        self.levels.borrow_mut().insert(path.to_vec(), Rc::clone(&rules));
        Ok(rules)
    }

    fn too_slow(&self) -> Error {
        let what = "the patterns of the project's .gitattributes take too long to match";
        Error::new(ErrorKind::Timeout, what).with_path(&self.files)
    }
}

fn rules(text: &[u8], fold: bool, may_define: bool) -> Vec<Rule> {
    // git skips a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(|line| rule(line, fold, may_define)).collect()
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Parses a line. Returns `None` for one that git skips.
fn rule(line: &[u8], fold: bool, may_define: bool) -> Option<Rule> {
    if line.len() >= LONGEST_LINE {
        return None;
    }
    let line = line.get(line.iter().position(|byte| !is_blank(byte))?..)?;
    if line.first() == Some(&b'#') {
        return None;
    }
    let (pattern, rest) = match quoted(line) {
        Some(parts) => parts,
        None => {
            let end = line.iter().position(is_blank).unwrap_or(line.len());
            (line.get(..end)?.to_vec(), line.get(end..)?)
        }
    };
    let mut words = rest.split(is_blank).filter(|word| !word.is_empty());
    let subject = match pattern.strip_prefix(b"[attr]") {
        Some(_) if !may_define => return None,
        Some(b"") => Subject::Macro(words.next()?.to_vec()),
        Some(name) => Subject::Macro(name.to_vec()),
        None => Subject::Paths(PathPattern::new(&pattern, fold)?),
    };
    if matches!(&subject, Subject::Macro(name) if !is_name(name)) {
        return None;
    }
    // A single name that is not valid makes git skip the line.
    Some(Rule { subject, gives: words.map(given).collect::<Option<_>>()? })
}

/// Parses one attribute of a line.
fn given(word: &[u8]) -> Option<(Vec<u8>, Option<Value>)> {
    let (name, value) = match word {
        [b'-', name @ ..] => (name, Some(Value::Unset)),
        [b'!', name @ ..] => (name, None),
        _ => match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (word.get(..at)?, Some(Value::Text(word.get(at + 1..)?.to_vec()))),
            None => (word, Some(Value::Set)),
        },
    };
    is_name(name).then(|| (name.to_vec(), value))
}

fn is_name(name: &[u8]) -> bool {
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !name.is_empty() && !name.starts_with(b"-") && !name.starts_with(b"builtin_") && name.iter().all(valid)
}

/// Reads a pattern in quotes at the beginning of `line`, and returns it with the rest.
fn quoted(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = line.strip_prefix(b"\"")?;
    let mut text = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((text, rest)),
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                text.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'"' | b'\\' => escaped,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        rest = rest.get(2..)?;
                        let octal = |value: u8, digit: &u8| {
                            (b'0'..=b'7').contains(digit).then(|| (value << 3) | (digit - b'0'))
                        };
                        digits.iter().try_fold(escaped - b'0', octal)?
                    }
                    _ => return None,
                });
            }
            byte => text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests;
