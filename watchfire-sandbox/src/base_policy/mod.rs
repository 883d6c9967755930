//! The policy that all sessions start from.
//!
//! Sessions add what is theirs: the workspace, git's rules, the backend's grants. The deepest rule decides, so a grant
//! inside a hidden folder opens that path and no more.

mod places;
mod tables;
mod user_dirs;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use places::Places;
use tables::{
    AGENTS, CACHES, CACHES_MACOS, DOTENV, DOTENV_PUBLIC, FIRST_USE, PERSONAL, ROOT_ONLY_LINUX,
    SECRET_VARIABLES, SECRETS, SECRETS_MACOS, SOCKETS_LINUX, VARIABLES,
};
use watchfire_core::model::{NetworkSetting, Sharing};
use watchfire_core::process::resolve_program;
use watchfire_core::sandbox::{
    Bind, EnvironmentPolicy, NamePattern, Network, PolicyInputs, Rule, RuleAccess, SandboxPolicy,
    SandboxPolicyBuilder, Tmp,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::ask::replaced_by_private;

/// The base policy of this platform.
///
/// - Everything may be read but credentials, personal folders, other agents' folders, the Watchfire home and the
///   project's `.watchfire/`; names like `.env` are hidden at any depth below the home folder and the project.
/// - Nothing may be written but the caches of package managers. Those of tools that are there are to be made.
/// - Where the person's variables say that a tool keeps its things elsewhere (`XDG_CONFIG_HOME`, `CARGO_HOME`), the same
///   holds there.
/// - A project inside a hidden folder may be read; the rest of that folder stays hidden.
/// - The person's settings come last: a grant on exactly a path that is hidden here opens it, a denial closes it.
/// - Variables pass by an allow-list; those that look like secrets never do unless the settings name them.
///
/// # Errors
/// `invalid_input` for a relative path in the inputs or the settings, naming the field.
pub fn base_policy(inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
    base_policy_for(Platform::current(), inputs)
}

/// What the lists depend on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(not(test), expect(dead_code, reason = "each platform makes one of them"))]
pub(crate) enum Platform {
    /// Linux; `root` when we run as root, whom file modes do not hold back.
    Linux {
        root: bool,
    },
    MacOs,
    Other,
}

impl Platform {
    fn current() -> Self {
        #[cfg(target_os = "linux")]
        return Self::Linux { root: rustix::process::geteuid().is_root() };
        #[cfg(target_os = "macos")]
        return Self::MacOs;
        #[cfg(not(any(target_os = "linux", target_os = "macos")))]
        return Self::Other;
    }
}

/// The base policy of any platform.
pub(crate) fn base_policy_for(platform: Platform, inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
    let home = inputs.home.as_deref().map(|home| absolute("home", home)).transpose()?;
    let project = inputs.project_root.as_deref().map(|root| absolute("project_root", root)).transpose()?;
    let watchfire =
        inputs.watchfire_home.as_deref().map(|home| absolute("watchfire_home", home)).transpose()?;

    let private_caches = inputs.settings.caches == Some(Sharing::Private);
    let mut rules = Vec::new();
    let mut binds = Vec::new();
    let mut made: Vec<PathBuf> = Vec::new();
    let places = home.map(|home| Places::new(home, &inputs.environment));
    if let (Some(home), Some(places)) = (home, &places) {
        home_rules(platform, home, places, project, &mut rules);
        let others = other_homes(platform).into_iter().filter(|other| other != home);
        rules.extend(others.flat_map(|other| secrets(platform, &Places::new(&other, &BTreeMap::new()))));
        made = first_use().flat_map(|path| places.of(path)).collect();
        let caches = caches(platform).flat_map(|name| places.of(name).map(move |path| (path, name)));
        for (path, name) in caches.filter(|(path, _)| project.is_none_or(|root| !root.starts_with(path))) {
            let access = if private_caches { RuleAccess::Read } else { RuleAccess::Write };
            rules.push(Rule::new(&path, access, "base policy: package caches"));
            let there = path.exists() || made.contains(&path);
            if let (true, Some(own), true) = (private_caches, &inputs.own_caches, there) {
                binds.push(Bind::new(own.join(name), path, RuleAccess::Write, "settings: sandbox.caches"));
            }
        }
    }
    system_rules(platform, &mut rules);
    rules.extend(watchfire.map(|path| deny(path, "base policy: Watchfire's own files")));
    // Explicit although everything may be read: a private `/tmp` hides whatever in it no rule names. One that is the
    // whole of `/tmp` is left out, since a rule for exactly that path would make `/tmp` shared and read-only.
    let named = |path: &&Path| !replaced_by_private().any(|replaced| replaced == *path);
    if let Some(home) = home.filter(named) {
        rules.push(Rule::new(home, RuleAccess::Read, "base policy: the home folder"));
    }
    if let Some(root) = project {
        rules.push(Rule::new(root, RuleAccess::Read, "base policy: the project"));
        rules.push(deny(root.join(".watchfire"), "base policy: the project's tasks and secrets"));
    }
    let own = settings_rules(inputs, home)?;
    // Of two rules for one path the stricter one stays, so a grant on a path hidden above must take its place.
    rules.retain(|rule| !own.iter().any(|other| other.path == rule.path));
    rules.extend(own);

    let settings = &inputs.settings;
    let mut builder = SandboxPolicy::builder()
        .rules(rules)
        .environment(environment(&settings.pass_env))
        .network(match settings.network {
            Some(NetworkSetting::Closed) => Network::Closed,
            _ if settings.deny_ports.is_empty() => Network::Open,
            _ => Network::OpenExceptPorts(settings.deny_ports.clone()),
        })
        .tmp(if settings.tmp == Some(Sharing::Shared) { Tmp::Shared } else { Tmp::Private })
        .limits(settings.limits.clone());
    builder = binds.into_iter().fold(builder, SandboxPolicyBuilder::bind);
    builder = made.into_iter().fold(builder, SandboxPolicyBuilder::make);
    let agents = places.iter().flat_map(|places| AGENTS.iter().flat_map(|name| places.of(name)));
    // One that a setting opens stays as it is: the rules decide.
    builder = agents.fold(builder, SandboxPolicyBuilder::replace);
    builder = builder.note(match private_caches {
        true => "package caches are the project's own, where they can be shown in place; else they cannot be written",
        false => "package caches are shared: what is put there, a later run of the same tool outside may use",
    });
    if settings.tmp == Some(Sharing::Shared) {
        builder = builder
            .note("/tmp is shared, as the settings say: files and sockets of other programs are in it");
    }
    for root in [home, project].into_iter().flatten() {
        builder = builder.pattern(NamePattern {
            root: root.to_owned(),
            names: strings(DOTENV),
            except: strings(DOTENV_PUBLIC),
            origin: "base policy: secrets beside code".to_owned(),
        });
    }
    Ok(builder)
}

fn home_rules(
    platform: Platform,
    home: &Path,
    places: &Places<'_>,
    project: Option<&Path>,
    rules: &mut Vec<Rule>,
) {
    rules.extend(secrets(platform, places));
    let mut personal: Vec<_> = PERSONAL.iter().map(|name| home.join(name)).collect();
    if matches!(platform, Platform::Linux { .. }) {
        personal.extend(user_dirs::of(home));
    }
    // A project that *is* such a folder leaves nothing of it to hide.
    personal.retain(|path| Some(path.as_path()) != project);
    rules.extend(personal.into_iter().map(|path| deny(path, "base policy: personal folders")));
}

fn secrets(platform: Platform, places: &Places<'_>) -> Vec<Rule> {
    let macos = platform == Platform::MacOs;
    let all = SECRETS.iter().chain(AGENTS).chain(SECRETS_MACOS.iter().filter(|_| macos));
    let all = all.flat_map(|path| places.of(path));
    all.map(|path| deny(path, "base policy: credentials and private data")).collect()
}

/// The homes of this machine that root can read. More than a few are not a person's machine.
fn other_homes(platform: Platform) -> Vec<PathBuf> {
    if platform != (Platform::Linux { root: true }) {
        return Vec::new();
    }
    let people = std::fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    people.take(8).chain([PathBuf::from("/root")]).filter(|home| home.is_dir()).collect()
}

/// The cache folders of the tools that are there.
fn first_use() -> impl Iterator<Item = &'static str> {
    let installed = |tool: &str| tool.is_empty() || resolve_program(Path::new(tool)).is_ok();
    FIRST_USE.iter().filter(move |(tool, _)| installed(tool)).flat_map(|(_, folders)| *folders).copied()
}

