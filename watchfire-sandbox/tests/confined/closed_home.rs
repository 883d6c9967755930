//! The home is closed: of a planted home nothing can be read, and usual jobs work in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::{Ran, run, shell};
use watchfire_core::sandbox::{Control, ControlState, NoSandbox, PolicyInputs, Sandbox, SandboxPolicy};
use watchfire_sandbox::base_policy;

use crate::Bench;
use crate::planted::{SECRETS, SECRETS_IN_TOOLS};

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// A home with a project in it.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) inputs: PolicyInputs,
}

impl Home {
    pub(crate) fn new(path: PathBuf) -> Result<Self, NotPassed> {
        let mut inputs = PolicyInputs::new();
        inputs.home = Some(path.clone());
        inputs.watchfire_home = Some(path.join(".watchfire"));
        inputs.project_root = Some(path.join("project"));
        inputs.settings.step_down = Some(watchfire_core::model::StepDown::Allow);
        inputs.environment = std::env::vars_os().collect();
        inputs.environment.insert("HOME".into(), path.clone().into());
        let home = Self { path, inputs };
        fs::create_dir_all(home.work()).map_err(failed)?;
        Ok(home)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The worktree of the task.
    pub(crate) fn work(&self) -> PathBuf {
        self.at("project/.watchfire/worktrees/0001")
    }

    pub(crate) fn plant(&self, name: &str, text: &str) -> Result<(), NotPassed> {
        let path = self.at(name);
        let folder = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(failed)
    }

    pub(crate) fn policy(&self) -> Result<SandboxPolicy, NotPassed> {
        let base = base_policy(&self.inputs).map_err(|error| failed(error.report()))?;
        base.write(self.work(), "the workspace").build().map_err(failed)
    }

    pub(crate) fn command(&self, script: &str) -> CommandSpec {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let variables = [("HOME", self.path.clone().into_os_string()), ("PATH", path)];
        shell(script).with_cwd(self.work()).with_envs(variables)
    }

    pub(crate) fn run(&self, sandbox: &dyn Sandbox, command: CommandSpec) -> Result<Ran, NotPassed> {
        let confined = sandbox.prepare(&self.policy()?, command);
        run(confined.map_err(|error| failed(error.report()))?).map_err(failed)
    }
}

/// Prints in which of the arguments after the first, files below the home folder, the first can be read.
const READ: &str = "mark=$1; shift; for name in \"$@\"; do grep -q \"$mark\" \"$HOME/$name\" && echo \"$name\"; done 2> /dev/null; true";

/// Prints where a search of everything finds the argument.
const SEARCH: &str = "grep -rlI --exclude-dir=toolchains --exclude-dir=versions -e \"$1\" \"$HOME\" /root /home /mnt /media /srv /data /run /var 2> /dev/null; true";

pub(crate) fn nothing_of_a_planted_home_can_be_read(bench: Bench<'_>, _: Helper) -> Outcome {
    let home = Home::new(bench.scratch.join("home"))?;
    // In no file but those planted now: this source may itself lie in the caches of cargo, which are open.
    let secret = format!("planted-{}-{:?}", std::process::id(), std::time::SystemTime::now());
    let secret = secret.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    for name in SECRETS {
        home.plant(name, &secret)?;
    }
    for name in SECRETS_IN_TOOLS {
        home.plant(name, &format!("password = {secret}"))?;
    }
    let planted = [SECRETS, SECRETS_IN_TOOLS].concat();
    for name in [".cargo/registry/index", ".rustup/toolchains/t", ".npm/_cacache", ".local/bin", "go/pkg/mod"]
    {
        fs::create_dir_all(home.at(name)).map_err(failed)?;
    }
    let read = |sandbox: &dyn Sandbox| -> Result<Vec<String>, NotPassed> {
        let command = home.command(READ).with_args(["sh", &secret]).with_args(&planted);
        Ok(home.run(sandbox, command)?.stdout.lines().map(str::to_owned).collect())
    };
    let outside = read(&NoSandbox)?;
    if outside.len() != planted.len() {
        return Err(failed(format!("only {} of {} can be read outside", outside.len(), planted.len())));
    }
    let mut inside = read(bench.sandbox)?;
    let search = home.command(SEARCH).with_args(["sh", &secret]);
    inside.extend(home.run(bench.sandbox, search)?.stdout.lines().map(str::to_owned));
    println!("planted home: {} readable outside, {} inside", outside.len(), inside.len());
    if inside.is_empty() { Ok(()) } else { Err(failed(format!("can be read: {}", inside.join(", ")))) }
}

/// What appears in the home while the command runs is not there for it, not even for a moment.
pub(crate) fn what_appears_in_the_home_does_not_show(bench: Bench<'_>, _: Helper) -> Outcome {
    let home = Home::new(bench.scratch.join("home"))?;
    home.plant(".netrc", "SECRET 0")?;
    let writing = home.path.clone();
    let writer = std::thread::spawn(move || {
        for round in 0..100 {
            for name in [".netrc", ".new", ".config/new"] {
                let path = writing.join(name);
                let _ = fs::create_dir_all(path.parent().unwrap_or(&path));
                let next = path.with_extension("next");
                let _ = fs::write(&next, format!("SECRET {round}")).and_then(|()| fs::rename(&next, &path));
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    let script = "n=0; while test $n -lt 300; do n=$((n+1)); cat ~/.netrc ~/.new ~/.config/new 2> /dev/null; done; true";
    let ran = home.run(bench.sandbox, home.command(script));
    writer.join().map_err(|_| failed("the writer panicked"))?;
    let seen = ran?.stdout.lines().count();
    if seen == 0 { Ok(()) } else { Err(failed(format!("{seen} times a value was read"))) }
}

/// Jobs that people have done, each with what it needs. `$TOOLS` has cargo.
const JOBS: &[(&str, &str)] = &[
    ("shell", "echo x > a && mv a b && cp b c && rm b c && ls -la > /dev/null"),
    ("grep and find", "grep -r nothing . ; find . -name x > /dev/null"),
    ("perl", "perl -e 'use POSIX; print 1'"),
    ("python", "python3 -c 'import json, ssl, sqlite3; print(1)'"),
    ("python venv", "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'"),
    ("pip", "python3 -m pip --version"),
    (
        "python unittest",
        "printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): pass\\n' > t.py && python3 -m unittest -q t",
    ),
    (
        "python user cache",
        "mkdir -p $HOME/.cache/mytool && echo x > $HOME/.cache/mytool/x && cat $HOME/.cache/mytool/x",
    ),
    ("node", "node -e 'console.log(1)'"),
    (
        "npm",
        "npm --version && echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -p 1\"}}' > package.json && npm test",
    ),
    (
        "npm install",
        "mkdir -p dep && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json && echo '{\"name\":\"x\",\"version\":\"1.0.0\"}' > package.json && npm install --offline --no-audit --no-fund ./dep",
    ),
    (
        "npm -g",
        "mkdir -p g && echo '{\"name\":\"g\",\"version\":\"1.0.0\",\"bin\":\"g.js\"}' > g/package.json && printf '#!/usr/bin/env node\\n' > g/g.js && npm install -g --prefix $HOME/.npm-global --offline --no-audit --no-fund ./g && test -e $HOME/.npm-global/bin/g",
    ),
    (
        "npx",
        "mkdir -p n/node_modules/.bin && printf '#!/bin/sh\\necho npx\\n' > n/node_modules/.bin/t && chmod +x n/node_modules/.bin/t && cd n && npx --offline t | grep -q npx",
    ),
    (
        "cargo",
        "mkdir -p h/src && printf '[package]\\nname = \"h\"\\nedition = \"2021\"\\n[workspace]\\n' > h/Cargo.toml && echo 'fn main() {} #[test] fn t() {}' > h/src/main.rs && cd h && cargo test -q --offline",
    ),
    (
        "cargo install",
        "mkdir -p i/src && printf '[package]\\nname = \"i\"\\nedition = \"2021\"\\n[workspace]\\n' > i/Cargo.toml && echo 'fn main() {}' > i/src/main.rs && cargo install -q --offline --path i && ls -d ${CARGO_HOME:-$HOME/.cargo}/bin/i",
    ),
    ("rustc", "echo 'fn main() {}' > m.rs && rustc m.rs && ./m"),
    ("rustfmt", "echo 'fn main() {}' > f.rs && rustfmt --check f.rs"),
    (
        "clippy",
        "mkdir -p k/src && printf '[package]\\nname = \"k\"\\nedition = \"2021\"\\n[workspace]\\n' > k/Cargo.toml && echo 'fn main() {}' > k/src/main.rs && cd k && cargo clippy -q --offline",
    ),
    ("rust-analyzer", "rust-analyzer --version"),
    ("cc", "printf 'int main(){return 0;}' > a.c && cc a.c -o a.out && ./a.out"),
    ("make", "printf 'all:\\n\\techo x > made\\n' > Makefile && make -s && test -e made"),
    ("cmake", "cmake --version"),
    (
        "go",
        "mkdir -p go1 && cd go1 && go mod init x && printf 'package main\\nfunc main(){}\\n' > m.go && go build && ./x",
    ),
    ("java", "java -version"),
    (
        "git init",
        "git init -q r && cd r && echo a > f && git add f && git -c user.name=n -c user.email=e@x commit -qm one && git log --oneline | grep -q one",
    ),
    (
        "git identity",
        "git init -q r && cd r && git commit -q --allow-empty -m one && test \"$(git log -1 --format=%an:%ae)\" = Person:person@example.invalid",
    ),
    ("git alias", "git init -q r && cd r && git commit -q --allow-empty -m one && git lg | grep -q one"),
    (
        "git stash and branches",
        "git init -q r && cd r && git commit -q --allow-empty -m one && echo a > f && git add f && git stash -q && git stash pop -q && git checkout -q -b b && git rebase -q HEAD; git log --all --oneline | grep -q one",
    ),
    (
        "git clone",
        "git init -q r && git -C r commit -q --allow-empty -m one && git clone -q r s && git -C s log --oneline | grep -q one",
    ),
    ("git config", "git config --global color.ui never && git config --global color.ui | grep -q never"),
    (
        "git ignore",
        "git init -q r && cd r && echo x > a.ignored && git status --porcelain | grep -q ignored && exit 1; true",
    ),
    ("tmux", "tmux -L t$$ -f /dev/null new-session -d true; tmux -L t$$ kill-server; true"),
    (
        "a server",
        "python3 -u -m http.server --bind 127.0.0.1 0 > log 2>&1 & p=$!; n=0; until grep -q Serving log || test $n -gt 100; do n=$((n+1)); sleep 0.05; done; kill $p",
    ),
    ("names", "getent passwd root && getent hosts localhost && id -un"),
    ("certificates", "test -r /etc/ssl/certs/ca-certificates.crt"),
    ("time zones", "TZ=Europe/Berlin date && test -e /usr/share/zoneinfo/UTC"),
    ("packages of the system", "dpkg -s libc6 > /dev/null"),
    ("a tool in the home", "mytool | grep -q hello"),
    ("a tool by a link", "linked | grep -q hello"),
    ("a tool in its tree", "treetool | grep -q hello"),
    ("processors", "nproc && test -r /proc/meminfo && ls /sys/devices/system/cpu > /dev/null"),
    (
        "temporary files",
        "d=$(mktemp -d) && echo x > $d/f && rm -r $d && echo x > /dev/shm/x.$$ && rm /dev/shm/x.$$",
    ),
    (
        "settings of tools",
        "grep -q max_width $HOME/.config/rustfmt/rustfmt.toml && grep -q build $HOME/.cargo/config.toml",
    ),
    ("settings through links", "grep -q root $HOME/.editorconfig"),
];

fn tools(home: &Home) -> Result<(), NotPassed> {
    home.plant(
        ".gitconfig",
        "[user]\n\tname = Person\n\temail = person@example.invalid\n[alias]\n\tlg = log --oneline\n\
         [core]\n\texcludesFile = ~/.ignored-everywhere\n[http]\n\textraHeader = SECRET\n",
    )?;
    home.plant(".ignored-everywhere", "*.ignored\n")?;
    home.plant(".config/rustfmt/rustfmt.toml", "max_width = 100\n")?;
    home.plant(".cargo/config.toml", "[build]\njobs = 2\n")?;
    home.plant("dotfiles/editorconfig", "root = true\n")?;
    let hello = "#!/bin/sh\necho hello\n";
    for name in [".local/bin/mytool", ".local/share/pipx/venvs/linked/bin/linked"] {
        home.plant(name, hello)?;
    }
    home.plant(".local/share/pipx/venvs/linked/pyvenv.cfg", "home = /usr/bin\n")?;
    home.plant("apps/tree/bin/treetool", "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/hello\"\n")?;
    home.plant("apps/tree/lib/hello", "hello\n")?;
    for name in [".local/bin/mytool", ".local/share/pipx/venvs/linked/bin/linked", "apps/tree/bin/treetool"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(home.at(name), mode).map_err(failed)?;
    }
    let link = |to: &Path, from: &str| symlink(to, home.at(from)).map_err(failed);
    link(&home.at(".local/share/pipx/venvs/linked/bin/linked"), ".local/bin/linked")?;
    link(Path::new("dotfiles/editorconfig"), ".editorconfig")
}

/// What cannot work where nothing can be shown in place: there the home cannot be written.
const LACKING: &[&str] = &[
    "temporary files",
    "rustfmt",
    "python user cache",
    "npm install",
    "npm -g",
    "npx",
    "npm",
    "cargo install",
    "go",
    "git config",
];

pub(crate) fn usual_jobs_work(bench: Bench<'_>, _: Helper) -> Outcome {
    let home = Home::new(bench.scratch.join("explained"))?;
    let report = bench.sandbox.explain(&home.policy()?).map_err(|error| failed(error.report()))?;
    let in_place = report.state(Control::LAYERS) == Some(ControlState::Enforced);
    let mut wrong = Vec::new();
    let (mut worked, mut vacuous, mut lacking) = (0, Vec::new(), Vec::new());
    for (name, script) in JOBS {
        let attempt = |place: &str, sandbox: &dyn Sandbox| -> Result<Ran, NotPassed> {
            let mut home = Home::new(bench.scratch.join(place).join(name.replace(' ', "-")))?;
            tools(&home)?;
            let mut path =
                std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
            let toolchain = Path::new(env!("CARGO")).parent().map(Path::to_owned).unwrap_or_default();
            path.splice(0..0, [home.at(".local/bin"), home.at("apps/tree/bin"), toolchain]);
            let path = std::env::join_paths(path).map_err(failed)?;
            home.inputs.environment.insert("PATH".into(), path.clone());
            let command = home.command(script).with_env("PATH", path).with_env("GIT_CONFIG_NOSYSTEM", "1");
            home.run(sandbox, command)
        };
        if attempt("outside", &NoSandbox)?.code != 0 {
            vacuous.push(*name);
            continue;
        }
        let ran = attempt("inside", bench.sandbox)?;
        match ran.code {
            0 => worked += 1,
            _ if !in_place && LACKING.contains(name) => lacking.push(*name),
            code => wrong.push(format!("{name}: code {code}: {} {}", ran.stdout.trim(), ran.stderr.trim())),
        }
    }
    println!(
        "usual jobs: {worked} of {} work; not there outside either: {vacuous:?}; cannot work here: {lacking:?}",
        JOBS.len()
    );
    if wrong.is_empty() { Ok(()) } else { Err(failed(wrong.join("\n"))) }
}

/// Nothing inside weakens the process that keeps hidden what is hidden.
pub(crate) fn the_keeper_cannot_be_weakened(bench: Bench<'_>, _: Helper) -> Outcome {
    let home = Home::new(bench.scratch.join("home"))?;
    for script in [
        "prlimit --pid 1 --nofile=3:3",
        "prlimit --pid 1 --nproc=1:1",
        "taskset -pc 0 1",
        "chrt -i -p 0 1",
        "renice -n 19 -p 1",
        "renice -n 19 -u $(id -u)",
        "ionice -c 3 -p 1",
    ] {
        let ran = home.run(bench.sandbox, home.command(script))?;
        if ran.code == 0 {
            return Err(failed(format!("{script} worked")));
        }
    }
    // What programs do to themselves still works.
    let ran = home.run(bench.sandbox, home.command("ulimit -n 64 && nice -n 5 true && taskset 1 true"))?;
    if ran.code == 0 { Ok(()) } else { Err(failed(format!("{ran:?}"))) }
}

/// A link that an earlier session left does not make a later one hide the system.
pub(crate) fn a_planted_link_does_not_hide_the_system(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut home = Home::new(bench.scratch.join("home"))?;
    let written = home.at("shared");
    fs::create_dir_all(&written).map_err(failed)?;
    fs::create_dir_all(home.at(".cache")).map_err(failed)?;
    symlink("/usr", written.join("ibus")).map_err(failed)?;
    symlink("/usr", home.at(".cache/ibus")).map_err(failed)?;
    home.inputs.settings.write = vec![written.clone()];
    home.inputs.settings.deny = vec![written.join("ibus"), home.at(".cache/ibus")];
    let ran = home.run(bench.sandbox, home.command("ls /usr/bin > /dev/null"))?;
    if ran.code != 0 {
        return Err(failed(format!("{ran:?}")));
    }
    // A rule that hides the system itself says so.
    home.inputs.settings.deny = vec!["/usr".into()];
    let refused = bench.sandbox.explain(&home.policy()?);
    let why = refused.err().map(|error| error.report()).unwrap_or_default();
    match why.contains("would hide /usr") {
        true => Ok(()),
        false => Err(failed(format!("starts with the system hidden: {why}"))),
    }
}

/// Without namespaces, nothing starts unless the person accepts less.
pub(crate) fn required_never_steps_down_silently(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut home = Home::new(bench.scratch.join("home"))?;
    let held = |home: &Home| -> Result<String, NotPassed> {
        let explained = bench.sandbox.explain(&home.policy()?);
        Ok(explained.err().map(|error| error.report()).unwrap_or_default())
    };
    let accepted = held(&home)?;
    home.inputs.settings.step_down = None;
    let strict = held(&home)?;
    let said = |part: &str| strict.contains(part) && strict.contains("step_down: allow");
    // A part of a writable folder that is read-only, as the pointer of a worktree is.
    let wired = home.policy()?.to_builder().read(home.work().join(".git"), "git").build().map_err(failed)?;
    let wired = bench.sandbox.explain(&wired).err().map(|error| error.report()).unwrap_or_default();
    match (accepted.is_empty(), bench.sandbox.probe().title().as_str()) {
        (true, "landlock" | "bwrap") if strict.is_empty() && wired.is_empty() => Ok(()),
        (true, "birdcage") if said("other programs of yours") => Ok(()),
        (true, "landlock, without namespaces")
            if (strict.is_empty() || said("other programs of yours")) && wired.contains("your own tools") =>
        {
            Ok(())
        }
        _ => Err(failed(format!("accepted: {accepted}; strict: {strict}"))),
    }
}

/// Starts programs that take orders through sockets in `$1`, which the command writes; each says where it listens. The
/// last one also answers where the path is too long for a socket.
const SERVERS: &str = "cd \"$1\" || exit 1; \
    command -v tmux > /dev/null && tmux -f /dev/null -S \"$1/tmux.sock\" new-session -d 'sleep 60'; \
    command -v ssh-agent > /dev/null && ssh-agent -a agent.sock > agent.pid; \
    command -v dbus-daemon > /dev/null && dbus-daemon --session --fork --print-pid --address=unix:path=\"$1/bus.sock\" > bus.pid; \
    perl -e 'use Socket; socket(my $s,AF_UNIX,SOCK_STREAM,0); bind($s,pack_sockaddr_un(shift)) or exit 1; listen($s,5); \
    if(my $p=fork){print $p; exit 0} close STDOUT; alarm 60; while(accept(my $c,$s)){syswrite $c,\"HTTP/1.0 200 OK\\r\\n\\r\\n\"}' \"$(test ${#1} -lt 90 && echo \"$1/\")docker.sock\" > docker.pid 2> /dev/null; true";

/// Names those that answer.
const CLIENTS: &str = "tmux -S tmux.sock run-shell 'echo tmux > pwned' 2> /dev/null && echo tmux; \
    SSH_AUTH_SOCK=agent.sock ssh-add -l 2>&1 | grep -q 'no identities' && echo agent; \
    dbus-send --bus=unix:path=\"$PWD/bus.sock\" --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames \
    > /dev/null 2>&1 && echo bus; \
    perl -e 'use Socket; socket(my $s,AF_UNIX,SOCK_STREAM,0) or exit 1; connect($s,pack_sockaddr_un(\"docker.sock\")) or exit 1; \
    sysread $s,my $b,4; exit($b eq \"HTTP\"?0:1)' && echo docker; true";

/// tmux, ssh-agent, D-Bus and docker's socket answer outside and not inside, wherever they listen; pairs of sockets work.
pub(crate) fn programs_that_listen_are_out_of_reach(bench: Bench<'_>, _: Helper) -> Outcome {
    if bench.sandbox.name() == "birdcage" {
        return Err(NotPassed::Skipped("the view of birdcage shows sockets".to_owned()));
    }
    let home = Home::new(bench.scratch.join("home"))?;
    let at_work = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(home.work()).current_dir(home.work()).output().map_err(failed)
    };
    at_work(SERVERS)?;
    let outside = at_work(CLIENTS)?;
    let inside = home.run(bench.sandbox, home.command(CLIENTS));
    let pair = "perl -e 'use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or exit 1; syswrite $a, 1; sysread $b, my $c, 1; \
                exit($c eq 1 ? 0 : 1)'";
    let pairs = home.run(bench.sandbox, home.command(pair));
    at_work(
        "tmux -S tmux.sock kill-server; cat *.pid | grep -oE '[0-9]{2,}' | sort -u | while read p; do \
             grep -aqE 'dbus-daemon|ssh-agent|perl' /proc/$p/cmdline && kill $p; done; true",
    )?;
    let (outside, inside) = (String::from_utf8_lossy(&outside.stdout).into_owned(), inside?);
    println!("answered outside: {outside:?}");
    match (outside.contains("docker"), inside.stdout.is_empty(), pairs?.code) {
        (true, true, 0) => Ok(()),
        (.., pair) => Err(failed(format!("outside: {outside:?}; inside: {:?}; pair: {pair}", inside.stdout))),
    }
}

/// Homes and projects in unusual places: each works, or is refused with words.
pub(crate) fn unusual_homes_work_or_are_refused(bench: Bench<'_>, _: Helper) -> Outcome {
    let folder = bench.scratch.join("real");
    let home = Home::new(folder.clone())?;
    home.plant(".netrc", "planted-secret")?;
    home.plant(".gitconfig", "[user]\n\tname = Person\n")?;
    let link = bench.scratch.join("link");
    symlink(&folder, &link).map_err(failed)?;
    let explain = |home: &Home| -> Result<String, NotPassed> {
        let explained = bench.sandbox.explain(&home.policy()?);
        Ok(explained.err().map(|error| error.report()).unwrap_or_default())
    };
    // A home that is a link keeps its path.
    let linked = Home::new(link.clone())?;
    let script = "test \"$HOME\" = \"$1\" && ! cat $HOME/.netrc && git config user.name";
    let ran = linked.run(bench.sandbox, linked.command(script).with_arg("sh").with_arg(&link))?;
    if ran.code != 0 || !ran.stdout.contains("Person") || ran.stdout.contains("planted") {
        return Err(failed(format!("a home that is a link: {ran:?}")));
    }
    for (path, project, why) in [
        ("/", "/p", "part of the system"),
        ("/usr/share", "/p", "part of the system"),
        ("/home/u", "/home/u", "holds your home folder"),
    ] {
        let mut other = Home { path: home.path.clone(), inputs: home.inputs.clone() };
        other.inputs.home = Some(path.into());
        other.inputs.project_root = Some(project.into());
        let said = explain(&other)?;
        if !said.contains(why) {
            return Err(failed(format!("{path} with {project}: {said}")));
        }
    }
    Ok(())
}

/// What is written to toolchains and caches is gone at the end, and the disk is as before.
pub(crate) fn layers_leave_nothing(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut home = Home::new(bench.scratch.join("home"))?;
    home.plant(".cargo/registry/src/itoa-1.0.0/build.rs", "fn main() {}")?;
    home.plant(".cache/pip/x", "x")?;
    let caches = bench.scratch.join("state/caches");
    fs::create_dir_all(&caches).map_err(failed)?;
    home.inputs.own_caches = Some(caches.clone());
    let report = bench.sandbox.explain(&home.policy()?).map_err(|error| failed(error.report()))?;
    if report.state(Control::LAYERS) != Some(ControlState::Enforced) {
        return Err(NotPassed::Skipped("not available here: nothing can be shown in place".to_owned()));
    }
    let script = "cd ~/.cargo/registry/src/itoa-1.0.0 && echo evil >> build.rs && grep -q evil build.rs && \
                  mkdir -m 0 ~/.cache/pip/shut && rm ~/.cache/pip/x && echo x > ~/.cache/p10k-instant-prompt.zsh && \
                  echo x > ~/.cargo/registry/new && mv ~/.cargo/registry/new ~/.cargo/registry/newer && ls ~";
    let ran = home.run(bench.sandbox, home.command(script))?;
    let text = fs::read_to_string(home.at(".cargo/registry/src/itoa-1.0.0/build.rs")).map_err(failed)?;
    let added = [".cargo/registry/newer", ".cache/p10k-instant-prompt.zsh", ".cache/pip/shut"];
    let reached = text != "fn main() {}"
        || !home.at(".cache/pip/x").exists()
        || added.iter().any(|name| home.at(name).exists());
    let left = fs::read_dir(caches.join("layers")).map_err(failed)?.count();
    match ran.code == 0 && !reached && left == 0 {
        true => Ok(()),
        false => Err(failed(format!("reached the home: {reached}; {left} layers left; {ran:?}"))),
    }
}
