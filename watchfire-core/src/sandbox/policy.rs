//! The policy: plain data.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::EnvironmentPolicy;
use crate::model::ResourceLimits;
use crate::{Error, ErrorKind, Result};

/// Permissions of a confined command. Plain data, the same on every platform.
///
/// **Paths.** The deepest [`Rule`] on the way to a path decides; of several for one path a denial does, else the widest
/// grant.
/// Without a rule a path may be read and not written. **Names** that match [`patterns`](Self::patterns) below their
/// root may be neither read nor written, with all below them, unless a rule names exactly that path or a deeper one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxPolicy {
    /// Behaviour where a rule cannot be enforced.
    pub enforcement: Enforcement,
    /// Rules for paths: absolute, normal, unique, sorted.
    pub rules: Vec<Rule>,
    /// Names that are denied at any depth.
    pub patterns: Vec<NamePattern>,
    /// Files and folders shown at other paths, on sandboxes that can do that: see [`Bind`].
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Folders that the command can write without changing the real ones, where the sandbox can do that. A denied one
    /// is empty at first; a readable one shows its files, and changes go to a copy-on-write layer. Either is gone when
    /// the command has ended, but for what is [`kept`](Self::kept). [`SandboxPolicy::decide`] judges the real folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<PathBuf>,
    /// Those of the [`replaced`](Self::replaced) folders whose content tools can get again. Where the sandbox can neither put
    /// a layer over one nor copy it, the command sees an empty folder that it can write, instead of one to be read only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<PathBuf>,
    /// Folder for the content of [`replaced`](Self::replaced) folders while the command runs. It is created if only it
    /// is missing. `None`: below the folder for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<PathBuf>,
    /// What commands add to some of the replaced folders, and later ones see. `None`: nothing is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Files that are written for the command into replaced folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OwnFile>,
    /// Folders to create before the command starts, since tools create them at their first use. The command may write
    /// them, and those still empty at its end are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub make: Vec<PathBuf>,
    /// True if the command must not reach other programs of the user except over TCP and UDP: not through sockets that
    /// have a path, D-Bus, the display or signals.
    #[serde(default)]
    pub apart: bool,
    /// Reasons why no sandbox can enforce this policy. If there is one, no sandbox starts anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Access to the network.
    pub network: Network,
    /// Kind of `/tmp` that the command sees.
    pub tmp: Tmp,
    /// Variables of this process that pass to the command.
    pub environment: EnvironmentPolicy,
    /// Resources that the command may use.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_none")]
    pub limits: ResourceLimits,
    /// Remarks for every report, such as gaps that the author of the policy accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Behaviour where a rule cannot be enforced.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The command does not start.
    #[default]
    Required,
    /// The command starts, and the report lists the open controls.
    BestEffort,
}

/// One rule for a path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// A file, or a folder with all below it. Absolute.
    pub path: PathBuf,
    /// Access that the rule grants.
    pub access: RuleAccess,
    /// Source of the rule, for people: `base policy: ssh keys`, `settings: sandbox.deny`.
    pub origin: String,
}

impl Rule {
    /// Creates a rule for `path`, because of `origin`.
    pub fn new(path: impl Into<PathBuf>, access: RuleAccess, origin: impl Into<String>) -> Self {
        Self { path: path.into(), access, origin: origin.into() }
    }
}

/// A file or folder shown to the command at another path, in front of the real one: a private copy at the path that
/// tools expect.
///
/// Not every sandbox can do it. The report says so under [`Control::BINDS`](super::Control::BINDS): where that is open,
/// the rules decide about the real file, and the caller passes the source's path to the command in another way.
/// [`SandboxPolicy::decide`] judges the real file. Rules and patterns for paths below the target hold for the files
/// shown there.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Bind {
    /// File or folder to show. It must exist, and no rule needs to grant it.
    pub source: PathBuf,
    /// Path at which it shows. It must exist, as a folder if and only if the source is one.
    pub target: PathBuf,
    /// Access that is granted there; never [`RuleAccess::Deny`].
    pub access: RuleAccess,
    /// True if a readable folder can be written without changing the source: changes go to a copy-on-write layer that
    /// is gone when the command has ended. The path of the source must contain no link.
    #[serde(default)]
    pub layered: bool,
    /// Source of the entry, for people.
    pub origin: String,
}

