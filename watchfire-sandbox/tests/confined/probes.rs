//! How the questions are asked that an attacker asks, and the work is tried that an agent must be able to do.
//!
//! Each runs in a worktree of a project in a home folder full of secrets, with a process outside to spy on. It runs
//! without a sandbox first: one that fails there is vacuous and ignored. A gap that a sandbox is known to have must be
//! there, so that nobody claims what changed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::model::StepDown;
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::{run, shell};
use watchfire_core::sandbox::{NoSandbox, PolicyInputs, Sandbox, SandboxPolicy};
use watchfire_sandbox::base_policy;

use crate::Bench;
use crate::places::{Scratch, is_root};

/// One question. The shell snippets see `$HOME`, the project `$P`, the worktree `$W` (where they run) and a process
/// outside, `$VICTIM`.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    /// Outside, first.
    setup: &'static str,
    /// Inside: exit code 0 means that it worked.
    inside: &'static str,
    /// Outside, after: exit code 0 means that it had an effect. Decides, if there is one.
    verify: &'static str,
    /// Whether it must work or must not.
    pub(crate) works: bool,
    /// Sandboxes that are known to get it wrong; with ` as user` or ` as root`, only there.
    pub(crate) gaps: &'static [&'static str],
}

pub(super) const fn denied(name: &'static str, inside: &'static str) -> Probe {
    Probe { name, setup: "", inside, verify: "", works: false, gaps: &[] }
}

pub(super) const fn works(name: &'static str, inside: &'static str) -> Probe {
    Probe { name, setup: "", inside, verify: "", works: true, gaps: &[] }
}

impl Probe {
    pub(super) const fn after(mut self, setup: &'static str) -> Self {
        self.setup = setup;
        self
    }

    pub(super) const fn seen_by(mut self, verify: &'static str) -> Self {
        self.verify = verify;
        self
    }

    pub(super) const fn gap(mut self, gaps: &'static [&'static str]) -> Self {
        self.gaps = gaps;
        self
    }

    /// Whether that sandbox is known to get it wrong, for that user.
    pub(crate) fn is_gap(&self, variant: &str, root: bool) -> bool {
        let user = if root { " as root" } else { " as user" };
        self.gaps
            .iter()
            .any(|gap| gap.strip_prefix(variant).is_some_and(|rest| rest.is_empty() || rest == user))
    }
}

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// What came of the questions without a sandbox.
static CONTROLS: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());

/// Asks one question of one sandbox.
pub(crate) fn ask(probe: &Probe, variant: &str, bench: Bench<'_>, _: Helper) -> Outcome {
    let open = |name: &str, sandbox: &dyn Sandbox| -> Result<bool, NotPassed> {
        let place = Place::new(&bench.scratch.join(name))?;
        place.outside(probe.setup);
        let confined = sandbox.prepare(&place.policy()?, place.command(probe.inside, name == "control")?);
        let ran = run(confined.map_err(|error| failed(error.report()))?).map_err(failed)?;
        if probe.works && ran.code != 0 {
            println!("{name}: {}", ran.stderr);
        }
        Ok(match probe.verify {
            "" => ran.code == 0,
            verify => place.outside(verify),
        })
    };
    let expected = probe.works != probe.is_gap(variant, is_root());
    // The same for every sandbox.
    let known = CONTROLS.lock().ok().and_then(|controls| controls.get(probe.name).copied());
    let control = known.map_or_else(|| open("control", &NoSandbox), Ok)?;
    if let Ok(mut controls) = CONTROLS.lock() {
        controls.insert(probe.name, control);
    }
    if !control {
        return Err(NotPassed::Skipped("does not work without a sandbox either".to_owned()));
    }
    match open("confined", bench.sandbox)? {
        works if works == expected => Ok(()),
        true if probe.works => Err(NotPassed::Failed("works, although it is listed as a gap".to_owned())),
        true => Err(NotPassed::Failed(format!("got through: {}", probe.inside))),
        false if !probe.works => {
            Err(NotPassed::Failed("is denied, although it is listed as a gap".to_owned()))
        }
        false => Err(NotPassed::Failed(format!("must work: {}", probe.inside))),
    }
}

