//! The oracle that evaluates a policy for one path.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{RuleAccess, SandboxPolicy};

/// Kind of access to a path.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read it, list it or execute it.
    Read,
    /// Change, create or remove it.
    Write,
}

/// Outcome of a decision.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The access is allowed.
    Allowed,
    /// The access is denied.
    Denied,
}

/// Outcome of evaluating a policy for one path, with the rule that decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Outcome.
    pub verdict: Verdict,
    /// Path and origin of the rule that decided, or `None` if no rule is about this path.
    pub rule: Option<String>,
}

impl SandboxPolicy {
    /// Evaluates `access` to `path`. Pure: compares names alone, so callers resolve symbolic links first.
    /// Relative paths, and those with `.` or `..`, are denied.
    #[must_use]
    pub fn decide(&self, path: &Path, access: Access) -> Decision {
        use std::path::Component;
        let normal = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        // By its name, a path with `..` could lie below a folder that it leaves.
        if !path.is_absolute() || !normal {
            return Decision {
                verdict: Verdict::Denied,
                rule: Some("not a normal absolute path".to_owned()),
            };
        }
        // Components, not bytes, are compared; the rules are sorted so that the last prefix found is the deepest.
        let rule = self
            .rules
            .iter()
            .filter(|rule| path.starts_with(&rule.path))
            .max_by_key(|rule| rule.path.components().count());
        // A name is denied with everything below it, like a rule at that place: one as deep or deeper is stronger.
        let depth = rule.map_or(0, |rule| rule.path.components().count());
        let deeper = path.ancestors().take_while(|ancestor| ancestor.components().count() > depth);
        let named =
            deeper.flat_map(|ancestor| self.patterns.iter().find(|pattern| pattern.matches(ancestor))).next();
        if let Some(pattern) = named {
            let rule = format!("{} below {}", pattern.origin, pattern.root.display());
            return Decision { verdict: Verdict::Denied, rule: Some(rule) };
        }
        // Without a rule a path may be read, as the policy's documentation promises.
        let granted = rule.map_or(RuleAccess::Read, |rule| rule.access);
        let needed = match access {
            Access::Read => RuleAccess::Read,
            Access::Write => RuleAccess::Write,
        };
        Decision {
            // `RuleAccess` is ordered from the strictest to the widest.
            verdict: if granted >= needed { Verdict::Allowed } else { Verdict::Denied },
            rule: rule.map(|rule| format!("{} ({})", rule.path.display(), rule.origin)),
        }
    }

    /// Returns true if the policy allows `access` to `path`.
    #[must_use]
    pub fn allows(&self, path: impl AsRef<Path>, access: Access) -> bool {
        self.decide(path.as_ref(), access).verdict == Verdict::Allowed
    }
}

#[cfg(test)]
mod tests {
    use super::super::NamePattern;
    use super::*;

    fn policy() -> SandboxPolicy {
        SandboxPolicy::builder()
            .deny("/home/u/.ssh", "ssh keys")
            .deny("/home/u/Documents", "personal")
            .write("/home/u/Documents/p", "project")
            .deny("/home/u/Documents/p", "stricter twin")
            .write("/home/u/w", "workspace")
            .read("/home/u/w", "also readable, which takes nothing away")
            .read("/home/u/w/.git", "pointer")
            .write("/home/u/w/keep/.env.local", "named")
            .write("/home/u/w/.env.d", "named folder")
            .pattern(NamePattern {
                root: "/home/u".into(),
                names: vec![".env".into(), ".env.*".into()],
                except: vec![".env.example".into()],
                origin: "dotenv".into(),
            })
            .build()
            .unwrap()
    }

    #[test]
    fn the_deepest_rule_decides() {
        let policy = policy();
        for (path, read, write) in [
            ("/usr/bin/env", true, false),
            ("/home/u/.ssh/id", false, false),
            ("/home/u/.sshd", true, false),
            ("/home/u/w/src/a.rs", true, true),
            ("/home/u/w/.git", true, false),
            ("/home/u/Documents/p/x", false, false),
            ("/home/u/w/.env", false, false),
            ("/home/u/w/deep/.env.prod/x", false, false),
            ("/home/u/w/.env.example", true, true),
            ("/home/u/w/keep/.env.local", true, true),
            ("/home/u/w/../.ssh/id", false, false),
            ("/home/u/w/.env.d/x", true, true),
            ("/home/u/w/.env.d/.env", false, false),
            ("relative", false, false),
        ] {
            assert_eq!(policy.allows(path, Access::Read), read, "read {path}");
            assert_eq!(policy.allows(path, Access::Write), write, "write {path}");
        }
    }

    #[test]
    fn a_decision_names_its_rule() {
        let decision = policy().decide(Path::new("/home/u/.ssh/id"), Access::Read);
        assert_eq!(decision.rule.as_deref(), Some("/home/u/.ssh (ssh keys)"));
    }

    #[test]
    fn the_root_cannot_be_denied() {
        let error =
            SandboxPolicy::builder().deny("/", "settings").read("/usr", "settings").build().unwrap_err();
        assert!(error.code() == "invalid_input" && error.to_string().contains("deny what shall be hidden"));
    }

    #[test]
    fn relative_rules_are_refused() {
        let error = SandboxPolicy::builder().deny("a/../b", "bad").build().unwrap_err();
        assert_eq!(error.code(), "invalid_input");
        assert!(error.to_string().contains("bad"), "{error}");
    }
}
