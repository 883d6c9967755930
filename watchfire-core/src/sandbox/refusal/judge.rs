//! Finds what a sandbox denied in the output of failed programs.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Refusal, Refused, usual};
use crate::Result;
use crate::backend::FailedAccess;
use crate::sandbox::{
    Access, Control, ControlState, Decision, PolicyReport, Rule, RuleAccess, SandboxPolicy, Tmp, Verdict,
    follow_links,
};

/// Finds denials of the sandbox among the errors of programs.
#[derive(Debug)]
pub struct Refusals {
    policy: SandboxPolicy,
    cwd: PathBuf,
    report: PolicyReport,
}

/// Number of bytes read from the end of a program's output, where errors are.
const READ: usize = 64 * 1024;
/// Maximum number of paths looked up for the errors of one program.
const LOOKED_AT: usize = 64;

impl Refusals {
    /// Prepares for programs that run in `cwd` under `policy`, enforced as far as `report` says.
    ///
    /// # Errors
    /// `invalid_input` for a policy that makes no sense.
    pub fn new(policy: &SandboxPolicy, report: PolicyReport, cwd: PathBuf) -> Result<Self> {
        let policy = as_shown(policy)?;
        Ok(Self { policy, cwd, report })
    }

    /// Returns the end of a failed program's output, where errors are.
    pub(crate) fn telling(output: &str) -> &str {
        let from = output.len().saturating_sub(READ);
        // The end may begin inside a character, where a string cannot be cut.
        let from = (from..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or_default();
        output.get(from..).unwrap_or_default()
    }

    /// Returns the refusals in the output of a failed program, in which the backend has found the accesses `failed`. Blocks: it
    /// resolves symbolic links.
    pub(crate) fn find(&self, output: &str, failed: Vec<FailedAccess>) -> Vec<Refusal> {
        let mut found: Vec<Refusal> = Vec::new();
        // Bounded, since the output is the agent's and each path costs system calls.
        for failed in failed.into_iter().take(LOOKED_AT) {
            found.extend(self.judge(&failed).filter(|new| found.iter().all(|old| old.what != new.what)));
        }
        found.extend(usual::find(output, &self.policy, &self.report));
        found
    }

    /// Returns the refusal if the policy explains why an access failed. Blocks: it resolves symbolic links.
    #[must_use]
    pub fn judge(&self, failed: &FailedAccess) -> Option<Refusal> {
        let named = self.place(&failed.path)?;
        let access = if failed.change { Access::Write } else { Access::Read };
        let denied = |path: &Path, access| {
            let Decision { verdict, rule } = self.policy.decide(path, access);
            (verdict == Verdict::Denied && self.is_held(access)).then_some(rule)
        };
        // The path as it is named goes first; else the place that its links lead to may be the denied one.
        let real = || follow_links(&named);
        let (path, rule) = match denied(&named, access) {
            Some(rule) => (named, rule),
            None => {
                let real = real();
                let rule = denied(&real, access)?;
                (real, rule)
            }
        };
        // Programs report a hidden file as missing. It was denied only if the path is hidden and the file really
        // exists.
        let is_hidden = || denied(&path, Access::Read).is_some() && fs::symlink_metadata(&path).is_ok();
        let because_of_it = !failed.absent || is_hidden();
        because_of_it.then(|| Refusal::new(&failed.line, Refused::Path { path, access, rule }))
    }

    /// Returns the absolute path, or `None` if it is not certain: a program that changed its folder means another
    /// file by `../x`.
    fn place(&self, named: &str) -> Option<PathBuf> {
        let mut path = PathBuf::from("/");
        for part in self.cwd.join(named).components() {
            match part {
                Component::ParentDir => _ = path.pop(),
                Component::Normal(name) => path.push(name),
                _ => {}
            }
        }
        (named.starts_with('/') || path.starts_with(&self.cwd)).then_some(path)
    }

    /// Returns true if the sandbox enforces the policy for this access.
    fn is_held(&self, access: Access) -> bool {
        let control = if access == Access::Read { Control::HIDDEN } else { Control::WRITES };
        // A control that is partial can still be what denied the access.
        self.report.state(control).is_some_and(|state| state != ControlState::Open)
    }
}

/// Returns the policy with a rule at each path where the sandbox shows something else: binds and a private `/tmp`.
fn as_shown(policy: &SandboxPolicy) -> Result<SandboxPolicy> {
    let tmp = ["/tmp", "/var/tmp"].iter().filter(|_| policy.tmp == Tmp::Private);
    let tmp = tmp.map(|path| Rule::new(path, RuleAccess::Write, "a private one"));
    // A rule of the policy for `/tmp` itself outweighs the private one; a bind takes the place of the rule at
    // its target.
    let free = |rule: &Rule| policy.rules.iter().all(|other| other.path != rule.path);
    let shown = policy.binds.iter().map(|bind| Rule::new(&bind.target, bind.access, &bind.origin));
    let shown: Vec<Rule> = tmp.filter(free).chain(shown).collect();
    let mut policy = policy.clone();
    policy.rules.retain(|rule| shown.iter().all(|shown| shown.path != rule.path));
    // Built anew, because the rules of a policy are sorted and unique.
    policy.to_builder().rules(shown).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Bind, NamePattern, NoSandbox, Sandbox as _};