/// A home folder with a project in it, and a process to spy on.
struct Place {
    home: PathBuf,
    victim: Child,
}

/// Makes the project that all others are copies of.
const MAKE: &str = r#"
set -e
mkdir -p $HOME/.ssh $HOME/.docker $HOME/.aws $HOME/.gnupg $HOME/.cargo/registry $HOME/.cargo/bin $HOME/.local/bin $HOME/.npm/_cacache \
    $HOME/.cache $HOME/.config/systemd/user $HOME/.watchfire/logs $P/deep/a/b
echo SECRET > $HOME/.aws/credentials; echo SECRET > $HOME/.netrc; echo plain > $HOME/plain
echo SECRET > $HOME/.ssh/id_ed25519; echo SECRET > $HOME/.npmrc; echo SECRET > $HOME/.docker/config.json
echo SECRET > $HOME/.cargo/credentials.toml; echo SECRET > $HOME/.bash_history; echo SECRET > $HOME/.watchfire/daemon.yaml
echo x > $HOME/.bashrc
echo x > $HOME/.watchfire/settings.yaml; echo x > $HOME/.cargo/config.toml; echo x > $HOME/.local/bin/tool
cd $P
git init -q -b main
echo main > main.rs; printf '.env*\n.watchfire/\n' > .gitignore
git add -A; git commit -qm init
echo SECRET > .env; echo SECRET > deep/a/b/.env.production
mkdir -p .watchfire/tasks .watchfire/worktrees
echo x > .watchfire/project.yaml; echo x > .watchfire/tasks/0002.yaml
for n in 0001 0002; do git worktree add -q -b watchfire/$n .watchfire/worktrees/$n main; done
rm -rf .git/hooks; mkdir -p .git/hooks .git/logs/refs/heads/watchfire
"#;

/// Copies it and makes its absolute paths right.
const COPY: &str = r#"
set -e
cp -a "$TEMPLATE/home" "$HOME"
for n in 0001 0002; do
    echo "gitdir: $P/.git/worktrees/$n" > $P/.watchfire/worktrees/$n/.git
    echo "$P/.watchfire/worktrees/$n/.git" > $P/.git/worktrees/$n/gitdir
done
"#;

/// Variables that nobody gets.
const SECRETS: &[&str] = &[
    "AWS_SECRET_ACCESS_KEY",
    "WATCHFIRE_TOKEN",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "DATABASE_PASSWORD",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "LD_PRELOAD",
    "GIT_SSH_COMMAND",
    "DISPLAY",
    "TMUX",
];

static TEMPLATE: OnceLock<Option<Scratch>> = OnceLock::new();

/// The folder of the first project.
fn template() -> Option<&'static Path> {
    let make = || {
        let scratch = Scratch::new().ok()?;
        let home = scratch.path().join("home");
        let project = home.join("project");
        fs::create_dir_all(&project).ok()?;
        script(MAKE, &variables(&home, 0), &project).then_some(scratch)
    };
    TEMPLATE.get_or_init(make).as_ref().map(Scratch::path)
}

/// Removes what outlives the tests.
pub(crate) fn clean() {
    if let Some(path) = TEMPLATE.get().and_then(|scratch| scratch.as_ref()).map(Scratch::path) {
        // It lies in the build folder; what is left of it harms nobody.
        let _ = fs::remove_dir_all(path);
    }
}

