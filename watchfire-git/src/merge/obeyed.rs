//! The files of the checkout that git's configuration includes, and those that it names in commands. Who changes one of them
//! changes what the person's git runs.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use git2::Repository;
use watchfire_core::Result;

use crate::error::During;

/// Keys whose value is a command.
const COMMANDS: &[&str] = &[
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "diff.external",
    "gpg.ssh.defaultkeycommand",
    "interactive.difffilter",
    "sequence.editor",
    "uploadpack.packobjectshook",
];

/// Sections with a name in the middle, or none, and the last words of their keys that are commands; none: all of them.
const SECTIONS: &[(&str, &[&str])] = &[
    ("alias.", &[]),
    ("browser.", &[".cmd", ".path"]),
    ("credential.", &[".helper"]),
    ("diff.", &[".command", ".textconv"]),
    ("difftool.", &[".cmd", ".path"]),
    ("filter.", &[".clean", ".process", ".smudge"]),
    ("gpg.", &[".program"]),
    ("hook.", &[".command"]),
    ("merge.", &[".driver"]),
    ("mergetool.", &[".cmd", ".path"]),
    ("pager.", &[]),
    ("remote.", &[".receivepack", ".uploadpack"]),
    ("submodule.", &[".update"]),
    ("tar.", &[".command"]),
    ("trailer.", &[".cmd", ".command"]),
];

/// Returns the files, from the root of the checkout on. One that is included may be missing.
pub(crate) fn files(repo: &Repository) -> Result<BTreeSet<String>> {
    let Some(root) = repo.workdir() else { return Ok(BTreeSet::new()) };
    let during = "reading the configuration";
    let (mut commands, mut included) = (Vec::new(), Vec::new());
    let config = repo.config().during(during)?;
    let mut entries = config.entries(None).during(during)?;
    while let Some(entry) = entries.next() {
        let entry = entry.during(during)?;
        let (Ok(name), Ok(value)) = (entry.name(), entry.value()) else { continue };
        if is_include(name) {
            included.push(value.to_owned());
        } else if is_command(name) {
            commands.push(value.to_owned());
        }
    }
    let mut found = BTreeSet::new();
    // A relative path counts from the file that includes it, which may be included itself.
    let mut bases = vec![repo.commondir().to_path_buf(), root.to_path_buf()];
    for value in &included {
        let home = std::env::home_dir().unwrap_or_default();
        let path = value.strip_prefix("~/").map_or_else(|| PathBuf::from(value), |rest| home.join(rest));
        let inside: Vec<_> = bases.iter().filter_map(|base| below(root, &base.join(&path))).collect();
        bases.extend(inside.iter().filter_map(|file| root.join(file).parent().map(Path::to_path_buf)));
        found.extend(inside);
    }
    for word in commands.iter().flat_map(|command| words(command)) {
        let named = below(root, &root.join(word));
        let is_there = |file: &String| root.join(file).symlink_metadata().is_ok_and(|found| !found.is_dir());
        found.extend(named.filter(|file| word.starts_with("./") || is_there(file)));
    }
    Ok(found)
}

fn is_include(name: &str) -> bool {
    name == "include.path" || (name.starts_with("includeif.") && name.ends_with(".path"))
}

fn is_command(name: &str) -> bool {
    let of = |(section, ends): &(&str, &[&str])| {
        name.starts_with(section) && (ends.is_empty() || ends.iter().any(|end| name.ends_with(end)))
    };
    COMMANDS.contains(&name) || SECTIONS.iter().any(of)
}

/// Yields the words of a command that may be files.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let parts = command.split(|c: char| c.is_whitespace() || "'\"`;|&()<>=!$".contains(c));
    parts.filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// Returns the path from `root` on, or `None` if it lies elsewhere or is no UTF-8.
fn below(root: &Path, path: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    let inside = plain.strip_prefix(root).ok()?;
    // The repository itself is closed in another way.
    let is_git =
        inside.components().next().is_some_and(|first| first.as_os_str().eq_ignore_ascii_case(".git"));
    inside.to_str().filter(|path| !path.is_empty() && !is_git).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_leads_to_counts() {
        let temp = tempfile::tempdir().unwrap();
        let repo = Repository::init(temp.path()).unwrap();
        let root = repo.workdir().unwrap().to_path_buf();
        for file in ["fsm", "tools/clean.py", "conf/one", "message", "alias.sh"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        std::fs::write(root.join("conf/one"), "[include]\n\tpath = two\n").unwrap();
        let mut config = repo.config().unwrap();
        for (name, value) in [
            ("include.path", "../conf/one"),
            ("includeif.gitdir:/nowhere/.path", "../missing"),
            ("core.fsmonitor", "./fsm"),
            ("filter.x.clean", "sh -c 'python3 tools/clean.py %f'"),
            ("alias.x", "!alias.sh"),
            ("merge.y.driver", "./gone %A"),
            ("commit.template", "message"),
            ("user.name", "fsm"),
            ("diff.z.textconv", "cat"),
        ] {
            config.set_str(name, value).unwrap();
        }
        let found: Vec<_> = files(&repo).unwrap().into_iter().collect();
        assert_eq!(
            found,
            ["alias.sh", "conf/one", "conf/two", "fsm", "gone", "missing", "tools/clean.py", "two"]
        );
    }
}
