//! A policy as the disk has it: links resolved, names found, each place with what was said about it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Access, Rule, RuleAccess, SandboxPolicy, Tmp};

use crate::ask::{SHARED_MEMORY, SHARED_TMP, replaced_by_private};
use crate::linux::config::Late;
use crate::linux::look::listings::Listings;
use crate::linux::look::names;
use crate::linux::look::sockets;
use crate::linux::report::facts::listed;
use crate::resolve::{Resolver, leads_out, resolve};

/// The policy as the disk has it.
#[derive(Debug)]
pub(in crate::linux) struct Tree {
    /// The node of `/`.
    pub(in crate::linux) root: Node,
    /// Rules for paths that do not exist and that a command could make, because they lie in a folder that it writes.
    pub(in crate::linux) creatable: Vec<PathBuf>,
    /// Remarks for the report.
    pub(in crate::linux) notes: Vec<String>,
    /// The search for names stopped before its end.
    pub(in crate::linux) names_incomplete: bool,
    /// Rules that would hide what every program needs.
    pub(in crate::linux) refusals: Vec<String>,
    /// Folders in which names may appear that no search has found yet.
    pub(in crate::linux) late: Vec<Late>,
}

/// One place.
#[derive(Debug, Default)]
pub(in crate::linux) struct Node {
    /// Access by a rule or a name. `None` inherits it from above.
    pub(in crate::linux) access: Option<RuleAccess>,
    /// True if the access comes from a name, or covers another program's socket, and not from a rule.
    pub(in crate::linux) by_name: bool,
    /// Something else shows here.
    pub(in crate::linux) source: Option<PathBuf>,
    /// Writes of the command stay apart: a hidden folder is empty, a readable one is copy-on-write.
    pub(in crate::linux) replaced: bool,
    /// The same, in memory.
    pub(in crate::linux) in_memory: bool,
    /// Tools can get again what is in it.
    pub(in crate::linux) is_cache: bool,
    /// The text of the link at this path, if it is one. The link is made anew if the folder around it is hidden.
    pub(in crate::linux) link: Option<PathBuf>,
    /// The kind of file at this path.
    pub(in crate::linux) kind: Kind,
    /// Places below about which something is said.
    pub(in crate::linux) children: BTreeMap<OsString, Self>,
}

/// Folders without which no program runs.
const NEEDED: &[&str] = &["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/dev"];

/// The folders of [`NEEDED`] with their real paths, resolved once because there are hundreds of rules to compare.
struct System(Vec<(&'static str, PathBuf)>);

impl System {
    fn find() -> Self {
        Self(NEEDED.iter().map(|path| (*path, resolve(Path::new(path)))).collect())
    }

    /// Returns what every program needs and could not be seen if `path` were hidden.
    fn hidden_by(&self, path: &Path) -> Option<&'static str> {
        self.0.iter().find(|(_, real)| real.starts_with(path)).map(|(name, _)| *name)
    }
}

/// The kind of file at a place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::linux) enum Kind {
    #[default]
    Folder,
    File,
    Missing,
}

impl Kind {
    fn of(path: &Path) -> Self {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Self::Folder,
            Ok(_) => Self::File,
            Err(_) => Self::Missing,
        }
    }
}

