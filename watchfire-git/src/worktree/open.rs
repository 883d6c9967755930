//! Opens the folder of an agent: a linked worktree that we lay out ourselves, so that nothing which the
//! repository names is run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use watchfire_core::model::Attempt;
use watchfire_core::sandbox::{NamePattern, Rule, RuleAccess};
use watchfire_core::workspace::{Isolation, OpenRequest, Opened, RescueRef, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::failpoint::reached;
use crate::files;
use crate::identity;
use crate::index::file::IndexFile;
use crate::index::hidden::Hidden;
use crate::index::of_tree::{index_of, unlooked};
use crate::names;
use crate::objects::tree;
use crate::plain::{past, snapshot};
use crate::private::copies::{self as private, Private};
use crate::private::import;
use crate::repository::admin;
use crate::repository::agent_ref;
use crate::repository::left;
use crate::repository::ownership::{self, Ownership};
use crate::repository::project::{Kind, Project, commit, oid, tip};
use crate::repository::record::Record;
use crate::worktree::capture::Work;
use crate::worktree::materialize;
use crate::worktree::ready;
use crate::worktree::remove;
use crate::worktree::rescue;

/// Opens the folder for a task: makes a new one, or takes up the one of an earlier attempt.
pub(crate) fn open(project: &Project, request: &OpenRequest) -> Result<Opened> {
    let key = &request.key;
    // Before anything is written.
    private::refuse_links(project)?;
    if project.kind == Kind::Past {
        return Err(past::refused(project, key));
    }
    let snapshot = snapshot::take(project)?;
    let repo = project.open()?;
    let (target, target_tip) = target(project, &repo, request.target.as_deref())?;
    let mut known = Record::read(project, key)?.unwrap_or_default();
    let mut is_copy = false;
    match ownership::of(project, &known)? {
        Ownership::Own | Ownership::Moved => {}
        // Work that was copied along is not this project's. It is put away below, like any work that is in
        // the way.
        Ownership::Copied => (known, is_copy) = (Record::default(), true),
        Ownership::Other => refuse_other(&repo, key, &known)?,
    }
    admin::refuse_foreign(&project.admin(key))?;
    project.make_worktrees()?;
    // Earlier work may still be in private copies only.
    let attention = import::settle(project, &repo, key)?.into_iter().chain(snapshot.remark()).collect();

    let mut rescued = Vec::new();
    let folder = project.worktree(key);
    let mut branch = agent_ref::tip(project, &repo, key)?;
    let has_folder = files::absent(fs::symlink_metadata(&folder)).during("reading a folder")?.is_some();
    // A repository without a commit has no branch to show for the folder.
    let unborn = branch.is_none() && has_folder && project.admin(key).is_dir();
    // A branch under our name that we did not make, or that the person had removed, holds work that is not
    // this task's.
    let foreign = branch.is_some() && !has_folder && known.base.is_none() && target_tip.is_some();
    let copied = is_copy && (branch.is_some() || has_folder);
    if foreign
        || copied
        || (request.fresh && (branch.is_some() || has_folder))
        || (has_folder && branch.is_none() && !unborn)
    {
        rescued.extend(clear(project, &repo, request, &target)?);
        branch = None;
    }
    let has_folder = folder.is_dir();

    let base = match (&known.base, branch) {
        (Some(base), Some(_)) => Some(oid(base)?),
        // No base is recorded: the newest commit that both have is the best guess.
        (None, Some(tip)) => target_tip.and_then(|target| repo.merge_base(target, tip).ok()),
        (_, None) => target_tip,
    };
    let record = Record {
        root: project.root.clone(),
        checkout: Some(ownership::checkout_of(project)),
        target: target.clone(),
        base: base.map(commit),
        hidden: request.hidden.clone(),
        unmerged: known.unmerged.clone(),
        fence: known.fence,
        published: known.published.clone(),
        queued: known.queued.clone(),
        merged: known.merged.clone(),
        merged_onto: known.merged_onto.clone(),
    };
    // Before the branch: a branch without a record of its base counts as foreign after a kill.
    record.write(project, key)?;
    // The old base may keep commits that nothing else reaches.
    if tip(&repo, &names::base(key))? != base {
        remove::retire_base(&repo, key, &target)?;
    }
    if let Some(base) = base {
        repo.reference(&names::base(key), base, true, "watchfire: base").during("recording the base")?;
    }

    let branch_name = names::branch(key);
    if has_folder {
        repair(project, &repo, key, branch)?;
        renew_index(project, &repo, key, branch, &request.hidden)?;
    } else {
        let who = identity::agent(&project.options.agent)?;
        if let (None, Some(base)) = (branch, base)
            && !agent_ref::advance(project, &repo, key, None, base, &who, "watchfire: open")?
        {
            return Err(Error::new(ErrorKind::Busy, "the branch was made by someone else meanwhile")
                .with("branch", branch_name));
        }
        let head = format!("ref: {}\n", names::head(&branch_name));
        create(project, &repo, &folder, &names::admin(key), &head, branch.or(base), &request.hidden)?;
    }
    // Before the binds, because the kernel mounts only over what exists.
    private::make_targets(project)?;
    let mut opened = Opened::at(&folder);
    opened.env = environment(project, &repo);
    opened.policy_rules = rules(project, key, &folder, request.isolation)?;
    if request.isolation != Isolation::None {
        let private = Private::make(project, key, branch.or(base), request.isolation)?;
        if request.isolation == Isolation::Linked {
            files::replace(&folder.join(".git"), &admin::pointer(&private.admin()))?;
            opened.policy_rules.extend(private.rules());
        } else {
            opened.binds = private.binds(project)?;
        }
    }
    opened.attention = attention;
    opened.reused = has_folder || branch.is_some_and(|tip| Some(tip) != base);
    opened.branch = Some(branch_name);
    opened.target = Some(target);
    opened.base = base.map(commit);
    opened.rescued = rescued;
    Ok(opened)
}

/// Lays out a linked worktree for `tip` at `folder`, with the administration `admin` and this HEAD. The
/// worktree's git ignores `hidden` paths.
pub(crate) fn create(
    project: &Project,
    repo: &Repository,
    folder: &Path,
    admin: &str,
    head: &str,
    tip: Option<Oid>,
    hidden: &[NamePattern],
) -> Result<()> {
    let parent = folder.parent().unwrap_or(&project.root);
    // Under another name until everything is written, so that a folder with its own name is whole.
    let fresh = parent.join(files::unique("new"));
    let laid_out = (|| {
        let tree = tree::of_commit(repo, tip)?;
        let mut index = match ready::take(project, repo, tree, &fresh)? {
            Some(index) => index,
            None => index_of(repo, tree, materialize::write(project, repo, tree, &fresh, &|| true)?)?,
        };
        index.hide(&Hidden::new(hidden, folder));
        reached("folder: files written");
        let admin = project.common.join("worktrees").join(admin);
        // Prune removes administration without a folder. The lock keeps it away until the folder is in place.
        let _lock = project.lock()?;
        administer(folder, &admin, head, &index)?;
        fs::write(fresh.join(".git"), admin::pointer(&admin)).during("writing the .git file")?;
        reached("folder: administered");
        fs::rename(&fresh, folder).map_err(|e| Error::io("putting a folder in place", e).with_path(folder))
    })();
    if laid_out.is_err() {
        _ = files::remove_tree(&fresh);
    }
    laid_out
}

/// Writes git's administration of a worktree, in place of an earlier one.
fn administer(folder: &Path, admin: &Path, head: &str, index: &IndexFile) -> Result<()> {
    admin::refuse_locked(admin)?;
    files::remove_tree(admin).map_err(|e| Error::io("removing old administration", e).with_path(admin))?;
    fs::create_dir_all(admin).map_err(|e| Error::io("creating a folder", e).with_path(admin))?;
    let mut gitdir = folder.join(".git").into_os_string();
    gitdir.push("\n");
    let put = |name: &str, content: &[u8]| {
        let path = admin.join(name);
        fs::write(&path, content).map_err(|e| Error::io("writing a file", e).with_path(&path))
    };
    reached("administration: empty");
    // First, so that a `git worktree prune` of the person's leaves the rest alone.
    put("locked", admin::LOCKED)?;
    put("commondir", b"../..\n")?;
    put("gitdir", gitdir.as_encoded_bytes())?;
    put("HEAD", head.as_bytes())?;
    put("config.worktree", b"")?;
    reached("administration: no index");
    put("index", &index.to_bytes())
}

/// Returns true if `dot_git` is a pointer of ours, to the administration or to private copies, perhaps from a time when
/// the project's folder had another name.
fn is_pointer(dot_git: &Path, admin: &Path, key: &WorkspaceKey) -> Result<bool> {
    let name = admin.file_name().unwrap_or_default().as_encoded_bytes();
    let ends = [[b"/worktrees/", name, b"\n"].concat(), format!("/private/{key}/admin\n").into_bytes()];
    let text = files::read_plain(dot_git, 4096)?.unwrap_or_default();
    Ok(text.starts_with(b"gitdir: ") && ends.iter().any(|end| text.ends_with(end)))
}

/// Restores the wiring of a folder that an agent had: its `.git`, its administration, and nothing under way.
fn repair(project: &Project, repo: &Repository, key: &WorkspaceKey, tip: Option<Oid>) -> Result<()> {
    let folder = project.worktree(key);
    let admin = project.admin(key);
    if left::is_underway(&admin) {
        // The next attempt begins with the files as they are, not in the midst of the last attempt's merge.
        left::keep_logged(project, repo, key)?;
        reached("repair: notes kept");
        left::end(&admin)?;
    }
    if !admin.join("HEAD").is_file() {
        // `administer` removes the logs with everything else.
        left::keep_logged(project, repo, key)?;
        let head = format!("ref: {}\n", names::head(&names::branch(key)));
        administer(&folder, &admin, &head, &unlooked(repo, tip)?)?;
    }
    let dot_git = folder.join(".git");
    let is_ours = fs::symlink_metadata(&dot_git).is_ok_and(|metadata| metadata.is_file())
        && files::read(&dot_git)?.is_some_and(|content| content == admin::pointer(&admin));
    if !is_ours {
        // Anything else there may be a repository that the agent made, with work in it.
        if fs::symlink_metadata(&dot_git).is_ok() && !is_pointer(&dot_git, &admin, key)? {
            set_aside(project, key, &dot_git)?;
        }
        files::replace(&dot_git, &admin::pointer(&admin))?;
    }
    let mut gitdir = dot_git.into_os_string();
    gitdir.push("\n");
    for (name, content) in
        [("commondir", &b"../..\n"[..]), ("gitdir", gitdir.as_encoded_bytes()), ("config.worktree", b"")]
    {
        let path = admin.join(name);
        // A link or a FIFO in place of a file is replaced without being opened.
        let as_left = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file())
            && files::read(&path)?.is_some_and(|there| there == content);
        if !as_left {
            files::replace(&path, content)?;
        }
    }
    // An agent that was killed left these locks. No agent works here now.
    reached("repair: wired");
    for lock in ["index.lock", "HEAD.lock"] {
        _ = fs::remove_file(admin.join(lock));
    }
    _ = fs::remove_file(project.common.join(format!("{}.lock", names::head(&names::branch(key)))));
    Ok(())
}

