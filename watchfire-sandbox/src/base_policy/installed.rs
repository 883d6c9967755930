//! Programs that are installed in closed places: what `PATH` names, with what its links lead to.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Rule, RuleAccess};

use super::is_absolute;
use super::open::INSTALLED;

/// Upper bound for the entries of one folder that are looked at.
const ENTRIES: usize = 4_000;

const OF_PATH: &str = "base policy: programs of PATH";

/// Name of what makes a folder a repository.
pub(super) const GIT: &str = ".git";

/// Programs outside of the parts of the system that show.
#[derive(Debug)]
pub(super) struct Installed<'a> {
    pub(super) environment: &'a BTreeMap<OsString, OsString>,
    /// Home folders. A place that holds one is too broad to be opened.
    pub(super) homes: &'a [PathBuf],
    pub(super) project: Option<&'a Path>,
    /// Returns true if a path shows anyway.
    pub(super) shows: fn(&Path) -> bool,
}

impl Installed<'_> {
    /// Yields a rule for each folder of `PATH`, for the trees that they and their links belong to, and for what
    /// variables such as `JAVA_HOME` name.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        let value = |name: &str| self.environment.get(OsStr::new(name));
        let named = value("PATH").map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
        let named: Vec<PathBuf> = named;
        let usual = self.homes.iter().flat_map(|home| [home.join(".local/bin"), home.join("bin")]);
        for folder in named.iter().cloned().chain(usual).filter(|folder| self.is_to_open(folder)) {
            rules.push(Rule::new(&folder, RuleAccess::Read, OF_PATH));
            rules.extend(self.prefix(&folder).map(|tree| program(&tree)));
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten().take(ENTRIES) {
                if entry.file_type().is_ok_and(|kind| kind.is_symlink())
                    && let Ok(real) = fs::canonicalize(entry.path())
                {
                    rules.extend(self.trees(&real).iter().map(|tree| program(tree)));
                }
            }
        }
        for path in INSTALLED.iter().filter_map(|name| value(name)).map(PathBuf::from) {
            if self.is_to_open(&path) {
                rules.push(program(&path));
            }
        }
        rules.sort_by(|a, b| a.path.cmp(&b.path));
        rules.dedup_by(|a, b| a.path == b.path);
        rules
    }

    /// Returns the opened places that are repositories or lie in one, in which secrets may lie beside a program of the user's own.
    pub(super) fn repositories(&self, rules: &[Rule]) -> Vec<PathBuf> {
        let is_home = |path: &Path| self.homes.iter().any(|home| home == path);
        let has_git = |path: &Path| path.join(GIT).symlink_metadata().is_ok();
        let is_in_one = |path: &&PathBuf| path.ancestors().take_while(|path| !is_home(path)).any(has_git);
        rules.iter().map(|rule| &rule.path).filter(is_in_one).cloned().collect()
    }

    /// Returns the opened folders of `PATH` below a home: scripts of the user's lie there, and what they read.
    pub(super) fn scripts<'a>(&self, rules: &'a [Rule]) -> impl Iterator<Item = &'a PathBuf> {
        let is_in_home = |path: &&PathBuf| self.homes.iter().any(|home| path.starts_with(home));
        let of_path = rules.iter().filter(|rule| rule.origin == OF_PATH);
        of_path.map(|rule| &rule.path).filter(is_in_home)
    }

    /// Returns true if a place is closed and narrow enough to be opened whole.
    fn is_to_open(&self, path: &Path) -> bool {
        let holds = |other: &Path| other.starts_with(path);
        is_absolute(path)
            && path.components().count() > 2
            // A home is closed wherever it lies, below /tmp too.
            && (!(self.shows)(path) || self.homes.iter().any(|home| path.starts_with(home)))
            && !self.homes.iter().any(|home| holds(home) || *path == home.join(".local"))
            && !self.project.is_some_and(|root| holds(root) || path.starts_with(root))
    }

    /// Returns what a program needs to run: its package, its virtual environment or its prefix; else the file alone.
    fn trees(&self, real: &Path) -> Vec<PathBuf> {
        if !self.is_to_open(real) || !is_ours(real) {
            return Vec::new();
        }
        let modules = real.ancestors().filter(|path| path.file_name() == Some(OsStr::new("node_modules")));
        let environment = || real.parent()?.parent().filter(|tree| tree.join("pyvenv.cfg").is_file());
        let tree = modules.last().or_else(environment).map(Path::to_path_buf);
        let tree = tree.or_else(|| real.parent().and_then(|folder| self.prefix(folder)));
        let tree = tree.filter(|tree| self.is_to_open(tree)).unwrap_or_else(|| real.to_owned());
        let interpreter = interpreter(&tree).filter(|path| self.is_to_open(path));
        std::iter::once(tree).chain(interpreter).collect()
    }

    /// Returns the folder that a `bin` belongs to, if programs were installed into it as a whole.
    fn prefix(&self, bin: &Path) -> Option<PathBuf> {
        let tree = bin.parent().filter(|_| bin.file_name() == Some(OsStr::new("bin")))?;
        let is_whole = ["lib", "VERSION", "pyvenv.cfg"].iter().any(|name| tree.join(name).exists());
        (is_whole && self.is_to_open(tree)).then(|| tree.to_owned())
    }
}