impl Tree {
    /// Looks at the disk: resolves the rules' paths and searches for the patterns' names. A `program` in a folder that
    /// something private takes the place of stays readable. Without `binds` nothing shows elsewhere.
    pub(in crate::linux) fn new(
        policy: &SandboxPolicy,
        program: Option<&Path>,
        binds: bool,
        listings: &Listings,
    ) -> Self {
        let mut tree = Self {
            root: Node::default(),
            creatable: Vec::new(),
            notes: Vec::new(),
            names_incomplete: false,
            refusals: Vec::new(),
            late: names::late(policy),
        };
        let (mut resolver, system) = (Resolver::default(), System::find());
        // Rules come sorted, each behind those around it.
        let mut around: Vec<&Rule> = Vec::new();
        for rule in &policy.rules {
            while around.pop_if(|above| !rule.path.starts_with(&above.path)).is_some() {}
            let writable = around.last().is_some_and(|above| above.access == RuleAccess::Write);
            around.push(rule);
            let (real, found) = resolver.resolve(&rule.path);
            if rule.access == RuleAccess::Deny
                && real != rule.path
                && let Some(why) = not_worth_hiding(&system, &rule.path, &real, writable)
            {
                tree.notes.push(format!("{} is not hidden: {why}", rule.path.display()));
                continue;
            }
            if rule.access == RuleAccess::Deny
                && let Some(hidden) = system.hidden_by(&real)
            {
                let (path, origin) = (rule.path.display(), &rule.origin);
                tree.refusals.push(format!("the rule for {path} ({origin}) would hide {hidden}"));
            }
            if rule.access != RuleAccess::Deny && real != rule.path && leads_out(policy, &rule.path, &real) {
                let path = rule.path.display();
                tree.notes
                    .push(format!("{path} is not opened: a link leads out of the folder that it is in"));
                continue;
            }
            if real != rule.path && (rule.access != RuleAccess::Deny || policy.replaced.contains(&rule.path))
            {
                for (link, text) in links_on_the_way(&rule.path) {
                    tree.root.at(&link).link = Some(text);
                }
            }
            let node = tree.root.at(&real);
            node.kind =
                found.map_or(Kind::Missing, |found| if found.is_dir() { Kind::Folder } else { Kind::File });
            if node.kind == Kind::Missing && writable && rule.access != RuleAccess::Write {
                tree.creatable.push(rule.path.clone());
            }
            // Rules may meet at one place through links; they count as rules for one path do.
            node.access = Some(match (node.access, rule.access) {
                (Some(RuleAccess::Deny), _) | (_, RuleAccess::Deny) => RuleAccess::Deny,
                (other, access) => other.map_or(access, |other| other.max(access)),
            });
        }
        for path in &policy.replaced {
            let node = tree.root.at(&resolver.resolve(path).0);
            // Without a view of our own, what is to be copy-on-write can only be read.
            node.replaced = node.access == Some(RuleAccess::Deny) || binds;
            // A folder of the command's own is made where none is.
            if node.access == Some(RuleAccess::Deny) && node.kind == Kind::Missing {
                node.kind = Kind::Folder;
            }
        }
        for path in &policy.caches {
            tree.root.at(&resolver.resolve(path).0).is_cache = true;
        }
        let private = SHARED_TMP.iter().filter(|_| policy.tmp == Tmp::Private);
        // A new view has a `/dev` of its own; without one, shared memory stays readable as all else is.
        for path in private.chain(binds.then_some(&SHARED_MEMORY)) {
            let node = tree.root.at(&resolve(Path::new(path)));
            // Not asked for by any rule, so an explicit one stays.
            if node.access.is_none() {
                node.access = Some(RuleAccess::Deny);
                (node.replaced, node.in_memory) = (true, true);
            }
        }
        if let Some(program) = program.map(resolve).filter(|program| program.is_absolute()) {
            let replaced = replaced_by_private().any(|path| program.starts_with(resolve(path)));
            if replaced && policy.allows(&program, Access::Read) {
                let node = tree.root.at(&program);
                node.kind = Kind::of(&program);
                node.access.get_or_insert(RuleAccess::Read);
            }
        }
        for bind in policy.binds.iter().filter(|_| binds) {
            let target = resolve(&bind.target);
            let node = tree.root.at(&target);
            node.kind = Kind::of(&bind.source);
            node.access = Some(bind.access);
            node.by_name = false;
            node.replaced = bind.layered;
            // A link that takes the place of a layer's source is not followed: an agent may have made it.
            node.source = Some(if bind.layered { bind.source.clone() } else { resolve(&bind.source) });
        }
        tree.root.look_below(None);
        let sockets = if binds { sockets::to_cover(policy) } else { Vec::new() };
        if !sockets.is_empty() {
            let listed = listed(sockets.iter().map(|path| path.display().to_string()));
            tree.notes.push(format!("sockets that others listen on are covered: {listed}"));
        }
        let found = names::find(policy, &tree.root, listings);
        tree.names_incomplete = found.incomplete;
        let sockets = sockets.into_iter().map(|path| (resolve(&path), path));
        for (path, actual) in found.paths.into_iter().chain(sockets) {
            let node = tree.root.at(&path);
            if node.access.is_none() {
                node.access = Some(RuleAccess::Deny);
                node.by_name = true;
                node.kind = Kind::of(&actual);
            }
        }
        tree
    }
}

impl Node {
    /// Returns a place about which nothing is said.
    pub(in crate::linux) const fn nothing() -> Self {
        Self {
            access: None,
            by_name: false,
            source: None,
            replaced: false,
            in_memory: false,
            is_cache: false,
            link: None,
            kind: Kind::Folder,
            children: BTreeMap::new(),
        }
    }

    /// Looks again at the places below those that show another folder. `shown` is the path that shows here.
    fn look_below(&mut self, shown: Option<&Path>) {
        let shown = self.source.clone().or_else(|| shown.map(Path::to_owned));
        for (name, child) in &mut self.children {
            let there = shown.as_ref().map(|shown| shown.join(name));
            if let (Some(there), Some(_), None) = (&there, child.access, &child.source) {
                child.kind = Kind::of(there);
            }
            child.look_below(there.as_deref());
        }
    }

    /// The node of `path`, made if there is none.
    fn at(&mut self, path: &Path) -> &mut Self {
        let parts = path.components().filter_map(|part| match part {
            std::path::Component::Normal(name) => Some(name),
            _ => None,
        });
        parts.fold(self, |node, name| node.children.entry(name.to_owned()).or_default())
    }
}

/// Returns the links on the way to `path`, the last name included, each with its text.
fn links_on_the_way(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut links = Vec::new();
    let mut rest = path.to_owned();
    // The kernel follows no more than this many either.
    for _ in 0..40 {
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let ancestors: Vec<_> = rest.ancestors().collect();
        let Some(link) = ancestors.into_iter().rev().find(is_link) else { break };
        let Ok(text) = fs::read_link(link) else { break };
        let below = rest.strip_prefix(link).unwrap_or(Path::new(""));
        let folder = link.parent().map(resolve).unwrap_or_default();
        let next =
            if below.as_os_str().is_empty() { folder.join(&text) } else { folder.join(&text).join(below) };
        links.push((link.to_owned(), text));
        rest = without_dots(&next);
    }
    links
}

/// Removes `.` and `..` from a path that leads through no link before them.
fn without_dots(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Why the target of a hidden link stays as it is: it is a device (`.bash_history` is often a link to `/dev/null`) or
/// holds the link itself (a desktop folder that is the home folder).
///
/// In a folder that commands write, one of them may have made the link, to hide from later commands what it leads to.
fn not_worth_hiding(system: &System, link: &Path, real: &Path, writable: bool) -> Option<&'static str> {
    if writable {
        return Some("it is a link in a folder that a command writes");
    }
    if system.hidden_by(real).is_some() {
        return Some("it is a link to a part of the system");
    }
    let found = fs::symlink_metadata(real).ok()?;
    if found.file_type().is_char_device() || found.file_type().is_block_device() {
        return Some("it is a link to a device");
    }
    let home = resolve(link.parent()?);
    home.starts_with(real).then_some("it is a link to a folder that holds it")
}
