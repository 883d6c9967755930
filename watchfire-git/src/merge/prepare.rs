//! Merges work with its target in memory.
//!
//! If the histories cross (more than one merge base), libgit2 merges the whole trees, with renames.

use std::collections::{BTreeSet, HashMap, HashSet};

use git2::{Commit as GitCommit, ObjectType, Oid, Repository};
use watchfire_core::model::{MergeStrategy, RepoPath};
use watchfire_core::workspace::{Candidate, Conflict, Merge, MergeRequest, Obstacle, ObstacleKind};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::identity;
use crate::merge::guard;
use crate::merge::renames;
use crate::merge::three_way::{attributes, three_way};
use crate::merge::trees::Clash;
use crate::names;
use crate::objects::commit::{make, unsigned};
use crate::objects::tree;
use crate::objects::tree_diff;
use crate::objects::verify;
use crate::plain::{past, snapshot};
use crate::repository::agent_ref;
use crate::repository::project::{Kind, Project, commit, oid, tip};
use crate::repository::queue;
use crate::repository::reach;
use crate::repository::record::Record;
use crate::worktree::attributes::Attributes;
use crate::worktree::open::is_unborn;

/// Upper bound for the conflicts that are reported one by one.
const MANY: usize = 200;

/// Upper bound for the files that a merge's message names.
const TOOL_FILES: usize = 20;

/// Merges the work under a key into its target. Changes only the object database, and ends a queue that holds
/// the work in an older form or without a record.
pub(crate) fn prepare(project: &Project, request: &MergeRequest) -> Result<Merge> {
    // No fault of the work: the key is locked, or the program that has it away.
    merge(project, request).or_else(|error| unsigned(&error).map(Merge::Held).ok_or(error))
}

fn merge(project: &Project, request: &MergeRequest) -> Result<Merge> {
    if project.kind == Kind::Past {
        return Ok(Merge::Held(past::obstacle(project, &request.key)));
    }
    // Onto another candidate, the target is the one of that.
    if request.onto.is_none() {
        snapshot::refresh(project)?;
    }
    let repo = project.open()?;
    let work = agent_ref::tip(project, &repo, &request.key)?.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no work to merge")
            .with("branch", names::branch(&request.key))
    })?;
    let record = Record::read(project, &request.key)?.unwrap_or_default();
    let name = names::head(&request.target);
    let target = tip(&repo, &name)?;
    if target.is_none() && !is_unborn(&repo, &name) {
        return Err(Error::new(ErrorKind::NotFound, "there is no such branch to merge into")
            .with("target", &request.target)
            .with(
                "hint",
                "if it was renamed, `watchfire branches merge N --into BRANCH` merges into its new name; new tasks \
                 take default_branch of project.yaml, or the branch that is checked out",
            ));
    }
    let (target, base) = match (&request.onto, target) {
        (Some(onto), _) => (oid(&onto.commit)?, onto.base.clone()),
        (None, None) => {
            let held = unfinished(&record, request).map(Merge::Held);
            return held.map_or_else(|| born(&repo, request, work), Ok);
        }
        (None, Some(target)) => match behind(&record, &repo, request, target, work)? {
            Behind::Itself(candidate) => return Ok(Merge::Ready(candidate)),
            Behind::Target(target) => (target, Some(commit(target))),
        },
    };
    // Before the marks: work that the target has needs no decision of a person.
    if reach::contains(&repo, target, work)? {
        return Ok(Merge::Nothing);
    }
    if let Some(obstacle) = unfinished(&record, request) {
        return Ok(Merge::Held(obstacle));
    }
    // Nothing of the agent's is merged that was not checked.
    verify::history(&repo, Some(target), work)?;
    let attributes = attributes(project, &repo)?;
    let merger = Merger { project, repo: &repo, attributes: &attributes, request, target, work };
    // The base belongs to the target at which the work began, whose log goes along when it is renamed.
    let start = record.base.as_ref().map(oid).transpose()?;
    let is_same = record.target == request.target;
    let start =
        start.filter(|start| is_same || reach::log(&repo, &request.target).iter().any(|(id, _)| id == start));
    let outcome = match start {
        // The target no longer contains the commit at which the work began.
        Some(start) if !reach::contains(&repo, target, start)? => match merger.onto_rewritten(start)? {
            Ok(outcome) => outcome,
            Err(obstacle) => return Ok(Merge::Held(obstacle)),
        },
        _ => match merger.once_in_target(target)? {
            Some(dropped) => return Ok(Merge::Held(merger.has_dropped(dropped))),
            None => merger.merge()?,
        },
    };
    match outcome {
        Outcome::Conflicts(clashes) => Ok(Merge::Conflicts(merger.conflicts(clashes))),
        Outcome::Commit(result) => {
            let (old, new) = (merger.find(target)?.tree_id(), merger.find(result)?.tree_id());
            // Without a change of content, only a fast-forward has something left to do: it moves the target.
            if old == new && request.strategy != MergeStrategy::FastForwardOnly {
                return Ok(Merge::Nothing);
            }
            if let Some(obstacle) = guard::check(&repo, &request.guard, Some(old), new)? {
                return Ok(Merge::Held(obstacle));
            }
            let candidate = Candidate::new(
                request.key.clone(),
                &request.target,
                base,
                commit(result),
                new.to_string(),
                commit(work),
            );
            let candidate = candidate.with_onto(Some(commit(target)));
            Ok(Merge::Ready(candidate.with_tool_files(tool_files(&repo, Some(old), new)?)))
        }
    }
}