/// Moves something that is in the way, and that we may not delete, to a folder beside the agents' folders.
pub(crate) fn set_aside(project: &Project, key: &WorkspaceKey, path: &Path) -> Result<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = format!("{key}-{}", name.trim_start_matches('.'));
    files::set_aside(path, &project.worktrees().join("aside"), &name)
}

/// Keeps existing work under a rescue reference and removes it.
fn clear(
    project: &Project,
    repo: &Repository,
    request: &OpenRequest,
    target: &str,
) -> Result<Option<RescueRef>> {
    // The work is that of the attempt before this one.
    let attempt = Attempt(request.attempt.0.saturating_sub(1).max(1));
    let work = Work::look(project, repo, &request.key, true)?;
    let rescued = rescue::put_away(project, repo, &request.key, attempt, &work)?;
    remove::dismantle(project, repo, &request.key, &work, target)?;
    Ok(rescued)
}

/// Prepares an earlier attempt's index for the next attempt. Marks files that the sandbox hides as absent on
/// purpose, and adds the cache of trees if the index agrees with `tip`.
fn renew_index(
    project: &Project,
    repo: &Repository,
    key: &WorkspaceKey,
    tip: Option<Oid>,
    hidden: &[NamePattern],
) -> Result<()> {
    let path = project.admin(key).join("index");
    let folder = project.worktree(key);
    // The next capture replaces an index that cannot be read.
    let Ok(mut index) = IndexFile::read(&path) else { return Ok(()) };
    let mut is_new = index.hide(&Hidden::new(hidden, &folder));
    let tree = tree::of_commit(repo, tip)?;
    if !index.has_trees() && index.is_of(&tree::flatten(repo, tree)?) {
        index = index.with_trees_of(repo, tree)?;
        is_new = true;
    }
    if !is_new {
        return Ok(());
    }
    index.settle(&folder);
    files::replace(&path, &index.to_bytes())
}