fn variables(home: &Path, victim: u32) -> Vec<(&'static str, OsString)> {
    let project = home.join("project");
    vec![
        ("HOME", home.into()),
        ("W", project.join(".watchfire/worktrees/0001").into()),
        ("P", project.into()),
        ("VICTIM", victim.to_string().into()),
        ("TOOLS", tools().into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_AUTHOR_NAME", "n".into()),
        ("GIT_AUTHOR_EMAIL", "e@x".into()),
        ("GIT_COMMITTER_NAME", "n".into()),
        ("GIT_COMMITTER_EMAIL", "e@x".into()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into()),
    ]
}

/// Where cargo is.
fn tools() -> PathBuf {
    Path::new(env!("CARGO")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Runs a script outside; whether it succeeded.
fn script(text: &str, variables: &[(&'static str, OsString)], cwd: &Path) -> bool {
    let status = Command::new("/bin/sh")
        .args(["-c", text])
        .env_clear()
        .envs(variables.iter().cloned())
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

impl Place {
    fn new(folder: &Path) -> Result<Self, NotPassed> {
        let template = template().ok_or_else(|| failed("the project could not be made"))?;
        fs::create_dir_all(folder).map_err(failed)?;
        let home = folder.join("home");
        let mut variables = variables(&home, 0);
        variables.push(("TEMPLATE", template.into()));
        if !script(COPY, &variables, folder) {
            return Err(failed("the project could not be copied"));
        }
        // Secrets in its environment and its arguments; its folder is the home folder.
        let victim = Command::new("/bin/sh")
            .args(["-c", "read x", "SECRET_ARG"])
            .env("TOKEN", "SECRET_ENV")
            .current_dir(&home)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        Ok(Self { home, victim })
    }

    fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    fn worktree(&self) -> PathBuf {
        self.project().join(".watchfire/worktrees/0001")
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        variables(&self.home, self.victim.id())
    }

    /// With the variables that the policy lets pass; `all` of them without a sandbox.
    fn command(&self, script: &str, all: bool) -> Result<CommandSpec, NotPassed> {
        let mut environment: BTreeMap<OsString, OsString> =
            SECRETS.iter().map(|name| ((*name).into(), "SECRET_ENV".into())).collect();
        environment.insert("TERM".into(), "xterm".into());
        if !all {
            environment = self.policy()?.environment.filter(&environment);
        }
        let command = shell(script).with_envs(environment).with_envs(self.variables());
        let tmp = command.with_cwd(self.worktree());
        // A sandbox says where its own is.
        Ok(if all { tmp.with_env("TMPDIR", "/tmp") } else { tmp })
    }

    fn outside(&self, text: &str) -> bool {
        let cwd = if self.worktree().exists() { self.worktree() } else { self.project() };
        text.is_empty() || script(text, &self.variables(), &cwd)
    }

    /// The base policy, and what a linked worktree needs.
    fn policy(&self) -> Result<SandboxPolicy, NotPassed> {
        let (git, admin) = (self.project().join(".git"), self.project().join(".git/worktrees/0001"));
        let mut inputs = PolicyInputs::new();
        inputs.home = Some(self.home.clone());
        inputs.watchfire_home = Some(self.home.join(".watchfire"));
        inputs.project_root = Some(self.project());
        // Each step of the ladder is judged by itself.
        inputs.settings.step_down = Some(StepDown::Allow);
        // Probes that need cargo add its folder to `PATH`, as people do.
        inputs.environment.insert("PATH".into(), tools().into());
        let mut policy = base_policy(&inputs).map_err(failed)?.read(&git, "git: the repository");
        for path in [
            self.worktree(),
            admin.clone(),
            git.join("objects"),
            git.join("refs/heads/watchfire"),
            git.join("logs/refs/heads/watchfire"),
        ] {
            policy = policy.write(path, "git");
        }
        for path in [
            self.worktree().join(".git"),
            admin.join("commondir"),
            admin.join("gitdir"),
            admin.join("config.worktree"),
            git.join("objects/info"),
            git.join("refs/heads/watchfire/0002"),
        ] {
            policy = policy.read(path, "git: wiring");
        }
        policy.build().map_err(failed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}
