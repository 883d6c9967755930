//! Opens, captures and removes the work in all repositories.

use std::fs;
use std::path::Path;

use git2::{ObjectType, Oid};
use watchfire_core::model::{Attempt, RepoPath};
use watchfire_core::sandbox::{Rule, RuleAccess};
use watchfire_core::workspace::{
    Candidate, CaptureRequest, Captured, Commit, LeftOut, OpenRequest, Opened, OpenedPart, RemoveRequest,
    Removed, RescueRef, WorkspaceKey,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::files;
use crate::joint::intent::Intent;
use crate::joint::repositories::{Joint, Member};
use crate::merge::withdraw;
use crate::private::import;
use crate::repository::layout::Layout;
use crate::repository::project::commit;
use crate::worktree::{capture, open, remove, rescue};

/// Checks that work can begin on this target, and on the branches that are checked out in the others.
pub(crate) fn check_target(joint: &Joint, target: &str) -> Result<()> {
    for member in &joint.members {
        let named = Some(target).filter(|target| member.is_first() && !target.is_empty());
        open::check_target(&member.project, named).map_err(|error| within(member, error))?;
    }
    Ok(())
}

/// Opens a folder in each repository. The agent begins in the folder of the project's own repository.
pub(crate) fn open(joint: &Joint, request: &OpenRequest) -> Result<Opened> {
    // Before the layout is written: a target that does not exist leaves nothing behind.
    open::check_target(joint.first(), request.target.as_deref())?;
    joint.first().make_worktrees()?;
    let layout = joint.lay_out(&request.key)?;
    let mut all: Option<Opened> = None;
    for member in joint.of(&request.key)? {
        let mut of = request.clone();
        of.key = joint.key(member, &request.key);
        if !member.is_first() {
            of.target = None;
        }
        make_parent(joint, &member.project.worktree(&of.key))?;
        let opened = open::open(&member.project, &of).map_err(|error| within(member, error))?;
        match &mut all {
            None => all = Some(opened),
            Some(all) => add(all, member, opened),
        }
    }
    if !layout.is_open {
        Layout { is_open: true, ..layout }.write(&joint.first().state(), &request.key)?;
    }
    all.ok_or_else(|| Error::new(ErrorKind::Internal, "work without a repository"))
}

/// Creates the folder around the folder of an agent, and returns an error if a link leads it elsewhere.
fn make_parent(joint: &Joint, folder: &Path) -> Result<()> {
    let parent = folder.parent().unwrap_or(&joint.first().root);
    fs::create_dir_all(parent).map_err(|e| Error::io("creating a folder", e).with_path(parent))?;
    let real = parent.canonicalize().map_err(|e| Error::io("opening a folder", e).with_path(parent))?;
    if real != parent {
        return Err(broken(".watchfire leads elsewhere by a symbolic link: make it a plain folder")
            .with_path(parent)
            .with("leads_to", real.display()));
    }
    Ok(())
}

/// Adds the folder in another repository.
fn add(all: &mut Opened, member: &Member, opened: Opened) {
    let part = OpenedPart::new(&member.at, opened.cwd);
    all.others.push(part.with_branches(opened.branch, opened.target, opened.base));
    for (name, value) in opened.env {
        // The same settings, and an identity where only this repository has none.
        if all.env.iter().all(|(known, _)| *known != name) {
            all.env.push((name, value));
        }
    }
    all.policy_rules.push(not_the_checkout(member));
    all.policy_rules.extend(opened.policy_rules);
    all.binds.extend(opened.binds);
    all.reused |= opened.reused;
    all.rescued.extend(opened.rescued.into_iter().map(|rescued| named(member, rescued)));
    let told = opened.attention.into_iter().map(|line| format!("{}: {line}", member.title()));
    all.attention.extend(told);
}

/// Returns the rule that hides the checkout of another repository from agents.
pub(crate) fn not_the_checkout(member: &Member) -> Rule {
    Rule::new(
        &member.project.root,
        RuleAccess::Deny,
        "git: the checkout of another repository is the person's",
    )
}

/// Says in which repository a call failed.
pub(crate) fn within(member: &Member, error: Error) -> Error {
    if member.is_first() { error } else { error.with("repository", member.at.display()) }
}

/// Returns `path`, as it is called from the project's own repository.
pub(crate) fn seen_from_first(member: &Member, path: &RepoPath) -> RepoPath {
    if member.is_first() {
        return path.clone();
    }
    let mut bytes = member.at.as_os_str().as_encoded_bytes().to_vec();
    bytes.push(b'/');
    bytes.extend_from_slice(path.as_bytes());
    RepoPath::new(bytes)
}

/// Says in which repository a reference is.
pub(crate) fn named(member: &Member, mut reference: RescueRef) -> RescueRef {
    if !member.is_first() {
        reference.name = format!("{} in {}", reference.name, member.at.display());
    }
    reference
}

/// Captures the work in each repository.
pub(crate) fn capture(joint: &Joint, request: &CaptureRequest) -> Result<Captured> {
    let mut all = Captured::default();
    let mut tips = Vec::new();
    let mut others_commits = 0;
    for member in joint.of(&request.key)? {
        let mut of = request.clone();
        of.key = joint.key(member, &request.key);
        let captured = match capture::capture(&member.project, &of) {
            // Killed before it was opened there.
            Err(error) if error.kind() == ErrorKind::NotFound && !member.is_first() => continue,
            captured => captured.map_err(|error| within(member, error))?,
        };
        let seen = |path: &RepoPath| seen_from_first(member, path);
        tips.push(captured.tip);
        all.committed = all.committed.or(captured.committed);
        all.commits += captured.commits;
        if !member.is_first() {
            others_commits += captured.commits;
        }
        all.paths.extend(captured.paths.iter().map(seen));
        all.left_out.extend(captured.left_out.iter().map(|left| LeftOut::new(seen(&left.path), left.reason)));
        all.unmerged.extend(captured.unmerged.iter().map(seen));
        all.kept.extend(captured.kept.into_iter().map(|kept| named(member, kept)));
    }
    all.tip = match others_commits {
        0 => tips.into_iter().next().flatten(),
        _ => Some(tip_of_all(&tips)?),
    };
    Ok(all)
}

/// Returns an id that changes if any of the tips does: work anywhere is progress.
fn tip_of_all(tips: &[Option<Commit>]) -> Result<Commit> {
    let tips: Vec<_> = tips.iter().map(|tip| tip.as_ref().map_or("", Commit::as_str)).collect();
    let id = Oid::hash_object(ObjectType::Blob, tips.join("\n").as_bytes());
    id.during("naming the state of the work").map(commit)
}

/// Imports the commits in the private copies of each repository.
pub(crate) fn import(joint: &Joint, key: &WorkspaceKey) -> Result<()> {
    for member in joint.of(key)? {
        let (project, key) = (&member.project, joint.key(member, key));
        import::import(project, &project.open()?, &key).map_err(|error| within(member, error))?;
    }
    Ok(())
}

/// Returns the paths that a capture would commit now.
pub(crate) fn uncommitted(joint: &Joint, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
    let mut all = Vec::new();
    for member in joint.of(key)? {
        match capture::uncommitted(&member.project, &joint.key(member, key)) {
            Err(error) if error.kind() == ErrorKind::NotFound && !member.is_first() => {}
            paths => all.extend(
                paths
                    .map_err(|error| within(member, error))?
                    .iter()
                    .map(|path| seen_from_first(member, path)),
            ),
        }
    }
    Ok(all)
}

/// Takes the work out of the queue of each repository. Returns its candidate in the project's own, if that has it.
pub(crate) fn withdraw(joint: &Joint, key: &WorkspaceKey) -> Result<Option<Candidate>> {
    let mut published = None;
    for member in joint.of(key)? {
        let found = withdraw::withdraw(&member.project, &joint.key(member, key));
        let found = found.map_err(|error| within(member, error))?;
        // Of work in several repositories nothing waits, so this is all of it.
        published = published.or(found.filter(|_| member.is_first()));
    }
    Ok(published)
}

/// Keeps the work in each repository under a rescue reference. Returns the first one.
pub(crate) fn rescue(joint: &Joint, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>> {
    let mut first = None;
    for member in joint.of(key)? {
        let rescued = rescue::rescue(&member.project, &joint.key(member, key), attempt);
        let rescued = rescued.map_err(|error| within(member, error))?;
        first = first.or(rescued.map(|rescued| named(member, rescued)));
    }
    Ok(first)
}

/// Removes the folders and branches in all repositories, or in none.
pub(crate) fn remove(joint: &Joint, request: &RemoveRequest) -> Result<Removed> {
    let members = joint.of(&request.key)?;
    let request_of =
        |member: &Member| RemoveRequest::new(joint.key(member, &request.key)).with_discard(request.discard);
    for member in &members {
        let kept =
            remove::why_kept(&member.project, &request_of(member)).map_err(|error| within(member, error))?;
        if let Some(reason) = kept {
            return Ok(kept_in(member, &reason));
        }
    }
    let mut first = None;
    for member in &members {
        match remove::remove(&member.project, &request_of(member)).map_err(|error| within(member, error))? {
            Removed::Gone { rescued, .. } => {
                first = first.or(rescued.map(|rescued| named(member, rescued)));
            }
            // It came in between. The next call removes the rest.
            Removed::Kept { reason, .. } => return Ok(kept_in(member, &reason)),
            _ => return Err(Error::new(ErrorKind::Internal, "an unknown outcome of a removal")),
        }
    }
    let folders: Vec<_> =
        members.iter().map(|member| member.project.worktree(&joint.key(member, &request.key))).collect();
    Intent::forget(joint.first(), &request.key)?;
    Layout::forget(&joint.first().state(), &request.key)?;
    folders.iter().for_each(|folder| tidy(joint, folder));
    Ok(Removed::gone(first))
}

fn kept_in(member: &Member, reason: &str) -> Removed {
    match member.is_first() {
        true => Removed::kept(reason),
        false => Removed::kept(format!("{}: {reason}", member.at.display())),
    }
}

/// Removes the empty folders around the folder of an agent.
fn tidy(joint: &Joint, folder: &Path) {
    let ours = joint.first().root.join(".watchfire");
    let above = folder.ancestors().skip(1).take_while(|above| above.starts_with(&ours) && **above != ours);
    for above in above.filter(|above| !above.ends_with("worktrees")) {
        // Only if it is empty.
        if fs::remove_dir(above).is_err() {
            break;
        }
    }
}

/// Removes folders with a temporary name that killed processes left beside the folders of agents.
pub(crate) fn sweep(joint: &Joint) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for member in &joint.members {
        for key in Layout::keys(&joint.first().state())? {
            let folder = member.project.worktree(&joint.key(member, &key));
            let Some(parent) = folder.parent() else { continue };
            for (_, path) in files::entries(parent)?.iter().filter(|(name, _)| files::is_abandoned(name)) {
                files::remove_tree(path).during("removing an unfinished folder")?;
                removed.push(format!("unfinished folder {}", path.display()));
            }
        }
    }
    Ok(removed)
}
