//! The changes of a task, as data.

use git2::{Delta, DiffFindOptions, DiffOptions, Oid, Patch};
use serde::Serialize;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::WorkspaceKey;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::merge::tools;
use crate::names;
use crate::objects::tree;
use crate::objects::tree_edit;
use crate::repository::agent_ref;
use crate::repository::project::{Project, oid, tip};
use crate::repository::record::Record;
use crate::worktree::capture::Work;

/// A request for a difference, with its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffRequest {
    /// The key of the work.
    pub key: WorkspaceKey,
    /// The commit of the merge whose changes are asked for, instead of the work.
    pub merged: Option<String>,
    /// The commit of a merge whose changes are asked for where the work has none.
    pub last_merge: Option<String>,
    /// True if uncommitted work counts too.
    pub uncommitted: bool,
    /// Number of unchanged lines around each change.
    pub context: u32,
    /// Upper bound for the files. Further files are only counted.
    pub max_files: usize,
    /// Upper bound for the lines of one file. Further lines are left out.
    pub max_lines: usize,
    /// Size in bytes above which a file counts as binary.
    pub max_bytes: i64,
}

impl DiffRequest {
    /// Asks for all of the work, with three lines around each change, and at most 1,000 files, 2,000 lines of
    /// each file and 1 MiB of each file: more than a person reads, and little enough to send.
    #[must_use]
    pub fn new(key: impl Into<WorkspaceKey>) -> Self {
        Self {
            key: key.into(),
            merged: None,
            last_merge: None,
            uncommitted: true,
            context: 3,
            max_files: 1000,
            max_lines: 2000,
            max_bytes: 1 << 20,
        }
    }

    /// Asks for what the merge with this commit brought to its target, also when the branch is gone. Where a strategy makes no commit of
    /// the merge (`rebase`, `fast-forward-only`), that is the last commit.
    #[must_use]
    pub fn with_merged(mut self, commit: Option<String>) -> Self {
        self.merged = commit;
        self
    }

    /// Asks for what the merge with this commit brought, if the work has no changes, or none is left of it.
    #[must_use]
    pub fn with_last_merge(mut self, commit: Option<String>) -> Self {
        self.last_merge = commit;
        self
    }

    /// Includes or leaves out uncommitted work.
    #[must_use]
    pub fn with_uncommitted(mut self, uncommitted: bool) -> Self {
        self.uncommitted = uncommitted;
        self
    }

    /// Sets the number of unchanged lines around each change.
    #[must_use]
    pub fn with_context(mut self, lines: u32) -> Self {
        self.context = lines;
        self
    }

    /// Limits the number of files, and the number of lines of each file.
    #[must_use]
    pub fn with_limits(mut self, files: usize, lines: usize) -> Self {
        (self.max_files, self.max_lines) = (files, lines);
        self
    }
}

/// The difference between two trees.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// The files, by path.
    pub files: Vec<FileDiff>,
    /// Number of all files that differ.
    pub total_files: usize,
}

/// Kind of a [line](Diff::lines) of a diff.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The heading of a file, such as `modified a.txt (+1 -2)`.
    File,
    /// The place of a hunk, such as `@@ -1,3 +1,4 @@`.
    Hunk,
    /// A line that was added.
    Added,
    /// A line that was deleted.
    Deleted,
    /// A line that both have.
    Same,
    /// A remark of ours.
    Note,
}