/// The folders and files of package managers' caches, below the home folder.
fn caches(platform: Platform) -> impl Iterator<Item = &'static str> {
    let macos = platform == Platform::MacOs;
    CACHES.iter().chain(CACHES_MACOS.iter().filter(move |_| macos)).copied()
}

fn system_rules(platform: Platform, rules: &mut Vec<Rule>) {
    let Platform::Linux { root } = platform else { return };
    rules.extend(SOCKETS_LINUX.iter().map(|path| deny(path, "base policy: sockets that rule the machine")));
    if root {
        rules.extend(ROOT_ONLY_LINUX.iter().map(|path| deny(path, "base policy: passwords of the machine")));
    }
}

fn settings_rules(inputs: &PolicyInputs, home: Option<&Path>) -> Result<Vec<Rule>> {
    let settings = &inputs.settings;
    let lists = [
        (&settings.read, RuleAccess::Read, "settings: sandbox.read"),
        (&settings.write, RuleAccess::Write, "settings: sandbox.write"),
        (&settings.deny, RuleAccess::Deny, "settings: sandbox.deny"),
        (&inputs.project_deny, RuleAccess::Deny, "project.yaml: sandbox_rules.deny"),
    ];
    let mut rules = Vec::new();
    for (paths, access, origin) in lists {
        for path in paths {
            rules.push(Rule::new(expand(path, home, origin)?, access, origin));
        }
    }
    Ok(rules)
}

fn environment(pass: &[String]) -> EnvironmentPolicy {
    let mut allow = strings(VARIABLES);
    allow.extend_from_slice(pass);
    EnvironmentPolicy { allow, deny: strings(SECRET_VARIABLES) }
}

/// `~` and `~/…` become the home folder; anything else must be absolute.
fn expand(path: &Path, home: Option<&Path>, field: &'static str) -> Result<PathBuf> {
    let expanded = match path.strip_prefix("~") {
        Ok(rest) => home.map(|home| if rest.as_os_str().is_empty() { home.into() } else { home.join(rest) }),
        Err(_) => Some(path.to_owned()),
    };
    let expanded = expanded.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "this path needs a home folder, and there is none")
            .with("field", field)
            .with_path(path)
    })?;
    absolute(field, &expanded).map(Path::to_owned)
}

fn absolute<'a>(field: &'static str, path: &'a Path) -> Result<&'a Path> {
    if is_absolute(path) {
        return Ok(path);
    }
    Err(Error::new(ErrorKind::InvalidInput, "the sandbox needs an absolute path without .., or one below ~")
        .with("field", field)
        .with_path(path))
}

/// Absolute, and without `..`.
fn is_absolute(path: &Path) -> bool {
    let normal = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    path.is_absolute() && normal
}

fn deny(path: impl Into<PathBuf>, origin: &str) -> Rule {
    Rule::new(path, RuleAccess::Deny, origin)
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests;
