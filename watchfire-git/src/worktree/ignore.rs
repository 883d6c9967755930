//! Applies git's ignore rules to a folder that is not opened as a repository.
//!
//! Ignore files are read like everything that an agent may have written: no link is followed, no FIFO is
//! waited for, and the length is bounded. libgit2 would open them by path.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use watchfire_core::Result;

use crate::error::During;
use crate::files;
use crate::repository::project::Project;
use crate::worktree::wildmatch::PathPattern;

/// Upper bound for an ignore file, in bytes. The longest known ones are a tenth of that.
const LONGEST: u64 = 1 << 20;

/// The rules for the whole folder: those in the repository's `info/exclude`, and the person's own.
#[derive(Debug, Default)]
pub(crate) struct Ignore {
    /// Lists of rules, the weakest first.
    lists: Vec<Vec<PathPattern>>,
    fold: bool,
}

/// The rules of one ignore file.
pub(crate) struct Level {
    rules: Vec<PathPattern>,
    prefix: usize,
}

impl Ignore {
    /// Reads the rules of `project` and of its user.
    pub(crate) fn new(project: &Project) -> Result<Self> {
        Self::of(&project.open()?)
    }

    /// Reads the rules of a repository and of its user.
    pub(crate) fn of(repo: &git2::Repository) -> Result<Self> {
        let config = repo.config().during("reading the configuration")?;
        Self::with(config, Some(&repo.commondir().join("info/exclude")))
    }

    /// Reads the rules that a configuration names, and those in the file `exclude`.
    pub(crate) fn with(mut config: git2::Config, exclude: Option<&Path>) -> Result<Self> {
        let config = config.snapshot().during("reading the configuration")?;
        let fold = config.get_bool("core.ignorecase").unwrap_or(false);
        // git's default, in case the setting is missing.
        let own = config.get_path("core.excludesFile").ok().or_else(|| {
            let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".config"));
            let base = std::env::var_os("XDG_CONFIG_HOME").filter(|base| !base.is_empty());
            Some(base.map_or_else(home, |base| Some(base.into()))?.join("git/ignore"))
        });
        let mut lists = Vec::new();
        for path in own.into_iter().chain(exclude.map(Path::to_path_buf)) {
            // These files are the person's own. They may be links, for example to a folder with settings.
            let path = path.canonicalize().unwrap_or(path);
            let text = files::read_plain(&path, LONGEST).ok().flatten().unwrap_or_default();
            lists.push(rules(&text, fold));
        }
        Ok(Self { lists, fold })
    }

    /// Reads the text of one ignore file.
    #[cfg(feature = "bench")]
    pub(crate) fn of_rules(text: &[u8]) -> Self {
        Self { lists: vec![rules(text, false)], fold: false }
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

    /// Returns true if `path` below the folder `root` is ignored, by itself or with a folder above it.
    /// A path that ends with `/` is a folder, whether it exists or not.
    pub(crate) fn covers(&self, root: &Path, path: &Path) -> bool {
        let given = path.as_os_str().as_bytes();
        let whole = given.strip_suffix(b"/").unwrap_or(given);
        let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let (mut levels, mut folder): (_, &[u8]) = (Vec::new(), &[]);
        for end in ends.chain([whole.len()]) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            // A folder that is not there has no rules.
            if let Ok(fd) = rustix::fs::open(root.join(OsStr::from_bytes(folder)), flags, Mode::empty()) {
                levels.extend(self.level(&fd, folder));
            }
            folder = whole.get(..end).unwrap_or_default();
            let is_folder = end < given.len() || root.join(path).is_dir();
            if self.matches(&levels, folder, is_folder) {
                return true;
            }
        }
        false
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
            rules.iter().rev().find(|rule| rule.matches(path, name, is_folder))
        });
        found.is_some_and(|rule| !rule.is_negated)
    }
}

fn rules(text: &[u8], fold: bool) -> Vec<PathPattern> {
    // git skips a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(|line| rule(line, fold)).collect()
}

fn rule(line: &[u8], fold: bool) -> Option<PathPattern> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.first() == Some(&b'#') {
        return None;
    }
    PathPattern::new(without_trailing_spaces(line), fold)
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
