//! The machine of a reader: a fresh home, a fresh repository and the built program in `PATH`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::support::{self, World, until};

/// The user `nobody`, by number.
const NOBODY: u32 = 65534;

/// Returns the reason why these tests cannot act as an ordinary user although they run as root.
pub(crate) fn no_ordinary_user() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let world = World::for_sandboxes();
    let mut command = Command::new("sh");
    command.args(["-c", "test -x \"$0\" && cd \"$1\""]).arg(support::program()).arg(world.folder.path());
    give_away(world.folder.path());
    match command.uid(NOBODY).gid(NOBODY).current_dir("/").status() {
        Ok(status) if status.success() => None,
        Ok(_) => Some("not available here: the build folder is closed to other users".to_owned()),
        Err(error) => Some(format!("not available here: root cannot become another user: {error}")),
    }
}

/// Makes a folder, with everything in it, the ordinary user's.
fn give_away(folder: &Path) {
    let owner = format!("{NOBODY}:{NOBODY}");
    assert!(Command::new("chown").args(["-R", &owner]).arg(folder).status().unwrap().success());
}

pub(crate) struct Machine {
    world: World,
    /// The folder in which the next command runs.
    at: PathBuf,
    user: Option<u32>,
}

impl Machine {
    /// Makes a machine; as an ordinary user if `drops` is set.
    pub(crate) fn new(drops: bool) -> Self {
        let world = World::for_sandboxes();
        let at = world.empty("shop");
        world.git(&at, &["init", "-q", "-b", "main"]);
        fs::write(at.join("README.md"), "# Shop\n").unwrap();
        if let Some(source) = std::env::var_os("WATCHFIRE_SOURCE") {
            assert!(Command::new("cp").arg("-RT").arg(source).arg(&at).status().unwrap().success());
        }
        world.git(&at, &["add", "."]);
        world.git(&at, &["commit", "-q", "-m", "Begin"]);
        let bin = world.empty("bin");
        symlink(support::program(), bin.join("watchfire")).unwrap();
        if drops {
            give_away(world.folder.path());
        }
        Self { world, at, user: drops.then_some(NOBODY) }
    }

    /// Returns the path that a page calls `name`: below the home after `~/`, else below the current folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        name.strip_prefix("~/").map_or_else(|| self.at.join(name), |rest| self.world.home.join(rest))
    }

    /// Runs a line of the shell; returns its output, with its errors in their places, and its exit code.
    pub(crate) fn run(&mut self, line: &str) -> (String, Option<i32>) {
        let (output, place) = (self.world.path("output"), self.world.path("place"));
        // Into a file: a daemon that the line starts may keep it open.
        let sink = File::create(&output).unwrap();
        fs::write(&place, "").unwrap();
        if self.user.is_some() {
            std::os::unix::fs::chown(&place, self.user, self.user).unwrap();
        }
        let mut command = Command::new("sh");
        let script = format!("{line}\ncode=$?; pwd > \"$PLACE\"; exit $code");
        command.args(["-c", &script]).current_dir(&self.at).env_clear().envs(self.variables());
        command.env("PLACE", &place).stdin(Stdio::null());
        command.stdout(sink.try_clone().unwrap()).stderr(sink);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let mut ended = None;
        until(line, || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        let now = fs::read_to_string(&place).unwrap();
        if !now.is_empty() {
            self.at = now.trim_end().into();
        }
        let said = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
        (said, ended.and_then(|status| status.code()))
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut path = self.world.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        vec![
            ("HOME", self.world.home.clone().into()),
            ("PATH", path),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm-256color".into()),
        ]
    }

    /// Writes a file of a page. A YAML file that exists keeps its other keys.
    pub(crate) fn write(&self, name: &str, lines: &[String]) {
        let path = self.path(name);
        let mut text = lines.join("\n") + "\n";
        if let Ok(now) = fs::read_to_string(&path)
            && name.ends_with(".yaml")
        {
            text = kept(&now, lines) + &text;
        }
        let folder = path.parent().unwrap();
        let is_new = !folder.exists();
        fs::create_dir_all(folder).unwrap();
        fs::write(&path, text).unwrap();
        if text_is_program(lines) {
            assert!(Command::new("chmod").arg("+x").arg(&path).status().unwrap().success());
        }
        if self.user.is_some() {
            give_away(if is_new { folder } else { &path });
        }
    }
}

fn text_is_program(lines: &[String]) -> bool {
    lines.first().is_some_and(|line| line.starts_with("#!"))
}

/// Returns the part of a YAML file whose top-level keys are not in `lines`.
fn kept(now: &str, lines: &[String]) -> String {
    let key = |line: &str| {
        let is_key = line.starts_with(|first: char| first.is_ascii_alphabetic());
        line.split_once(':').filter(|_| is_key).map(|(key, _)| key.to_owned())
    };
    let new: Vec<_> = lines.iter().filter_map(|line| key(line)).collect();
    let mut is_kept = true;
    let mut text = String::new();
    for line in now.lines() {
        if let Some(key) = key(line) {
            is_kept = !new.contains(&key);
        }
        if is_kept {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.world.home.join(".watchfire/daemon.yaml").exists() {
            self.run("watchfire daemon stop --agents");
        }
    }
}
