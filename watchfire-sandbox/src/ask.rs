//! What a policy means for a path that somebody names.

use std::path::{Path, PathBuf};

use serde::Serialize;
use watchfire_core::Result;
use watchfire_core::sandbox::{Access, Decision, Rule, RuleAccess, SandboxPolicy, Tmp};

use crate::resolve::{leads_out, resolve};

/// Folders for temporary files that a private `/tmp` replaces.
pub(crate) const SHARED_TMP: &[&str] = &["/tmp", "/var/tmp"];

/// The folder of shared memory. Every new view of the file system has an empty one, even if the policy shows `/tmp`
/// as it is outside.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Yields the folders whose content a session with a private `/tmp` sees only where a rule names it.
pub(crate) fn replaced_by_private() -> impl Iterator<Item = &'static Path> {
    SHARED_TMP.iter().copied().chain([SHARED_MEMORY]).map(Path::new)
}

/// The meaning of a policy for one path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The path that was asked about.
    pub path: PathBuf,
    /// The path without links.
    pub real: PathBuf,
    /// The path of what shows there instead, where the sandbox can do that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shows: Option<PathBuf>,
    /// The decision about reading, with its rule.
    pub read: Decision,
    /// The decision about writing, with its rule.
    pub write: Decision,
}

/// Evaluates `policy` for `path` with the same link resolution that the sandboxes use: links in the path and in the
/// rules are followed, except links in a rule that lead out of the granted folder around them, and a file that shows
/// at another place counts as what shows there.
///
/// It is what a sandbox with every mechanism enforces; what one lacks is in its report.
///
/// # Errors
/// `invalid_input` for a rule that makes no sense.
pub fn ask(policy: &SandboxPolicy, path: &Path) -> Result<Answer> {
    let real = resolve(path);
    let mut effective = policy.clone();
    effective.rules.retain(|rule| !leads_out(policy, &rule.path, &resolve(&rule.path)));
    for rule in &mut effective.rules {
        rule.path = resolve(&rule.path);
    }
    for pattern in &mut effective.patterns {
        pattern.root = resolve(&pattern.root);
    }
    let mut shown: Vec<Rule> = Vec::new();
    let private = |path: &&Path| policy.tmp == Tmp::Private || *path == Path::new(SHARED_MEMORY);
    let shared = replaced_by_private().filter(private).map(resolve);
    // Not asked for by any rule, so an explicit one stays.
    let free = shared.filter(|path| effective.rules.iter().all(|rule| rule.path != *path));
    shown.extend(free.map(|path| Rule::new(path, RuleAccess::Write, "a private one")));
    let targets = policy.binds.iter().map(|bind| (resolve(&bind.target), bind));
    let around = targets.clone().filter(|(target, _)| real.starts_with(target));
    let deepest = around.max_by_key(|(target, _)| target.components().count());
    let shows = deepest.filter(|(target, bind)| *target != bind.source).and_then(|(target, bind)| {
        let below = real.strip_prefix(&target).ok()?;
        Some(if below.as_os_str().is_empty() { bind.source.clone() } else { bind.source.join(below) })
    });
    shown.extend(targets.map(|(target, bind)| Rule::new(target, bind.access, &bind.origin)));
    effective.rules.retain(|rule| shown.iter().all(|shown| shown.path != rule.path));
    // Building puts in order what following links has mixed up.
    let effective = effective.to_builder().rules(shown).build()?;
    let (read, write) = (effective.decide(&real, Access::Read), effective.decide(&real, Access::Write));
    Ok(Answer { path: path.to_owned(), real, shows, read, write })
}

#[cfg(test)]
mod tests {
    use watchfire_core::sandbox::{Bind, Verdict};

    use super::*;

    #[test]
    fn links_are_followed_and_what_shows_counts() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        let policy = SandboxPolicy::builder()
            .read(temp.path(), "the home folder")
            .deny(at("link"), "keys")
            .deny(at("hidden"), "files")
            .bind(Bind::new(at("copy"), at("hidden"), RuleAccess::Write, "a copy"))
            .build()
            .unwrap();
        let allowed = |path: &Path| {
            let answer = ask(&policy, path).unwrap();
            (answer.read.verdict == Verdict::Allowed, answer.write.verdict == Verdict::Allowed)
        };
        assert_eq!(allowed(&at("real/key")), (false, false));
        assert_eq!(allowed(&at("link/key")), (false, false));
        assert_eq!(allowed(&at("else")), (true, false));
        assert_eq!(allowed(&at("hidden/x")), (true, true));
        for private in ["/tmp/x", "/var/tmp/x", "/dev/shm/x"] {
            assert_eq!(allowed(Path::new(private)), (true, true), "{private}");
        }
        let answer = ask(&policy, &at("hidden/x")).unwrap();
        assert_eq!(answer.shows, Some(at("copy/x")));
        let rule = ask(&policy, &at("link/key")).unwrap().read.rule.unwrap();
        assert!(rule.contains("keys"), "{rule}");
    }
}
