//! Reads the HEAD of an agent, as a file that the agent may have written.

use git2::{Oid, Repository};
use watchfire_core::Result;
use watchfire_core::workspace::WorkspaceKey;

use crate::files;
use crate::names;
use crate::repository::agent_ref;
use crate::repository::project::{Project, tip};

/// Returns the commit that the HEAD of the agent's folder names, or `None` if it names no usable one.
pub(crate) fn head_commit(project: &Project, repo: &Repository, key: &WorkspaceKey) -> Result<Option<Oid>> {
    let content = files::read_plain(&project.admin(key).join("HEAD"), 4096)?.unwrap_or_default();
    let Ok(text) = str::from_utf8(content.trim_ascii()) else { return Ok(None) };
    if let Some(name) = text.strip_prefix("ref:") {
        let name = name.trim();
        // The agent's own branch is read as a file too: the agent may have made a link of it.
        if name == names::head(&names::branch(key)) {
            return agent_ref::tip(project, repo, key);
        }
        // Other branches may be named, but nothing outside of `refs/heads/`.
        let usable = name.starts_with("refs/heads/") && git2::Reference::is_valid_name(name);
        return if usable { tip(repo, name) } else { Ok(None) };
    }
    let id = Oid::from_str(text).ok().filter(|_| text.len() == 40);
    Ok(id.filter(|id| repo.find_commit(*id).is_ok()))
}
