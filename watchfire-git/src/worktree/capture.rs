//! Commits the work that an agent left uncommitted, on the agent's branch.
//!
//! The commit goes on top of the commit that the agent's HEAD names, because the agent changed the files of
//! that commit. A branch tip that the new commit does not contain stays reachable under
//! `refs/watchfire/left/`.

use git2::{Oid, Repository};
use rustix::fs::Stat;
use watchfire_core::model::RepoPath;
use watchfire_core::workspace::{CaptureRequest, Captured, LeftOut, LeftOutReason, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::files;
use crate::identity;
use crate::index::entry::Entry;
use crate::index::file::IndexFile;
use crate::index::hidden::Hidden;
use crate::names;
use crate::objects::tree::{self, Node};
use crate::objects::tree_edit;
use crate::objects::verify;
use crate::private::copies::Private;
use crate::private::import;
use crate::repository::agent_head;
use crate::repository::agent_ref;
use crate::repository::left;
use crate::repository::project::{Project, commit, oid};
use crate::repository::reach;
use crate::repository::record::Record;
use crate::repository::ref_lock;
use crate::repository::special;
use crate::worktree::folder::{Look, Scan};
use crate::worktree::ignore::Ignore;
use crate::worktree::rescue;
use crate::worktree::unfinished::{self, Underway};

/// The committed and uncommitted work under a key.
pub(crate) struct Work {
    /// The tip of the branch.
    pub(crate) tip: Option<Oid>,
    /// The commit that the files are compared with.
    pub(crate) head: Option<Oid>,
    /// The content of the folder, or `None` without a folder.
    pub(crate) scan: Option<Scan>,
    /// Set if the agent's index cannot be read.
    broken_index: bool,
}

impl Work {
    /// Reads the work under `key`. Changes nothing except for new contents in the object database.
    pub(crate) fn look(
        project: &Project,
        repo: &Repository,
        key: &WorkspaceKey,
        nested: bool,
    ) -> Result<Self> {
        let tip = agent_ref::tip(project, repo, key)?;
        let head = agent_head::head_commit(project, repo, key)?.or(tip);
        let folder = project.worktree(key);
        if !folder.is_dir() {
            return Ok(Self { tip, head, scan: None, broken_index: false });
        }
        let record = Record::read(project, key)?.unwrap_or_default();
        let base = match head {
            None => record.base.as_ref().map(oid).transpose()?,
            head => head,
        };
        let hidden = Hidden::new(&record.hidden, &folder);
        let flat = tree::flatten(repo, tree::of_commit(repo, base)?)?;
        let index = IndexFile::read(&project.admin(key).join("index"));
        // Without an index every file is read, and files that the agent added in spite of the ignore rules
        // are not found.
        let broken_index = index.is_err();
        let index = index.unwrap_or_default();
        let ignore = Ignore::new(project)?;
        let scratch = project.state().join("tmp");
        let look = Look {
            repo,
            tree: &flat,
            index: &index,
            ignore: &ignore,
            hidden: &hidden,
            nested,
            scratch: &scratch,
        };
        let scan = look.scan(&folder)?;
        Ok(Self { tip, head, scan: Some(scan), broken_index })
    }

    /// Returns true if there is uncommitted work.
    pub(crate) fn is_dirty(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| !scan.edits.is_empty())
    }

    /// Commits the uncommitted work, and returns `None` if there is none. Moves no reference. With `merged`
    /// the commit is a merge, which the agent was about to make.
    pub(crate) fn commit(
        &self,
        project: &Project,
        repo: &Repository,
        message: &str,
        merged: Option<Oid>,
    ) -> Result<Option<Oid>> {
        let Some(scan) = self.scan.as_ref().filter(|scan| !scan.edits.is_empty()) else { return Ok(None) };
        let tree = match tree_edit::edit(repo, tree::of_commit(repo, self.head)?, &scan.edits)? {
            Some(tree) => tree,
            None => tree_edit::empty(repo)?,
        };
        let tree = repo.find_tree(tree).during("reading a tree")?;
        let parents = self.head.into_iter().chain(merged).map(|id| repo.find_commit(id));
        let parents = parents.collect::<Result<Vec<_>, _>>().during("reading a commit")?;
        let author = identity::agent(&project.options.agent)?;
        let parents: Vec<_> = parents.iter().collect();
        repo.commit(None, &author, &author, message, &tree, &parents).map(Some).during("committing")
    }
}