/// Returns the obstacle of work whose agent left a merge unfinished, if it did.
fn unfinished(record: &Record, request: &MergeRequest) -> Option<Obstacle> {
    let files: Vec<_> = record.unmerged.keys().cloned().collect();
    let message = "the agent left a merge unfinished";
    let is_held = !files.is_empty() && !request.accept_marks;
    is_held.then(|| Obstacle::new(ObstacleKind::UnfinishedMerge, message).with_files(files))
}

/// The commit that work is merged onto.
enum Behind {
    /// The work waits for the target already, or an earlier start published it and could not report it.
    Itself(Candidate),
    /// The target, or the last candidate that waits for it.
    Target(Oid),
}

fn behind(
    record: &Record,
    repo: &Repository,
    request: &MergeRequest,
    target: Oid,
    work: Oid,
) -> Result<Behind> {
    if let Some(queued) = record.queued.clone().filter(|queued| queued.target == request.target) {
        let commit = oid(&queued.commit)?;
        let is_current = oid(&queued.work)? == work;
        let waits = queue::holds(repo, &request.target, target, commit)?;
        let untold = record.published.as_ref() != Some(&queued.commit);
        if is_current && (waits || (untold && reach::contains(repo, target, commit)?)) {
            return Ok(Behind::Itself(queued.candidate(&request.key)));
        }
        if waits {
            // The candidate that waits is made of older work. Everything that waits behind it contains that
            // work.
            queue::withdraw(repo, &request.target, Some(commit))?;
        }
    }
    let waits = match request.strategy {
        // A held candidate is no commit of the target, so a fast-forward cannot start from it.
        MergeStrategy::FastForwardOnly => None,
        _ => queue::last(repo, &request.target, target)?,
    };
    if let Some(last) = waits
        && reach::contains(repo, last, work)?
        && !reach::contains(repo, target, work)?
    {
        // The work waits without its record saying so, or another task's work contains it. Merged onto the
        // queue, nothing would be left of it to merge, and it would be published without its task.
        queue::withdraw(repo, &request.target, Some(last))?;
        return Ok(Behind::Target(target));
    }
    Ok(Behind::Target(waits.unwrap_or(target)))
}

/// Makes the work the first commit of a target that has none.
fn born(repo: &Repository, request: &MergeRequest, work: Oid) -> Result<Merge> {
    let tree = repo.find_commit(work).during("reading a commit")?.tree_id();
    verify::history(repo, None, work)?;
    if let Some(obstacle) = guard::check(repo, &request.guard, None, tree)? {
        return Ok(Merge::Held(obstacle));
    }
    let candidate = Candidate::new(
        request.key.clone(),
        &request.target,
        None,
        commit(work),
        tree.to_string(),
        commit(work),
    );
    Ok(Merge::Ready(candidate.with_tool_files(tool_files(repo, None, tree)?)))
}

/// Returns the first files that `new` changes and that tools run by themselves.
fn tool_files(repo: &Repository, old: Option<Oid>, new: Oid) -> Result<Vec<RepoPath>> {
    let mut files = guard::tool_files(&tree_diff::diff(repo, old, Some(new))?);
    files.truncate(TOOL_FILES);
    Ok(files)
}

enum Outcome {
    Commit(Oid),
    Conflicts(Vec<Clash>),
}

