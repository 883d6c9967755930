//! The policy that all sessions start from.
//!
//! Sessions add what is theirs: the workspace, git's rules, the backend's grants. The deepest rule decides, so a grant
//! inside a hidden folder opens that path and no more.

mod git_config;
#[cfg(target_os = "linux")]
mod installed;
#[cfg(target_os = "linux")]
mod linux_system;
mod open;
mod places;
mod secret_text;
mod tables;
mod user_dirs;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use open::{Kind, OPEN};
use places::Places;
use tables::{
    AGENTS, CACHES, CACHES_MACOS, FIRST_USE, PERSONAL, PRIVATE_IN_TOOLS, SECRET_VARIABLES, SECRETS,
    SECRETS_MACOS, SETTINGS_OF_TOOLS, SHAREABLE, VARIABLES,
};
use watchfire_core::model::{NetworkSetting, Sharing, StepDown};
use watchfire_core::process::resolve_program;
use watchfire_core::sandbox::{
    Bind, EnvironmentPolicy, Kept, NamePattern, Network, OwnFile, PolicyInputs, Rule, RuleAccess,
    SandboxPolicy, SandboxPolicyBuilder, Tmp,
};
use watchfire_core::{Error, ErrorKind, Result};

/// Returns the base policy of this platform.
///
/// - The home folder is closed: the command sees one of its own at the same path, in which toolchains and their settings
///   show, programs of `PATH` with what their links lead to, and what settings open. So it is for the folders that
///   variables move out of it (`XDG_CONFIG_HOME`, `CARGO_HOME`), and for the home that the system has for this user.
/// - Of the system, what programs consist of shows (`/usr`, `/etc`, `/opt`, …). All else in `/` is closed too.
/// - Toolchains and caches can be written without changing those of the user.
/// - Names like `.env` are hidden at any depth below the project and below what settings open.
/// - The person's settings come last: a grant on exactly a path that is hidden here opens it, a denial closes it.
/// - Variables pass by an allow-list; those that look like secrets never do unless the settings name them.
///
/// # Errors
/// `invalid_input` for a relative path in the inputs or the settings, naming the field.
pub fn base_policy(inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
    base_policy_for(Platform::current(), inputs)
}

/// The platform that the lists are for.
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

/// Returns the base policy of any platform.
pub(crate) fn base_policy_for(platform: Platform, inputs: &PolicyInputs) -> Result<SandboxPolicyBuilder> {
    let home = inputs.home.as_deref().map(|home| absolute("home", home)).transpose()?;
    let project = inputs.project_root.as_deref().map(|root| absolute("project_root", root)).transpose()?;
    let watchfire =
        inputs.watchfire_home.as_deref().map(|home| absolute("watchfire_home", home)).transpose()?;

    let settings = &inputs.settings;
    let mut base = Base::default();
    if let Some(home) = home {
        base.close_homes(platform, inputs, home, project);
    }
    #[cfg(target_os = "linux")]
    if let Platform::Linux { root } = platform {
        base.rules.extend(linux_system::rules(root));
    }
    base.rules.extend(watchfire.map(|path| deny(path, "base policy: Watchfire's own files")));
    if let Some(root) = project {
        base.rules.push(Rule::new(root, RuleAccess::Read, "base policy: the project"));
        base.rules.push(deny(root.join(".watchfire"), "base policy: the project's tasks and secrets"));
    }
    let own = settings_rules(inputs, home)?;
    // Of two rules for one path the stricter one stays, so a grant on a path hidden above must take its place.
    base.rules.retain(|rule| !own.iter().any(|other| other.path == rule.path));
    base.replaced.retain(|path| !own.iter().any(|other| other.path == *path));
    let opened: Vec<_> = own.iter().filter(|rule| rule.access != RuleAccess::Deny).cloned().collect();
    base.rules.extend(own);

    let mut builder = SandboxPolicy::builder()
        .rules(base.rules)
        .environment(environment(&settings.pass_env))
        .network(match settings.network {
            Some(NetworkSetting::Closed) => Network::Closed,
            Some(NetworkSetting::Internet) => Network::internet(settings.deny_ports.clone()),
            _ if settings.deny_ports.is_empty() => Network::Open,
            _ => Network::OpenExceptPorts(settings.deny_ports.clone()),
        })
        .tmp(if settings.tmp == Some(Sharing::Shared) { Tmp::Shared } else { Tmp::Private })
        .apart(settings.step_down != Some(StepDown::Allow))
        .limits(settings.limits.clone());
    builder = base.binds.into_iter().fold(builder, SandboxPolicyBuilder::bind);
    builder = base.made.into_iter().fold(builder, SandboxPolicyBuilder::make);
    builder = base.replaced.into_iter().fold(builder, SandboxPolicyBuilder::replace);
    let closed = |file: &OwnFile| !opened.iter().any(|rule| rule.path == file.path);
    builder = base.kept.iter().cloned().fold(builder, SandboxPolicyBuilder::cache);
    builder = base.files.into_iter().filter(closed).fold(builder, SandboxPolicyBuilder::file);
    builder = base.refusals.into_iter().fold(builder, SandboxPolicyBuilder::refuse);
    builder = base.notes.into_iter().fold(builder, SandboxPolicyBuilder::note);
    if let Some(caches) = &inputs.own_caches {
        builder = builder.layers(caches.join("layers"));
        let max_mb = settings.caches_max_mb.unwrap_or(KEPT_MB);
        if max_mb > 0 && !base.kept.is_empty() {
            let (folder, max_bytes) = (caches.join("kept"), max_mb.saturating_mul(1 << 20));
            builder = builder.keep(Some(Kept { folder, places: base.kept, max_bytes }));
        }
    }
    if settings.tmp == Some(Sharing::Shared) {
        builder = builder
            .note("/tmp is shared, as the settings say: files and sockets of other programs are in it");
    }
    let roots = project.into_iter().chain(opened.iter().map(|rule| rule.path.as_path()));
    let roots = roots.chain(base.beside_programs.iter().map(PathBuf::as_path));
    for root in roots {
        builder = builder.pattern(NamePattern::secrets(root, "base policy: secrets beside code"));
    }
    Ok(builder)
}