impl Diff {
    /// Returns the whole difference as lines to show. Paths and lines are the agent's and may hold control characters.
    #[must_use]
    pub fn lines(&self) -> Vec<(Part, String)> {
        let mut lines = Vec::new();
        for file in &self.files {
            lines.push((Part::File, file.heading()));
            for hunk in &file.hunks {
                let Hunk { old_start, old_lines, new_start, new_lines, .. } = hunk;
                lines.push((Part::Hunk, format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@")));
                lines.extend(hunk.lines.iter().map(|line| match line.kind {
                    LineKind::Added => (Part::Added, format!("+{}", line.text)),
                    LineKind::Deleted => (Part::Deleted, format!("-{}", line.text)),
                    LineKind::Context => (Part::Same, format!(" {}", line.text)),
                }));
            }
            if file.truncated && file.hunks.iter().any(|hunk| !hunk.lines.is_empty()) {
                lines.push((Part::Note, "… the rest of this file is left out".to_owned()));
            }
        }
        let more = self.total_files - self.files.len();
        if more > 0 {
            lines.push((Part::Note, format!("… and {more} more files")));
        }
        if self.total_files == 0 {
            lines.push((Part::Note, "nothing is changed".to_owned()));
        }
        lines
    }
}

impl FileDiff {
    fn heading(&self) -> String {
        let word = match self.change {
            FileChange::Added => "added",
            FileChange::Deleted => "deleted",
            FileChange::Renamed => "renamed",
            FileChange::TypeChanged => "changed its type:",
            _ => "modified",
        };
        let from = self.old_path.as_ref().map(|old| format!("{old} to ")).unwrap_or_default();
        let mode = match (&self.old_mode, &self.new_mode) {
            (Some(old), Some(new)) if old != new => format!(", mode {old} to {new}"),
            _ => String::new(),
        };
        let size = match self.binary {
            true => "binary".to_owned(),
            false => format!("+{} -{}", self.additions, self.deletions),
        };
        let mark = if self.runs_by_itself { ", run by tools on their own" } else { "" };
        format!("{word} {from}{} ({size}{mode}){mark}", self.path)
    }
}

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileChange {
    /// The file is new.
    Added,
    /// The file is gone.
    Deleted,
    /// Content or mode differs.
    Modified,
    /// The name differs, and perhaps the content too.
    Renamed,
    /// The file became a link, a submodule or a file, from another of these.
    TypeChanged,
}

/// The difference of one file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileDiff {
    /// The kind of change.
    pub change: FileChange,
    /// The path; the old one if the file is gone.
    pub path: RepoPath,
    /// The old path, if the file was renamed.
    pub old_path: Option<RepoPath>,
    /// The old mode as git writes it (`100644`). `None` if the file is new.
    pub old_mode: Option<String>,
    /// The new mode. `None` if the file is gone.
    pub new_mode: Option<String>,
    /// True for a file that is no text, or too large to be shown as text.
    pub binary: bool,
    /// Number of lines added.
    pub additions: usize,
    /// Number of lines deleted.
    pub deletions: usize,
    /// The changes, in groups. Empty for a binary file.
    pub hunks: Vec<Hunk>,
    /// True if lines were left out.
    pub truncated: bool,
    /// True if some tool runs the file or obeys it by itself, such as `package.json`, `.envrc` or
    /// `.vscode/tasks.json`.
    pub runs_by_itself: bool,
}

/// Changes that lie close together, with the unchanged lines around them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hunk {
    /// Number of the first old line, counted from 1.
    pub old_start: u32,
    /// Number of old lines.
    pub old_lines: u32,
    /// Number of the first new line, counted from 1.
    pub new_start: u32,
    /// Number of new lines.
    pub new_lines: u32,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// The side that a line is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineKind {
    /// Both sides.
    Context,
    /// The new side only.
    Added,
    /// The old side only.
    Deleted,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiffLine {
    /// The side that the line is on.
    pub kind: LineKind,
    /// The text without its line end. Invalid UTF-8 is replaced.
    pub text: String,
}

/// Returns the difference between the work under a key and the commit at which it left its target.
pub(crate) fn diff(project: &Project, request: &DiffRequest) -> Result<Diff> {
    let repo = project.open()?;
    if let Some(merged) = &request.merged {
        return of_merge(project, &repo, merged, request);
    }
    let work = of_work(project, &repo, request);
    let is_empty = match &work {
        Ok(diff) => diff.total_files == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    match &request.last_merge {
        // A merge that git has removed from a rewritten history cannot be shown.
        Some(merge) if is_empty && request.uncommitted => of_merge(project, &repo, merge, request).or(work),
        _ => work,
    }
}

fn of_merge(project: &Project, repo: &git2::Repository, merge: &str, request: &DiffRequest) -> Result<Diff> {
    let during = "looking for the merge";
    let commit = Oid::from_str(merge).and_then(|id| repo.find_commit(id)).during(during)?;
    // Of several commits in a row, the record knows the one below them.
    let record = Record::read(project, &request.key)?
        .filter(|record| record.published.as_ref().is_some_and(|it| it.as_str() == merge));
    let onto = record.and_then(|record| record.merged_onto);
    let before = onto.as_ref().map(oid).transpose()?.or_else(|| commit.parent_ids().next());
    between(repo, tree::of_commit(repo, before)?, Some(commit.tree_id()), request)
}

fn of_work(project: &Project, repo: &git2::Repository, request: &DiffRequest) -> Result<Diff> {
    let Some(record) = Record::read(project, &request.key)? else {
        return Err(
            Error::new(ErrorKind::NotFound, "nothing was opened under this key").with("key", &request.key)
        );
    };
    let work = match request.uncommitted {
        true => Some(Work::look(project, repo, &request.key, false)?),
        false => None,
    };
    let head = match &work {
        Some(work) => work.head,
        None => agent_ref::tip(project, repo, &request.key)?,
    };
    let recorded = record.base.as_ref().map(oid).transpose()?;
    let scan = work.and_then(|work| work.scan);
    if head.is_none() && scan.is_none() {
        // Compared as an empty tree, it would have deleted the whole project.
        return Err(Error::new(ErrorKind::NotFound, "the branch of the work is gone")
            .with("branch", names::branch(&request.key)));
    }
    // Without its branch, a folder was compared with the base.
    let mut new = tree::of_commit(repo, head.or(recorded))?;
    if let Some(scan) = scan {
        new = tree_edit::edit(repo, new, &scan.edits)?;
    }
    // Changes that the work has since merged from its target are not its own, so the newest common commit
    // counts. If head and target are equal, that commit would be the work itself. Unrelated histories have
    // none.
    let base = match (head, tip(repo, &names::head(&record.target))?) {
        (Some(head), Some(target)) if head != target => repo.merge_base(head, target).ok().or(recorded),
        _ => recorded,
    };
    between(repo, tree::of_commit(repo, base)?, new, request)
}

fn between(
    repo: &git2::Repository,
    old: Option<Oid>,
    new: Option<Oid>,
    request: &DiffRequest,
) -> Result<Diff> {
    let during = "comparing trees";
    let find = |id: Option<Oid>| id.map(|id| repo.find_tree(id)).transpose().during(during);
    let mut options = DiffOptions::new();
    options.context_lines(request.context).max_size(request.max_bytes).include_typechange(true);
    let (old, new) = (find(old)?, find(new)?);
    let mut diff = repo.diff_tree_to_tree(old.as_ref(), new.as_ref(), Some(&mut options)).during(during)?;
    diff.find_similar(Some(DiffFindOptions::new().renames(true))).during(during)?;
    let total_files = diff.deltas().len();
    let files =
        (0..total_files.min(request.max_files)).map(|at| file(&diff, at, request)).collect::<Result<_>>()?;
    Ok(Diff { files, total_files })
}

fn file(diff: &git2::Diff<'_>, at: usize, request: &DiffRequest) -> Result<FileDiff> {
    let during = "comparing a file";
    let patch = Patch::from_diff(diff, at).during(during)?;
    let delta =
        diff.get_delta(at).ok_or_else(|| Error::new(ErrorKind::Internal, "a difference went missing"))?;
    let path = |file: git2::DiffFile<'_>| file.path_bytes().map(RepoPath::new);
    let mode = |file: git2::DiffFile<'_>| {
        Some(u32::from(file.mode())).filter(|m| *m != 0).map(|m| format!("{m:06o}"))
    };
    let (old_path, new_path) = (path(delta.old_file()), path(delta.new_file()));
    let change = match delta.status() {
        Delta::Added | Delta::Copied => FileChange::Added,
        Delta::Deleted => FileChange::Deleted,
        Delta::Renamed => FileChange::Renamed,
        Delta::Typechange => FileChange::TypeChanged,
        _ => FileChange::Modified,
    };
    let shown = if change == FileChange::Deleted { old_path.clone() } else { new_path.clone() };
    let runs_by_itself = change != FileChange::Deleted
        && shown.as_ref().is_some_and(|path| tools::runs_by_itself(path.as_bytes()));
    let mut file = FileDiff {
        change,
        path: shown.unwrap_or_else(|| RepoPath::new("")),
        old_path: old_path.filter(|_| change == FileChange::Renamed),
        old_mode: mode(delta.old_file()),
        new_mode: mode(delta.new_file()),
        binary: false,
        additions: 0,
        deletions: 0,
        hunks: Vec::new(),
        truncated: false,
        runs_by_itself,
    };
    // libgit2 makes no patch of a binary file.
    let Some(patch) = patch else {
        file.binary = true;
        return Ok(file);
    };
    // Asked again: libgit2 sets the flag only when it reads the content, for the patch.
    file.binary = diff.get_delta(at).is_some_and(|delta| delta.flags().is_binary());
    (_, file.additions, file.deletions) = patch.line_stats().during(during)?;
    let mut left = request.max_lines;
    for hunk in 0..patch.num_hunks() {
        let (head, count) = patch.hunk(hunk).during(during)?;
        let mut lines = Vec::new();
        for line in 0..count {
            let line = patch.line_in_hunk(hunk, line).during(during)?;
            let kind = match line.origin() {
                ' ' => LineKind::Context,
                '+' => LineKind::Added,
                '-' => LineKind::Deleted,
                // libgit2 reports a missing newline at the end of a file as a line.
                _ => continue,
            };
            if left == 0 {
                file.truncated = true;
                break;
            }
            left -= 1;
            let text = String::from_utf8_lossy(line.content());
            lines.push(DiffLine { kind, text: text.strip_suffix('\n').unwrap_or(&text).to_owned() });
        }
        let (old_start, old_lines) = (head.old_start(), head.old_lines());
        let (new_start, new_lines) = (head.new_start(), head.new_lines());
        file.hunks.push(Hunk { old_start, old_lines, new_start, new_lines, lines });
        if file.truncated {
            break;
        }
    }
    Ok(file)
}