struct Merger<'a> {
    project: &'a Project,
    repo: &'a Repository,
    attributes: &'a Attributes<'a>,
    request: &'a MergeRequest,
    target: Oid,
    work: Oid,
}

impl Merger<'_> {
    fn merge(&self) -> Result<Outcome> {
        let is_ahead = reach::contains(self.repo, self.work, self.target)?;
        match self.request.strategy {
            MergeStrategy::FastForwardOnly if is_ahead => Ok(Outcome::Commit(self.work)),
            // No path is the reason, so the list is empty.
            MergeStrategy::FastForwardOnly => Ok(Outcome::Conflicts(Vec::new())),
            MergeStrategy::Rebase if is_ahead => Ok(Outcome::Commit(self.work)),
            MergeStrategy::Rebase => self.replay(self.target),
            MergeStrategy::Squash => self.join(&[self.target]),
            _ => self.join(&[self.target, self.work]),
        }
    }

    /// Merges onto a target that no longer contains `start`, at which the work began, because a person has amended,
    /// rebased or reset it.
    fn onto_rewritten(&self, start: Oid) -> Result<Result<Outcome, Obstacle>> {
        // Rebased onto the target since, which is the cure of this obstacle.
        let is_rebased = reach::contains(self.repo, self.work, self.target)?
            && !reach::contains(self.repo, self.work, start)?;
        if is_rebased {
            let returned = self.returned(start, self.work)?;
            return match returned.is_empty() && !self.has_foreign(self.target)? {
                true => self.merge().map(Ok),
                false => Ok(Err(self.rewritten(start, returned))),
            };
        }
        Ok(self.transplant(start)?.map(Outcome::Commit))
    }

    fn rewritten(&self, start: Oid, files: Vec<RepoPath>) -> Obstacle {
        let (target, began) = (&self.request.target, commit(start));
        let message =
            format!("{target} was rewritten while the agent worked, which began at {}", began.short());
        Obstacle::new(ObstacleKind::BranchRewritten, message).with_files(files)
    }

    fn has_dropped(&self, dropped: Oid) -> Obstacle {
        let (target, dropped) = (&self.request.target, commit(dropped));
        let message = format!(
            "{target} was rewritten after the agent took over {}, from where its own commits are to be rebased",
            dropped.short()
        );
        Obstacle::new(ObstacleKind::BranchRewritten, message)
    }

    /// Returns the files whose content at `start` the target has dropped, and a commit of `tip` that the target lacks
    /// brings back, under the same or another name.
    fn returned(&self, start: Oid, tip: Oid) -> Result<Vec<RepoPath>> {
        let target = self.tree(self.target)?;
        let dropped = tree_diff::diff(self.repo, self.tree(start)?, target)?;
        let dropped: HashMap<_, _> =
            dropped.into_iter().filter_map(|change| Some((change.path, change.old?))).collect();
        let mut contents: HashSet<Oid> =
            dropped.values().filter(|old| old.is_file()).map(|old| old.id).collect();
        // An empty file holds nothing that could come back, and what the target has elsewhere is not dropped.
        contents.remove(&Oid::hash_object(ObjectType::Blob, &[]).during("naming a file")?);
        if !contents.is_empty() {
            tree::flatten(self.repo, target)?.values().for_each(|node| _ = contents.remove(&node.id));
        }
        let mut returned = BTreeSet::new();
        for id in self.beyond(&[tip], &[self.target])? {
            for change in tree_diff::diff(self.repo, target, self.tree(id)?)? {
                let Some(new) = change.new else { continue };
                if dropped.get(&change.path) == Some(&new) || contents.contains(&new.id) {
                    returned.insert(change.path);
                }
            }
        }
        Ok(returned.into_iter().map(RepoPath::new).collect())
    }

    /// Puts the task's own commits, those since `start`, on a target that no longer contains `start`. Nothing that the
    /// target has dropped comes back, neither as a commit nor as content: only the difference between `start` and the work
    /// counts.
    fn transplant(&self, start: Oid) -> Result<Result<Oid, Obstacle>> {
        let held = |clashes: Vec<Clash>| {
            let files = clashes.into_iter().map(|clash| RepoPath::new(clash.path)).collect();
            Ok(Err(self.rewritten(start, files)))
        };
        if self.request.strategy == MergeStrategy::FastForwardOnly || self.has_foreign(start)? {
            return held(Vec::new());
        }
        let tree =
            match self.three_way(self.tree(start)?, &self.find(self.target)?, &self.find(self.work)?)? {
                Ok(tree) => tree,
                Err(clashes) => return held(clashes),
            };
        let joined = |parents: &[Oid]| self.join_tree(tree, parents);
        // One by one the commits may conflict, or give another tree, where all together do not. They then
        // become one commit.
        let replayed = match self.request.strategy {
            MergeStrategy::Squash => None,
            _ => match self.replay(start)? {
                Outcome::Commit(tip) if self.tree(tip)? == Some(tree) => Some(tip),
                _ => None,
            },
        };
        let made = match replayed {
            // A rebase makes no merge, and neither does a replay that added nothing.
            Some(tip) if self.request.strategy == MergeStrategy::Rebase || tip == self.target => tip,
            Some(tip) => joined(&[self.target, tip])?,
            None => joined(&[self.target])?,
        };
        let returned = self.returned(start, made)?;
        Ok(if returned.is_empty() { Ok(made) } else { Err(self.rewritten(start, returned)) })
    }

    /// Returns true if the commits since `start` may hold content that the target has dropped: if one is a
    /// merge, or a commit that the target once had.
    fn has_foreign(&self, start: Oid) -> Result<bool> {
        for id in self.beyond(&[self.work], &[start])? {
            if self.find(id)?.parent_count() > 1 {
                return Ok(true);
            }
        }
        Ok(self.once_in_target(start)?.is_some())
    }

    /// Returns the newest commit of the work beyond `since` that the target once had according to its log. What our own
    /// merges brought to the target is the agents' and does not count.
    fn once_in_target(&self, since: Oid) -> Result<Option<Oid>> {
        let mut log = reach::log(self.repo, &self.request.target);
        let all: Vec<Oid> = log.iter().map(|(id, _)| *id).collect();
        let gone: HashSet<Oid> = self.beyond(&all, &[since])?.into_iter().collect();
        let mut own = self.beyond(&[self.work], &[since])?;
        own.retain(|id| gone.contains(id));
        if own.is_empty() {
            return Ok(None);
        }
        log.retain(|(id, _)| gone.contains(id));
        let (mut merged, mut persons) = (vec![since], HashSet::new());
        for (id, is_ours) in log {
            match is_ours {
                true => merged.push(id),
                false => persons.extend(self.beyond(&[id], &merged)?),
            }
        }
        Ok(own.into_iter().find(|id| persons.contains(id)))
    }

    /// Returns the commits that `tips` have and `hidden` lack, newest first.
    fn beyond(&self, tips: &[Oid], hidden: &[Oid]) -> Result<Vec<Oid>> {
        let during = "walking the history";
        let mut walk = self.repo.revwalk().during(during)?;
        walk.set_sorting(git2::Sort::TOPOLOGICAL).during(during)?;
        tips.iter().try_for_each(|id| walk.push(*id)).during(during)?;
        hidden.iter().try_for_each(|id| walk.hide(*id)).during(during)?;
        walk.collect::<Result<_, _>>().during(during)
    }

    fn tree(&self, commit: Oid) -> Result<Option<Oid>> {
        tree::of_commit(self.repo, Some(commit))
    }

    fn join(&self, parents: &[Oid]) -> Result<Outcome> {
        let tree = match self.merged_tree()? {
            Ok(tree) => tree,
            Err(clashes) => return Ok(Outcome::Conflicts(clashes)),
        };
        self.join_tree(tree, parents).map(Outcome::Commit)
    }

    fn join_tree(&self, tree: Oid, parents: &[Oid]) -> Result<Oid> {
        let files = tool_files(self.repo, self.tree(self.target)?, tree)?;
        let mut message = self.request.message.clone();
        if !files.is_empty() {
            let names: Vec<_> = files.iter().map(ToString::to_string).collect();
            message = format!("{message}\n\nRun by tools on their own: {}\n", names.join(", "));
        }
        let tree = self.repo.find_tree(tree).during("reading a tree")?;
        let parents = parents.iter().map(|id| self.find(*id)).collect::<Result<Vec<_>>>()?;
        let person = identity::person(self.repo, &self.project.options.fallback)?;
        let parents: Vec<_> = parents.iter().collect();
        make(self.repo, &person, &person, &message, &tree, &parents)
    }

    fn merged_tree(&self) -> Result<Result<Oid, Vec<Clash>>> {
        let bases = match self.repo.merge_bases(self.target, self.work) {
            Ok(bases) => bases.to_vec(),
            // Unrelated histories: everything is new on both sides.
            Err(e) if e.code() == git2::ErrorCode::NotFound => Vec::new(),
            Err(e) => return Err(e).during("finding the merge base"),
        };
        let (target, work) = (self.find(self.target)?, self.find(self.work)?);
        // Several merge bases: libgit2 merges them into one first.
        if bases.len() > 1
            && let Some(tree) = renames::merge_commits(self.repo, self.attributes, &target, &work)?
        {
            return Ok(Ok(tree));
        }
        let base = tree::of_commit(self.repo, bases.first().copied())?;
        self.three_way(base, &target, &work)
    }

    fn three_way(
        &self,
        base: Option<Oid>,
        ours: &GitCommit<'_>,
        theirs: &GitCommit<'_>,
    ) -> Result<Result<Oid, Vec<Clash>>> {
        three_way(self.repo, self.attributes, base, ours.tree_id(), theirs.tree_id())
    }

    /// Puts the commits of the work that `since` lacks one by one on top of the target. Drops merges among
    /// them, as git does.
    fn replay(&self, since: Oid) -> Result<Outcome> {
        let during = "walking the history";
        let mut walk = self.repo.revwalk().during(during)?;
        walk.set_sorting(git2::Sort::TOPOLOGICAL | git2::Sort::REVERSE).during(during)?;
        walk.push(self.work).during(during)?;
        walk.hide(since).during(during)?;
        let person = identity::person(self.repo, &self.project.options.fallback)?;
        let mut onto = self.find(self.target)?;
        for id in walk {
            let picked = self.find(id.during(during)?)?;
            if picked.parent_count() > 1 {
                continue;
            }
            let base = picked.parents().next().map(|parent| parent.tree_id());
            let tree = match self.three_way(base, &onto, &picked)? {
                Ok(tree) => tree,
                Err(clashes) => return Ok(Outcome::Conflicts(clashes)),
            };
            // The target has this change already.
            if tree == onto.tree_id() {
                continue;
            }
            let tree = self.repo.find_tree(tree).during("reading a tree")?;
            let message = String::from_utf8_lossy(picked.message_bytes());
            onto = self.find(make(self.repo, &picked.author(), &person, &message, &tree, &[&onto])?)?;
        }
        Ok(Outcome::Commit(onto.id()))
    }

    fn find(&self, id: Oid) -> Result<GitCommit<'_>> {
        self.repo.find_commit(id).during("reading a commit")
    }

    fn conflicts(&self, clashes: Vec<Clash>) -> Vec<Conflict> {
        let limit = self.project.options.conflict_bytes;
        let shown = clashes.into_iter().take(MANY);
        shown
            .map(|clash| {
                let hunks = clash
                    .marked
                    .and_then(|text| String::from_utf8(text).ok())
                    .map(|text| hunks(&text, limit));
                Conflict::new(RepoPath::new(clash.path), hunks)
            })
            .collect()
    }
}