/// The Python that an environment was made of.
fn interpreter(environment: &Path) -> Option<PathBuf> {
    let about = fs::read_to_string(environment.join("pyvenv.cfg")).ok()?;
    let home = about.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"))?;
    Path::new(home.1.trim()).parent().map(Path::to_path_buf)
}

/// Returns true if a file belongs to this user or to the system. Others could make it lead anywhere.
fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|found| found.uid() == 0 || found.uid() == own)
}

fn program(path: &Path) -> Rule {
    Rule::new(path, RuleAccess::Read, "base policy: installed programs")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_in_a_repository_of_the_user_opens_no_secrets_beside_it() {
        use watchfire_core::sandbox::{Access, PolicyInputs};

        use crate::base_policy::base_policy;

        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("home");
        let at = |name: &str| home.join(name);
        for file in
            ["tool/bin/tool", "tool/lib/a.rb", "tool/.env", "tool/config/master.key", "tool/.git/config"]
        {
            fs::create_dir_all(at("src").join(file).parent().unwrap()).unwrap();
            fs::write(at("src").join(file), "").unwrap();
        }
        fs::create_dir_all(at(".local/bin")).unwrap();
        symlink(at("src/tool/bin/tool"), at(".local/bin/tool")).unwrap();
        let mut inputs = PolicyInputs::new();
        inputs.home = Some(home.clone());
        inputs.project_root = Some(at("project"));
        let policy = base_policy(&inputs).unwrap().build().unwrap();
        let reads = |name: &str| policy.allows(at("src/tool").join(name), Access::Read);
        assert!(reads("bin/tool") && reads("lib/a.rb"));
        for secret in [".env", "config/master.key", ".git/config"] {
            assert!(!reads(secret), "{secret}");
        }
    }

    #[test]
    fn links_open_what_they_are_installed_in_and_no_more() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("home");
        let at = |name: &str| home.join(name);
        for file in [
            ".local/share/pipx/venvs/a/bin/a",
            ".local/share/pipx/venvs/a/pyvenv.cfg",
            ".npm-global/lib/node_modules/b/b.js",
            ".local/share/claude/versions/2.1.9",
            "apps/go/bin/go",
            "apps/go/VERSION",
            "private/notes/run.sh",
            ".local/lib/x",
        ] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        fs::create_dir_all(at(".local/bin")).unwrap();
        for (link, to) in [
            ("a", ".local/share/pipx/venvs/a/bin/a"),
            ("b", ".npm-global/lib/node_modules/b/b.js"),
            ("claude", ".local/share/claude/versions/2.1.9"),
            ("run", "private/notes/run.sh"),
            ("home", ""),
        ] {
            symlink(at(to), at(".local/bin").join(link)).unwrap();
        }
        let path =
            std::env::join_paths([at("apps/go/bin"), at("project/bin"), home.clone(), "/usr/bin".into()]);
        let environment = BTreeMap::from([("PATH".into(), path.unwrap())]);
        let installed = Installed {
            environment: &environment,
            homes: std::slice::from_ref(&home),
            project: Some(&at("project")),
            shows: |path| path.starts_with("/usr"),
        };
        let below_what_shows = Installed { shows: |_| true, ..installed };
        assert_eq!(below_what_shows.rules(), installed.rules(), "a home below /tmp is closed too");
        let opened: Vec<_> = installed.rules().into_iter().map(|rule| rule.path).collect();
        let expected = [
            ".local/bin",
            ".local/share/claude/versions/2.1.9",
            ".local/share/pipx/venvs/a",
            ".npm-global/lib/node_modules",
            "apps/go",
            "apps/go/bin",
            "bin",
            "private/notes/run.sh",
        ];
        assert_eq!(opened, expected.map(at));
    }
}