/// Commits the uncommitted work of an agent, and moves its branch to the result.
pub(crate) fn capture(project: &Project, request: &CaptureRequest) -> Result<Captured> {
    let key = &request.key;
    let repo = project.open()?;
    let Some(mut record) = Record::read(project, key)? else { return Err(unknown(key)) };
    // Only without private copies the agent writes into the repository itself.
    if Private::find(project, key).is_none() {
        special::sweep_objects(project);
        ref_lock::release_packed(project);
    }
    import::import(project, &repo, key)?;
    // The agent's configuration lies behind its copies, and the person may run git in the folder from now on.
    if let Some(private) = Private::find(project, key) {
        private.point_back(project)?;
    }
    let work = Work::look(project, &repo, key, false)?;
    if work.scan.is_none() && work.tip.is_none() {
        return Err(unknown(key));
    }
    let underway = Underway::of(project, &repo, key)?;
    let base = record.base.as_ref().map(oid).transpose()?;
    // Made first, because the search for conflict marks reads the files from a commit.
    let mut made = work.commit(project, &repo, &message(request), None)?;
    let found = |tip| unfinished::files(&repo, &underway, &record.unmerged, base, tip);
    let unmerged = found(made.or(work.head).or(work.tip))?;
    // Nothing is unmerged, so the agent's merge lacked only its commit. What it merged must be whole: the
    // agent wrote it.
    let merged = underway.with.filter(|id| unmerged.is_empty() && verify::is_whole(&repo, base, *id));
    if made.is_some() && merged.is_some() {
        made = work.commit(project, &repo, &message(request), merged)?;
    }
    if unmerged != record.unmerged {
        record.unmerged = unmerged;
        record.write(project, key)?;
    }
    let mut captured = Captured::default();
    // The work is what HEAD names, whatever that is called. A HEAD that looks back at a part of the branch
    // does not count. Neither does one in a rebase, during which the branch still has everything.
    let is_beyond =
        |head: &Oid| work.tip.is_none_or(|tip| !reach::contains(&repo, tip, *head).unwrap_or(true));
    let head = work.head.filter(|head| !underway.is_rebase && is_beyond(head));
    let tip = made.or(head).or(work.tip);
    if let Some(new) = tip.filter(|_| tip != work.tip) {
        // The name says where the tip was. `advance` would keep it by its id only.
        if let Some(old) = work.tip.filter(|_| work.head != work.tip)
            && !reach::contains(&repo, new, old)?
        {
            left::put_named(&repo, key, &names::head(&names::branch(key)), old)?;
        }
        advance(project, &repo, key, work.tip, new)?;
        attach(project, key)?;
    }
    // A broken index is also replaced because it would break the person's `git fsck` and `git gc`.
    if let Some(scan) = work.scan.as_ref().filter(|_| made.is_some() || work.broken_index) {
        refresh_index(project, &repo, key, scan, made.or(work.head))?;
    }
    captured.unmerged = record.unmerged.keys().cloned().collect();
    captured.kept = rescue::named(&repo, key)?;
    captured.commits = tip.map_or(Ok(0), |tip| reach::ahead(&repo, tip, base))?;
    captured.tip = tip.map(commit);
    captured.committed = made.map(commit);
    captured.left_out = work.scan.as_ref().map(left_out).unwrap_or_default();
    if made.is_some() {
        let edits = work.scan.map(|scan| scan.edits).unwrap_or_default();
        captured.paths = edits.into_keys().map(RepoPath::new).collect();
    }
    Ok(captured)
}