/// Maximum size of what a project keeps in caches without a setting, in MiB.
const KEPT_MB: u64 = 2048;

/// A policy under construction.
#[derive(Debug, Default)]
struct Base {
    rules: Vec<Rule>,
    replaced: Vec<PathBuf>,
    /// Folders of the person's own that show because programs lie in them.
    beside_programs: Vec<PathBuf>,
    /// Caches that show copy-on-write, whether they are there or not.
    kept: Vec<PathBuf>,
    binds: Vec<Bind>,
    made: Vec<PathBuf>,
    files: Vec<OwnFile>,
    refusals: Vec<String>,
    notes: Vec<String>,
}

impl Base {
    /// Closes the home folder, the one in the system's list of users if that is another, and the places outside
    /// to which variables move its folders. Then opens single files and folders in them.
    fn close_homes(
        &mut self,
        platform: Platform,
        inputs: &PolicyInputs,
        home: &Path,
        project: Option<&Path>,
    ) {
        if let Some(why) = unfit(home, project) {
            self.refusals.push(why);
            return;
        }
        let mut homes = vec![home.to_owned()];
        #[cfg(target_os = "linux")]
        homes.extend(linux_system::passwd_home().filter(|other| other != home && !home.starts_with(other)));
        let none = BTreeMap::new();
        for (index, home) in homes.iter().enumerate() {
            // Variables of the person say nothing about another home.
            let places = Places::new(home, if index == 0 { &inputs.environment } else { &none });
            // A toolchain that was moved as a whole shows as a whole.
            let opened: Vec<_> = OPEN.iter().flat_map(|open| places.of(open.path)).collect();
            let moved =
                places.moved().filter(|path| !opened.contains(path) && Some(path.as_path()) != project);
            // Tools expect the folder of all caches to be there. Elsewhere than on Linux it is the user's.
            let caches = matches!(platform, Platform::Linux { .. }).then(|| home.join(".cache"));
            for path in std::iter::once(home.clone()).chain(caches).chain(moved) {
                self.rules.push(deny(&path, "base policy: the home folder is closed"));
                self.replaced.push(path);
            }
            self.rules.extend(secrets(platform, &places));
            let mut personal: Vec<_> = PERSONAL.iter().map(|name| home.join(name)).collect();
            if matches!(platform, Platform::Linux { .. }) {
                personal.extend(user_dirs::of(home));
            }
            // A project that *is* such a folder leaves nothing of it to hide.
            personal.retain(|path| Some(path.as_path()) != project);
            self.rules.extend(personal.into_iter().map(|path| deny(path, "base policy: personal folders")));
            self.open(platform, inputs, &places, project);
        }
        self.write_git_config(inputs, home, project);
        #[cfg(target_os = "linux")]
        if matches!(platform, Platform::Linux { .. }) {
            let environment = &inputs.environment;
            let installed =
                installed::Installed { environment, homes: &homes, project, shows: linux_system::shows };
            let rules = installed.rules();
            // A toolchain has certificates in it, and no secrets of the person's under such names.
            let is_toolchain = |path: &PathBuf| {
                self.rules.iter().any(|rule| rule.access == RuleAccess::Read && path.starts_with(&rule.path))
            };
            let mut beside = installed.repositories(&rules);
            beside.retain(|path| !is_toolchain(path));
            let denied = beside.iter().map(|path| path.join(installed::GIT));
            let denied: Vec<_> = denied.filter(|path| path.symlink_metadata().is_ok()).collect();
            beside.extend(installed.scripts(&rules).cloned());
            self.rules
                .extend(denied.into_iter().map(|path| deny(path, "base policy: repositories of programs")));
            beside.sort();
            beside.dedup();
            self.rules.extend(rules);
            self.beside_programs.extend(beside);
        }
    }