/// Checks that a folder could be opened for work on this target.
pub(crate) fn check_target(project: &Project, named: Option<&str>) -> Result<()> {
    private::refuse_links(project)?;
    target(project, &project.open()?, named).map(drop)
}

/// Returns the target and its tip.
pub(crate) fn target(
    project: &Project,
    repo: &Repository,
    named: Option<&str>,
) -> Result<(String, Option<Oid>)> {
    let target = named.map_or_else(|| project.default_target(repo), |named| Ok(named.to_owned()))?;
    let tip = target_tip(repo, &target)?;
    Ok((target, tip))
}

/// Returns the tip of the target, or `None` if the target is the branch of HEAD in a repository without a
/// commit.
fn target_tip(repo: &Repository, target: &str) -> Result<Option<Oid>> {
    let name = names::head(target);
    if !git2::Reference::is_valid_name(&name) {
        return Err(Error::new(ErrorKind::InvalidInput, "no valid branch name").with("target", target));
    }
    if let Some(tip) = tip(repo, &name)? {
        return Ok(Some(tip));
    }
    if is_unborn(repo, &name) {
        return Ok(None);
    }
    Err(Error::new(ErrorKind::NotFound, "there is no such branch to work on").with("target", target))
}

/// Returns true if HEAD names `name`, and that branch has no commit yet.
pub(crate) fn is_unborn(repo: &Repository, name: &str) -> bool {
    let head = repo.find_reference("HEAD");
    head.is_ok_and(|head| matches!(head.symbolic_target(), Ok(Some(target)) if target == name))
        && matches!(repo.find_reference(name), Err(e) if e.code() == git2::ErrorCode::NotFound)
}