/// Returns the paths that a capture does not commit, with the reasons.
fn left_out(scan: &Scan) -> Vec<LeftOut> {
    let all = [
        (&scan.special, LeftOutReason::Special),
        (&scan.refused, LeftOutReason::RefusedName),
        (&scan.deep, LeftOutReason::TooDeep),
        (&scan.large, LeftOutReason::TooLarge),
        (&scan.secret, LeftOutReason::SecretName),
        (&scan.nested, LeftOutReason::NestedRepository),
    ];
    let of = |(paths, why): (&Vec<Vec<u8>>, LeftOutReason)| {
        paths.iter().map(|path| LeftOut::new(RepoPath::new(path.clone()), why)).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(of).collect()
}

/// Returns the paths that a capture would commit now.
pub(crate) fn uncommitted(project: &Project, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
    let repo = project.open()?;
    import::import(project, &repo, key)?;
    let scan = Work::look(project, &repo, key, false)?.scan;
    Ok(scan.into_iter().flat_map(|scan| scan.edits.into_keys()).map(RepoPath::new).collect())
}

fn unknown(key: &WorkspaceKey) -> Error {
    Error::new(ErrorKind::NotFound, "nothing was opened under this key").with("key", key)
}

/// Returns the message with its trailers, as git writes them.
fn message(request: &CaptureRequest) -> String {
    let mut message = request.message.trim_end().to_owned();
    if !request.trailers.is_empty() {
        message.push_str("\n\n");
    }
    for (name, value) in &request.trailers {
        // A line break would end the trailer.
        let value = value.replace(['\n', '\r'], " ");
        message.push_str(&format!("{name}: {value}\n"));
    }
    if !message.ends_with('\n') {
        message.push('\n');
    }
    message
}

/// Moves the agent's branch to `new`. Keeps a tip that `new` does not contain.
fn advance(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    old: Option<Oid>,
    new: Oid,
) -> Result<()> {
    if let Some(old) = old
        && !reach::contains(repo, new, old)?
    {
        left::put(repo, key, old)?;
    }
    let who = identity::agent(&project.options.agent)?;
    if agent_ref::advance(project, repo, key, old, new, &who, "watchfire: capture")? {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Conflict, "the branch of the agent moved while its work was captured")
            .with("branch", names::branch(key)))
    }
}

/// Puts the agent's HEAD back on its branch.
fn attach(project: &Project, key: &WorkspaceKey) -> Result<()> {
    let admin = project.admin(key);
    if admin.is_dir() {
        let head = format!("ref: {}\n", names::head(&names::branch(key)));
        files::replace(&admin.join("HEAD"), head.as_bytes())?;
    }
    Ok(())
}

/// Makes the agent's index agree with `commit`, which contains the scanned files, for the next attempt.
fn refresh_index(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    scan: &Scan,
    commit: Option<Oid>,
) -> Result<()> {
    let admin = project.admin(key);
    if !admin.is_dir() {
        return Ok(());
    }
    let path = admin.join("index");
    let old = IndexFile::read(&path);
    let is_whole = old.is_ok();
    let new = renewed(repo, &old.unwrap_or_default(), scan, commit)?;
    // A broken one is replaced in any case.
    let new = new.or_else(|| (!is_whole).then(IndexFile::default));
    let Some(mut index) = new else { return Ok(()) };
    index.settle(&project.worktree(key));
    let bytes = index.to_bytes();
    files::replace(&path, &bytes)
        .map_err(|e| broken("the index of the agent cannot be written").with_source(e))
}

/// Returns the index that agrees with `commit`, which contains the scanned files, or `None` if `old` does.
pub(crate) fn renewed(
    repo: &Repository,
    old: &IndexFile,
    scan: &Scan,
    commit: Option<Oid>,
) -> Result<Option<IndexFile>> {
    let entry = |path: &Vec<u8>, node: Node, stat: Option<Stat>| {
        // An entry that is right stays, with everything else that git has noted in it.
        let there = old.entry(path).filter(|entry| entry.node == node);
        let right = there.filter(|entry| stat.is_none_or(|stat| old.is_fresh(entry, &stat)));
        right.cloned().unwrap_or_else(|| Entry::new(path, node, stat.as_ref()))
    };
    let files = scan.files.iter();
    let entries: Vec<_> = files.map(|(path, (node, stat))| entry(path, *node, *stat)).collect();
    if entries == old.entries() {
        return Ok(None);
    }
    old.with(entries).with_trees_of(repo, tree::of_commit(repo, commit)?).map(Some)
}