    /// Writes the session's git configuration, unless settings open the user's.
    fn write_git_config(&mut self, inputs: &PolicyInputs, home: &Path, project: Option<&Path>) {
        let xdg = inputs.environment.get(std::ffi::OsStr::new("XDG_CONFIG_HOME")).map(PathBuf::from);
        let xdg = xdg.filter(|path| is_absolute(path)).unwrap_or_else(|| home.join(".config"));
        let made = git_config::of_session(home, &xdg, project);
        let origin = "base policy: git's settings, without credentials and commands";
        let rules = made.files.into_iter().filter(|path| is_absolute(path));
        self.rules.extend(rules.map(|path| Rule::new(path, RuleAccess::Read, "base policy: git")));
        let path = home.join(".gitconfig");
        let variable = Some("GIT_CONFIG_GLOBAL".to_owned());
        self.files.push(OwnFile { path, text: made.text, variable, origin: origin.to_owned() });
    }

    /// Opens what tools need of one home.
    fn open(
        &mut self,
        platform: Platform,
        inputs: &PolicyInputs,
        places: &Places<'_>,
        project: Option<&Path>,
    ) {
        let sharing = inputs.settings.caches;
        // Elsewhere than on Linux nothing can be shown copy-on-write.
        let layered = matches!(platform, Platform::Linux { .. });
        let around = |path: &Path| project.is_some_and(|root| root.starts_with(path));
        for open in OPEN {
            if open.kind == Kind::Cache && (sharing == Some(Sharing::Private) || !layered) {
                continue;
            }
            for path in places.of(open.path).filter(|path| !around(path)) {
                if open.kind == Kind::Settings
                    && let Some(secret) = secret_text::in_file(&path)
                {
                    let path = path.display();
                    self.notes.push(format!("{path} does not show, because it has {secret} in it"));
                    continue;
                }
                let origin = format!("base policy: {}", open.tool);
                self.rules.push(Rule::new(&path, RuleAccess::Read, origin));
                if layered && open.kind == Kind::Cache {
                    self.kept.push(path.clone());
                }
                if layered && open.kind != Kind::Settings {
                    self.replaced.push(path);
                }
            }
        }
        let private = listed(places, PRIVATE_IN_TOOLS).into_iter();
        self.rules
            .extend(private.map(|path| deny(path, "base policy: private data in the folders of tools")));
        for path in listed(places, SETTINGS_OF_TOOLS) {
            if let Some(secret) = secret_text::in_file(&path) {
                self.notes.push(format!("{} does not show, because it has {secret} in it", path.display()));
                self.rules.push(deny(path, "base policy: logins in the settings of tools"));
            }
        }
        if sharing == Some(Sharing::Private) || !layered {
            self.open_caches(platform, inputs, places, project);
        } else if sharing == Some(Sharing::Shared) {
            for path in SHAREABLE.iter().flat_map(|name| places.of(name)) {
                self.rules.push(Rule::new(path, RuleAccess::Write, "settings: sandbox.caches"));
            }
            self.notes
                .push("stores of packages that are checked at each use are shared with the user's".into());
        }
    }