/// Rejects a key that another project on the same repository uses.
fn refuse_other(repo: &Repository, key: &WorkspaceKey, known: &Record) -> Result<()> {
    if known.root.join(".watchfire").is_dir() || tip(repo, &names::head(&names::branch(key)))?.is_some() {
        return Err(broken("another project on the same repository uses this task number")
            .with("branch", names::branch(key))
            .with("project", known.root.display()));
    }
    Ok(())
}

/// Settings of an agent's git. Nothing runs in the background. It collects only its own objects, because it
/// cannot write the references and logs of others. Its index has a form that libgit2 reads.
const SETTINGS: &[(&str, &str)] = &[
    ("gc.auto", "0"),
    ("gc.packRefs", "false"),
    ("gc.reflogExpire", "never"),
    ("gc.reflogExpireUnreachable", "never"),
    ("gc.writeCommitGraph", "false"),
    ("repack.updateServerInfo", "false"),
    ("maintenance.auto", "false"),
    // The signing key is the person's, and out of reach in a sandbox. Merges are signed as the person has
    // configured.
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("core.splitIndex", "false"),
    ("index.sparse", "false"),
];

fn environment(project: &Project, repo: &Repository) -> Vec<(OsString, OsString)> {
    let mut env = vec![("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string())];
    for (n, (name, value)) in SETTINGS.iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{n}"), (*name).to_owned()));
        env.push((format!("GIT_CONFIG_VALUE_{n}"), (*value).to_owned()));
    }
    if !identity::is_configured(repo) {
        let agent = &project.options.agent;
        for (name, value) in [
            ("GIT_AUTHOR_NAME", &agent.name),
            ("GIT_AUTHOR_EMAIL", &agent.email),
            ("GIT_COMMITTER_NAME", &agent.name),
            ("GIT_COMMITTER_EMAIL", &agent.email),
        ] {
            env.push((name.to_owned(), value.clone()));
        }
    }
    env.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Returns the sandbox rules that let `git commit` work in this worktree and deny every other write to the
/// repository. A part with a private copy gets no write at all.
fn rules(project: &Project, key: &WorkspaceKey, folder: &Path, isolation: Isolation) -> Result<Vec<Rule>> {
    let common = &project.common;
    let admin = project.admin(key);
    use RuleAccess::{Deny, Read, Write};
    let mut rules = vec![
        Rule::new(folder, Write, "git: the folder of the task"),
        Rule::new(folder.join(".git"), Read, "git: the pointer to the repository"),
        Rule::new(common, Read, "git: the repository"),
        Rule::new(common.join("objects/info"), Read, "git: alternates"),
        Rule::new(project.state(), Deny, "git: Watchfire's records"),
    ];
    let borrowed = private::borrowed(&common.join("objects"))?.into_iter();
    rules.extend(borrowed.map(|path| Rule::new(path, Read, "git: objects that the repository borrows")));
    for name in ["commondir", "gitdir", "config.worktree", "locked"] {
        rules.push(Rule::new(admin.join(name), Read, "git: wiring of the folder"));
    }
    if isolation != Isolation::None {
        rules.extend(private::read_only(project).map(|path| Rule::new(path, Read, "git: the repository")));
        return Ok(rules);
    }
    let branches = common.join("refs/heads/watchfire");
    rules.extend([
        Rule::new(&admin, Write, "git: index and HEAD of the task"),
        Rule::new(common.join("objects"), Write, "git: new objects"),
        Rule::new(&branches, Write, "git: branches of agents"),
        Rule::new(common.join("logs/refs/heads/watchfire"), Write, "git: logs of branches of agents"),
    ]);
    let own = key.to_string();
    // Below `refs/heads/watchfire` an agent may write. The rules for single files take the other tasks'
    // branches away again.
    for (name, path) in files::entries(&branches)? {
        if name.as_encoded_bytes() != own.as_bytes() && path.is_file() {
            rules.push(Rule::new(path, Read, "git: branches of other tasks"));
        }
    }
    Ok(rules)
}
