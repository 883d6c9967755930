//! Applies git's ignore rules to a folder that is not opened as a repository.
//!
//! Ignore files are read like everything that an agent may have written: no link is followed, no FIFO is
//! waited for, and the length is bounded. libgit2 would open them by path.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use watchfire_core::Result;

use crate::error::During;
use crate::files;
use crate::repository::project::Project;
use crate::worktree::wildmatch::Pattern;

/// Upper bound for an ignore file, in bytes. The longest known ones are a tenth of that.
const LONGEST: u64 = 1 << 20;

/// The rules for the whole folder: those in the repository's `info/exclude`, and the person's own.
#[derive(Debug, Default)]
pub(crate) struct Ignore {
    /// Lists of rules, the weakest first.
    lists: Vec<Vec<Rule>>,
    fold: bool,
}

/// The rules of one ignore file.
pub(crate) struct Level {
    rules: Vec<Rule>,
    prefix: usize,
}

/// One line of an ignore file.
#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    /// True for a line with `!`. Paths that it matches are not ignored.
    includes: bool,
    /// True for a line that ends with `/`.
    only_folders: bool,
    /// True for a line without another `/`. It is matched with the last part of a path only.
    by_name: bool,
}

impl Ignore {
    /// Reads the rules of `project` and of its user.
    pub(crate) fn new(project: &Project) -> Result<Self> {
        let repo = project.open()?;
        let config =
            repo.config().and_then(|mut config| config.snapshot()).during("reading the configuration")?;
        let fold = config.get_bool("core.ignorecase").unwrap_or(false);
        // git's default, in case the setting is missing.
        let own = config.get_path("core.excludesFile").ok().or_else(|| {
            let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".config"));
            let base = std::env::var_os("XDG_CONFIG_HOME").filter(|base| !base.is_empty());
            Some(base.map_or_else(home, |base| Some(base.into()))?.join("git/ignore"))
        });
        let mut lists = Vec::new();
        for path in own.into_iter().chain([project.common.join("info/exclude")]) {
            // These files are the person's own. They may be links, for example to a folder with settings.
            let path = path.canonicalize().unwrap_or(path);
            let text = files::read_plain(&path, LONGEST).ok().flatten().unwrap_or_default();
            lists.push(rules(&text, fold));
        }
        Ok(Self { lists, fold })
    }

    /// Reads the ignore file of the folder `fd`, whose path is `prefix`.
    pub(crate) fn level(&self, fd: &OwnedFd, prefix: &[u8]) -> Option<Level> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(openat(fd, OsStr::new(".gitignore"), flags, Mode::empty()).ok()?);
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return None;
        }
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        let prefix = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
        Some(Level { rules: rules(&text, self.fold), prefix })
    }

    /// Returns true if `path` is ignored. `levels` are the ignore files of the folders above it, outermost
    /// first.
    pub(crate) fn matches(&self, levels: &[Level], path: &[u8], is_folder: bool) -> bool {
        let inner = levels.iter().rev().map(|level| (&level.rules, path.get(level.prefix..)));
        let outer = self.lists.iter().rev().map(|list| (list, Some(path)));
        let found = inner.chain(outer).find_map(|(rules, path)| {
            let path = path?;
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            // The last rule that matches decides, and the innermost file comes first.
            let matches = |rule: &&Rule| {
                (is_folder || !rule.only_folders)
                    && rule.pattern.matches(if rule.by_name { name } else { path })
            };
            rules.iter().rev().find(matches)
        });
        found.is_some_and(|rule| !rule.includes)
    }
}

fn rules(text: &[u8], fold: bool) -> Vec<Rule> {
    // git skips a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(|line| rule(line, fold)).collect()
}

fn rule(line: &[u8], fold: bool) -> Option<Rule> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.first() == Some(&b'#') {
        return None;
    }
    let line = without_trailing_spaces(line);
    let (line, includes) = line.strip_prefix(b"!").map_or((line, false), |rest| (rest, true));
    let (line, only_folders) = line.strip_suffix(b"/").map_or((line, false), |rest| (rest, true));
    if line.is_empty() {
        return None;
    }
    let by_name = !line.contains(&b'/');
    // A `/` at the beginning binds the pattern to the folder of the file.
    let line = line.strip_prefix(b"/").unwrap_or(line);
    Some(Rule { pattern: Pattern::new(line, fold)?, includes, only_folders, by_name })
}

/// Cuts off the spaces at the end, except for one after a backslash.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while let Some(&byte) = line.get(at) {
        at += if byte == b'\\' { 2 } else { 1 };
        if byte != b' ' {
            end = at.min(line.len());
        }
    }
    line.get(..end).unwrap_or(line)
}