    /// Opens caches as a whole: to be written, or behind the project's own.
    fn open_caches(
        &mut self,
        platform: Platform,
        inputs: &PolicyInputs,
        places: &Places<'_>,
        project: Option<&Path>,
    ) {
        let private = inputs.settings.caches == Some(Sharing::Private);
        if !private {
            self.made.extend(first_use().flat_map(|path| places.of(path)));
        }
        let caches = caches(platform).flat_map(|name| places.of(name).map(move |path| (path, name)));
        for (path, name) in caches.filter(|(path, _)| project.is_none_or(|root| !root.starts_with(path))) {
            let access = if private { RuleAccess::Read } else { RuleAccess::Write };
            self.rules.push(Rule::new(&path, access, "base policy: package caches"));
            let there = path.exists() || name == ".cache";
            if let (true, Some(own), true) = (private, &inputs.own_caches, there) {
                self.binds.push(Bind::new(
                    own.join(name),
                    path,
                    RuleAccess::Write,
                    "settings: sandbox.caches",
                ));
            }
        }
        self.notes.push(match private {
            true => "package caches are the project's own, where they can be shown in place; else they cannot be written".into(),
            false => "package caches are shared: what is put there, a later run of the same tool outside may use".into(),
        });
    }
}

/// Returns why a home folder cannot be closed around a project.
fn unfit(home: &Path, project: Option<&Path>) -> Option<String> {
    let roomy = ["/opt", "/tmp", "/dev/shm", "/var/tmp"].map(Path::new);
    let is_system = home.parent().is_none()
        || roomy.contains(&home)
        || (is_system(home) && !roomy.iter().any(|folder| home.starts_with(folder)));
    if is_system {
        let home = home.display();
        return Some(format!("HOME is {home}, a part of the system: set it to a folder of your own"));
    }
    let root = project.filter(|root| home.starts_with(root))?.display();
    Some(format!("the project {root} holds your home folder: move it to a folder of its own"))
}

fn is_system(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    return linux_system::shows(path);
    #[cfg(not(target_os = "linux"))]
    return ["/System", "/usr", "/etc", "/bin", "/sbin"].iter().any(|system| path.starts_with(system));
}

fn secrets(platform: Platform, places: &Places<'_>) -> Vec<Rule> {
    let macos = platform == Platform::MacOs;
    let all = SECRETS.iter().chain(AGENTS).chain(SECRETS_MACOS.iter().filter(|_| macos));
    let all = all.flat_map(|path| places.of(path));
    all.map(|path| deny(path, "base policy: credentials and private data")).collect()
}

/// Yields the settings files in toolchains.
/// Returns the places of a table that may have `*` in the names of its paths; where it has one, those that are there.
fn listed(places: &Places<'_>, table: &'static [&'static str]) -> Vec<PathBuf> {
    let of = |path: &'static str| {
        let begin = path.find('*').and_then(|at| path.get(..at)?.rfind('/'));
        let (folder, rest) = begin.map_or((path, ""), |at| path.split_at(at));
        let mut found: Vec<_> = places.of(folder).collect();
        for name in rest.split('/').filter(|name| !name.is_empty()) {
            found = found.iter().flat_map(|folder| named(folder, name)).collect();
        }
        found
    };
    table.iter().copied().flat_map(of).collect()
}

/// Returns the paths in a folder that `name` stands for.
fn named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((begin, end)) = name.split_once('*') else { return vec![folder.join(name)] };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |path: &Path| {
        let found = path.file_name().and_then(|found| found.to_str()).unwrap_or_default();
        found.len() >= begin.len() + end.len() && found.starts_with(begin) && found.ends_with(end)
    };
    entries.map(|entry| entry.path()).filter(|path| fits(path)).collect()
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
    EnvironmentPolicy { allow: pass.to_vec(), usual: strings(VARIABLES), deny: strings(SECRET_VARIABLES) }
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