    fn access(refusal: &Refusal) -> (&Path, Access) {
        match &refusal.what {
            Refused::Path { path, access, .. } => (path, *access),
            Refused::Usual { advice } => panic!("{advice}"),
        }
    }

    fn held() -> PolicyReport {
        let enforced = |name| Control::new(name, ControlState::Enforced);
        PolicyReport::new("a sandbox", Default::default())
            .with_control(enforced(Control::HIDDEN))
            .with_control(enforced(Control::WRITES))
    }

    /// A home with a key, a file and a project whose worktree has a link to the key.
    fn home() -> (tempfile::TempDir, SandboxPolicy) {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in [".ssh", "p/.watchfire/w/src", "copy"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in [".ssh/id", ".netrc", "p/.watchfire/w/.env", "p/.watchfire/w/locked", "notes"] {
            fs::write(at(file), "").unwrap();
        }
        std::os::unix::fs::symlink(at(".ssh/id"), at("p/.watchfire/w/link")).unwrap();
        let policy = SandboxPolicy::builder()
            .read(home.path(), "base policy: the home folder")
            .deny(at(".ssh"), "base policy: keys")
            .deny(at(".netrc"), "base policy: keys")
            .deny(at("p/.watchfire"), "the project's task files")
            .write(at("p/.watchfire/w"), "the workspace")
            .bind(Bind::new(at("copy"), at("p/.watchfire"), RuleAccess::Write, "the session's files"))
            .pattern(NamePattern {
                root: home.path().into(),
                names: vec![".env".into()],
                except: Vec::new(),
                origin: "base policy: dotenv".into(),
            })
            .build()
            .unwrap();
        (home, policy)
    }

    fn failed(path: &str, change: bool, absent: bool) -> FailedAccess {
        FailedAccess { line: format!("cat: {path}: failed"), path: path.to_owned(), change, absent }
    }

    #[test]
    fn only_what_the_policy_denies_counts() {
        let (home, policy) = home();
        let refusals = Refusals::new(&policy, held(), home.path().join("p/.watchfire/w")).unwrap();
        let mut wrong = Vec::new();
        for (path, change, absent, expected) in [
            ("~/.netrc", false, true, Some("read ~/.netrc")),
            ("~/.netrc", false, false, Some("read ~/.netrc")),
            ("~/.ssh/id", false, true, Some("read ~/.ssh/id")),
            // It would not be there either way.
            ("~/.ssh/other", false, true, None),
            ("~/.pgpass", false, true, None),
            ("link", false, true, Some("read ~/.ssh/id")),
            (".env", false, true, Some("read ~/p/.watchfire/w/.env")),
            ("./src/../.env", false, false, Some("read ~/p/.watchfire/w/.env")),
            // Where that is depends on where the program was.
            ("../../../.netrc", false, false, None),
            // The modes of files do that.
            ("locked", false, false, None),
            ("~/p/.watchfire/w/locked", false, false, None),
            ("src/x", true, false, None),
            ("~/notes", false, false, None),
            ("~/notes", true, false, Some("write ~/notes")),
            ("~/.ssh/x", true, false, Some("write ~/.ssh/x")),
            ("~/nowhere/x", true, true, None),
            ("/dev/tty", false, true, None),
            // Private copies show there.
            ("~/p/.watchfire/tasks/1.yaml", true, false, None),
            ("/tmp/x", true, false, None),
        ] {
            let place = home.path().to_str().unwrap();
            let found = refusals.find("", vec![failed(&path.replace('~', place), change, absent)]);
            let words: Vec<_> = found
                .iter()
                .map(|it| {
                    let (path, access) = access(it);
                    let word = if access == Access::Write { "write" } else { "read" };
                    format!("{word} {}", path.display()).replace(place, "~")
                })
                .collect();
            if words != Vec::from_iter(expected) {
                wrong.push(format!("{path} {change} {absent}: {words:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_person_reads_what_to_do() {
        let (home, policy) = home();
        let refusals = Refusals::new(&policy, held(), home.path().to_owned()).unwrap();
        let netrc = home.path().join(".netrc");
        let said = failed(netrc.to_str().unwrap(), false, true);
        let [refusal] = &refusals.find("", vec![said.clone()])[..] else { panic!("one is expected") };
        let text = refusal.to_string();
        let line = format!("in settings.yaml: sandbox: {{read: [\"{}\"]}}", netrc.display());
        for part in [&*said.line, ".netrc (base policy: keys)", &line] {
            assert!(text.contains(part), "{text}");
        }
        let twice = refusals.find("", vec![said.clone(), said]);
        assert_eq!(twice, std::slice::from_ref(refusal), "once is enough");
    }

    #[test]
    fn without_a_sandbox_nothing_is_its_fault() {
        let (home, policy) = home();
        let report = NoSandbox.explain(&policy).unwrap();
        let refusals = Refusals::new(&policy, report, home.path().to_owned()).unwrap();
        let netrc = home.path().join(".netrc");
        assert_eq!(refusals.find("", vec![failed(netrc.to_str().unwrap(), false, false)]), []);
    }

    #[test]
    fn the_end_of_much_is_read() {
        let much = format!("{}cat: /x: Permission denied", "ü\n".repeat(READ));
        let read = Refusals::telling(&much);
        assert!(read.len() <= READ && read.ends_with("denied"));
        assert_eq!(Refusals::telling("short"), "short");
    }
}