impl Bind {
    /// Shows `source` at `target`, because of `origin`.
    pub fn new(
        source: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
        access: RuleAccess,
        origin: impl Into<String>,
    ) -> Self {
        Self { source: source.into(), target: target.into(), access, layered: false, origin: origin.into() }
    }

    /// Shows the folder `source` at `target` for reading, with changes in a copy-on-write layer.
    pub fn layered(
        source: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
        origin: impl Into<String>,
    ) -> Self {
        Self { layered: true, ..Self::new(source, target, RuleAccess::Read, origin) }
    }
}

/// Caches whose new entries outlive the command. Whatever else it writes to a replaced folder is gone at its end.
///
/// Neither the real cache nor what an earlier command kept ever changes. Where both have an entry of one name, the real one
/// shows.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The folder for what is kept. It is created if only it is missing. Commands with the same one trust each other.
    pub folder: PathBuf,
    /// The caches. They may be missing.
    pub places: Vec<PathBuf>,
    /// Maximum size of all that is kept. Where a command adds too much, what was there before goes.
    pub max_bytes: u64,
}

/// A file that a sandbox writes for the command, in a folder that is [replaced](SandboxPolicy::replaced).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct OwnFile {
    /// Path at which the command finds it.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
    /// Variable that names the file to the command where it cannot be shown at its path.
    pub variable: Option<String>,
    /// Source of the entry, for people.
    pub origin: String,
}

/// Access that a rule grants, strictest first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAccess {
    /// No access. On sandboxes that can, the path is invisible.
    Deny,
    /// Reading and executing.
    Read,
    /// Reading, executing and writing.
    Write,
}

/// File names that are denied at any depth below a folder: secrets that projects keep beside their code.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct NamePattern {
    /// The folder.
    pub root: PathBuf,
    /// Names that match, in any case: literal, or with `*` that stands for anything.
    pub names: Vec<String>,
    /// Names that stay allowed although one of `names` matches.
    pub except: Vec<String>,
    /// Source of the entry, for people.
    pub origin: String,
}

impl NamePattern {
    /// Returns those patterns that match other names than the ones before them. The same names often count below several
    /// roots, such as the home folder and the project, and need to be matched once.
    #[must_use]
    pub fn distinct<'a>(patterns: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut distinct: Vec<Self> = Vec::new();
        for pattern in patterns {
            if !distinct.iter().any(|kept| kept.names == pattern.names && kept.except == pattern.except) {
                distinct.push(pattern.clone());
            }
        }
        distinct
    }

    /// Returns true if `path` lies below the root and its last part matches.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let is_below = path.starts_with(&self.root) && path != self.root;
        is_below && path.file_name().is_some_and(|name| self.matches_name(name))
    }

    /// Returns true if a name matches, wherever the file is.
    #[must_use]
    pub fn matches_name(&self, name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        // `.ENV` is read by no program that `.env` is not, and on some file systems it is the same file.
        let any = |patterns: &[String]| {
            patterns.iter().any(|pattern| glob_by(pattern.as_bytes(), name, <[u8]>::eq_ignore_ascii_case))
        };
        any(&self.names) && !any(&self.except)
    }
}

/// Returns true if `name` matches `pattern`, in which each `*` stands for anything.
pub(super) fn glob(pattern: &str, name: &str) -> bool {
    glob_by(pattern.as_bytes(), name.as_bytes(), |one, other| one == other)
}