/// Returns the parts of a text that have conflict marks, with three lines around each part, up to `limit`
/// bytes.
fn hunks(text: &str, limit: usize) -> String {
    const AROUND: usize = 3;
    let lines: Vec<&str> = text.lines().collect();
    let mut keep = vec![false; lines.len()];
    let mut inside = false;
    for (at, line) in lines.iter().enumerate() {
        inside |= line.starts_with("<<<<<<< ");
        if inside {
            let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len()));
            keep.iter_mut().take(to).skip(from).for_each(|keep| *keep = true);
        }
        inside &= !line.starts_with(">>>>>>> ");
    }
    let mut shown = String::new();
    let mut last = None;
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| keep.get(*at) == Some(&true)) {
        if shown.len() + line.len() > limit {
            shown.push_str("…\n");
            break;
        }
        if last != at.checked_sub(1) || last.is_none() {
            shown.push_str(&format!("@@ line {} @@\n", at + 1));
        }
        shown.push_str(line);
        shown.push('\n');
        last = Some(at);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_show_the_conflict_and_a_little_around_it() {
        let text = "1\n2\n3\n4\n5\n<<<<<<< target\na\n=======\nb\n>>>>>>> task\n6\n7\n8\n9\n10\n";
        let shown = hunks(text, 1000);
        assert!(shown.starts_with("@@ line 3 @@\n3\n4\n5\n<<<<<<< target\n"), "{shown}");
        assert!(shown.ends_with(">>>>>>> task\n6\n7\n8\n"), "{shown}");
        assert!(hunks(text, 20).ends_with("…\n"));
    }
}