/// Matches as [`glob`] does, with `is_same` for parts of one length. Allocates nothing: the files of a whole folder are matched while
/// an agent waits for its start.
fn glob_by(pattern: &[u8], name: &[u8], is_same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    // Most names differ from most patterns at one end.
    let may_be = |of: Option<&u8>, there: Option<&u8>| match (of, there) {
        (Some(b'*') | None, _) => true,
        (Some(of), Some(there)) => is_same(&[*there], &[*of]),
        (Some(_), None) => false,
    };
    if !(may_be(pattern.first(), name.first()) && may_be(pattern.last(), name.last())) {
        return false;
    }
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some((start, mut rest)) = name.split_at_checked(first.len()) else { return false };
    if !is_same(start, first) {
        return false;
    }
    // Without a `*` the pattern is a literal name.
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts.filter(|part| !part.is_empty()) {
        // The earliest place leaves the most for what follows.
        let Some(at) = rest.windows(part.len()).position(|there| is_same(there, part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len().checked_sub(last.len()).is_some_and(|at| is_same(&rest[at..], last))
}

/// Access to the network.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Every connection.
    #[default]
    Open,
    /// Every connection except TCP to these ports of this machine.
    OpenExceptPorts(Vec<u16>),
    /// Connections to other machines, but none to this one or to link-local addresses, and no TCP to these ports.
    #[non_exhaustive]
    Internet {
        /// TCP ports that stay closed on other machines too.
        closed_ports: Vec<u16>,
    },
    /// None.
    Closed,
}

/// Kind of `/tmp` that a command sees.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Tmp {
    /// A folder of the command's own. Where the sandbox cannot show one there, `TMPDIR` names one and `/tmp` cannot be
    /// written.
    #[default]
    Private,
    /// The machine's.
    Shared,
}

impl Network {
    /// Connections to other machines, but to these TCP ports.
    #[must_use]
    pub fn internet(closed_ports: Vec<u16>) -> Self {
        Self::Internet { closed_ports }
    }
}

impl SandboxPolicy {
    /// Returns the builder of a policy in which everything may be read and nothing written.
    #[must_use]
    pub fn builder() -> SandboxPolicyBuilder {
        SandboxPolicyBuilder::default()
    }

    /// Returns a builder that starts from this policy.
    #[must_use]
    pub fn to_builder(&self) -> SandboxPolicyBuilder {
        SandboxPolicyBuilder {
            enforcement: self.enforcement,
            rules: self.rules.clone(),
            patterns: self.patterns.clone(),
            binds: self.binds.clone(),
            replaced: self.replaced.clone(),
            caches: self.caches.clone(),
            layers: self.layers.clone(),
            kept: self.kept.clone(),
            files: self.files.clone(),
            apart: self.apart,
            refusals: self.refusals.clone(),
            make: self.make.clone(),
            network: self.network.clone(),
            tmp: self.tmp,
            environment: self.environment.clone(),
            limits: self.limits.clone(),
            notes: self.notes.clone(),
        }
    }
}

/// Builds a [`SandboxPolicy`].
#[derive(Clone, Debug, Default)]
pub struct SandboxPolicyBuilder {
    enforcement: Enforcement,
    rules: Vec<Rule>,
    patterns: Vec<NamePattern>,
    binds: Vec<Bind>,
    replaced: Vec<PathBuf>,
    caches: Vec<PathBuf>,
    layers: Option<PathBuf>,
    kept: Option<Kept>,
    files: Vec<OwnFile>,
    apart: bool,
    refusals: Vec<String>,
    make: Vec<PathBuf>,
    network: Network,
    tmp: Tmp,
    environment: EnvironmentPolicy,
    limits: ResourceLimits,
    notes: Vec<String>,
}

impl SandboxPolicyBuilder {
    /// Sets the behaviour where a rule cannot be enforced.
    #[must_use]
    pub fn enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds rules.
    #[must_use]
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Allows reading and executing.
    #[must_use]
    pub fn read(self, path: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        self.rule(Rule::new(path, RuleAccess::Read, origin))
    }

    /// Allows reading, executing and writing.
    #[must_use]
    pub fn write(self, path: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        self.rule(Rule::new(path, RuleAccess::Write, origin))
    }

    /// Denies every access.
    #[must_use]
    pub fn deny(self, path: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        self.rule(Rule::new(path, RuleAccess::Deny, origin))
    }

    /// Denies names at any depth.
    #[must_use]
    pub fn pattern(mut self, pattern: NamePattern) -> Self {
        self.patterns.push(pattern);
        self
    }

    /// Lets the command write a folder without changing the real one: see [`SandboxPolicy::replaced`].
    #[must_use]
    pub fn replace(mut self, path: impl Into<PathBuf>) -> Self {
        self.replaced.push(path.into());
        self
    }

    /// Lets a replaced folder be empty where it can be no layer: see [`SandboxPolicy::caches`].
    #[must_use]
    pub fn cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.caches.push(path.into());
        self
    }

    /// Sets the folder for the content of replaced folders.
    #[must_use]
    pub fn layers(mut self, folder: impl Into<PathBuf>) -> Self {
        self.layers = Some(folder.into());
        self
    }

    /// Keeps what the command adds to caches for later ones, or nothing: see [`SandboxPolicy::kept`].
    #[must_use]
    pub fn keep(mut self, kept: Option<Kept>) -> Self {
        self.kept = kept;
        self
    }

    /// Writes a file for the command into a replaced folder.
    #[must_use]
    pub fn file(mut self, file: OwnFile) -> Self {
        self.files.push(file);
        self
    }

    /// Keeps other programs of the user out of reach, except over TCP and UDP.
    #[must_use]
    pub fn apart(mut self, apart: bool) -> Self {
        self.apart = apart;
        self
    }

    /// Adds a reason why no sandbox can enforce the policy.
    #[must_use]
    pub fn refuse(mut self, why: impl Into<String>) -> Self {
        self.refusals.push(why.into());
        self
    }

    /// Creates a folder before the command starts, if the command may write it.
    #[must_use]
    pub fn make(mut self, path: impl Into<PathBuf>) -> Self {
        self.make.push(path.into());
        self
    }

    /// Shows a file or folder at another path.
    #[must_use]
    pub fn bind(mut self, bind: Bind) -> Self {
        self.binds.push(bind);
        self
    }

    /// Sets the access to the network.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Sets the kind of `/tmp`.
    #[must_use]
    pub fn tmp(mut self, tmp: Tmp) -> Self {
        self.tmp = tmp;
        self
    }

    /// Sets the variables of this process that pass.
    #[must_use]
    pub fn environment(mut self, environment: EnvironmentPolicy) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the resources that the command may use.
    #[must_use]
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a remark for every report.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Checks and sorts the rules, and builds the policy.
    ///
    /// # Errors
    /// `invalid_input` for a path that is relative or has `.` or `..` in it, with the rule's origin; and for a denial of
    /// `/`, under which nothing could run.
    pub fn build(mut self) -> Result<SandboxPolicy> {
        let paths = self.rules.iter().map(|rule| (&rule.path, &rule.origin));
        let roots = self.patterns.iter().map(|pattern| (&pattern.root, &pattern.origin));
        let binds =
            self.binds.iter().flat_map(|bind| [&bind.source, &bind.target].map(|path| (path, &bind.origin)));
        for (path, origin) in paths.chain(roots).chain(binds) {
            let normal =
                path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            if !path.is_absolute() || !normal {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    "a sandbox rule needs an absolute path without . or ..",
                )
                .with("rule", origin)
                .with_path(path));
            }
        }
        // The programs and libraries that every command loads lie below `/`.
        let all = |rule: &&Rule| rule.access == RuleAccess::Deny && rule.path == Path::new("/");
        if let Some(rule) = self.rules.iter().find(all) {
            let error =
                Error::new(ErrorKind::InvalidInput, "without / nothing can run: deny what shall be hidden");
            return Err(error.with("rule", &rule.origin).with_path(&rule.path));
        }
        // To hide a path takes a rule; a bind has something to show.
        if let Some(bind) = self.binds.iter().find(|bind| bind.access == RuleAccess::Deny) {
            return Err(Error::new(ErrorKind::InvalidInput, "what is shown elsewhere can be read at least")
                .with("rule", &bind.origin)
                .with_path(&bind.target));
        }
        // A denial sorts first and stays, then the widest grant.
        let order = |access| match access {
            RuleAccess::Deny => 0,
            RuleAccess::Write => 1,
            RuleAccess::Read => 2,
        };
        self.rules.sort_by(|a, b| a.path.cmp(&b.path).then(order(a.access).cmp(&order(b.access))));
        self.rules.dedup_by(|later, kept| later.path == kept.path);
        Ok(SandboxPolicy {
            enforcement: self.enforcement,
            rules: self.rules,
            patterns: self.patterns,
            binds: self.binds,
            replaced: self.replaced,
            caches: self.caches,
            layers: self.layers,
            kept: self.kept,
            files: self.files,
            apart: self.apart,
            refusals: self.refusals,
            make: self.make,
            network: self.network,
            tmp: self.tmp,
            environment: self.environment,
            limits: self.limits,
            notes: self.notes,
        })
    }
}
