//! Questions that an attacker asks, and work that an agent must be able to do.
//!
//! Each runs in a worktree of a project in a home folder full of secrets, with a process outside to spy on. It runs
//! without a sandbox first: one that fails there is vacuous and ignored. A gap that a sandbox is known to have must be
//! there, so that nobody claims what changed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use watchfire_core::process::CommandSpec;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::{Bench, NotPassed, Outcome, run, shell};
use watchfire_core::sandbox::{NoSandbox, PolicyInputs, Sandbox as _, SandboxPolicy};
use watchfire_sandbox::base_policy;

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
    works: bool,
    /// Sandboxes that are known to get it wrong; with ` as user`, only there.
    gaps: &'static [&'static str],
}

const fn denied(name: &'static str, inside: &'static str) -> Probe {
    Probe { name, setup: "", inside, verify: "", works: false, gaps: &[] }
}

const fn works(name: &'static str, inside: &'static str) -> Probe {
    Probe { name, setup: "", inside, verify: "", works: true, gaps: &[] }
}

impl Probe {
    const fn after(mut self, setup: &'static str) -> Self {
        self.setup = setup;
        self
    }

    const fn seen_by(mut self, verify: &'static str) -> Self {
        self.verify = verify;
        self
    }

    const fn gap(mut self, gaps: &'static [&'static str]) -> Self {
        self.gaps = gaps;
        self
    }
}

const ALONE: &[&str] = &["landlock_alone"];
const CAGED: &[&str] = &["birdcage"];
const ALLOWING: &[&str] = &["landlock_alone", "birdcage"];
const ALL: &[&str] = &["landlock", "bwrap", "landlock_alone", "birdcage"];

/// A listener that greets whoever connects, for 20 seconds at most; `$1` is its address, `@` in front: abstract.
macro_rules! listener {
    ($address:literal) => {
        concat!(
            "perl -e 'use Socket; alarm 20; my $a=$ARGV[0]; $a=~s/^@/\\0/; unlink $a; socket(my $s,AF_UNIX,SOCK_STREAM,0); ",
            "bind($s,pack_sockaddr_un($a)) or exit 1; listen($s,5); if(fork){exit 0} close STDOUT; ",
            "while(accept(my $c,$s)){syswrite $c,\"PWNED\";close $c}' ",
            $address
        )
    };
}

macro_rules! connect {
    ($address:literal) => {
        concat!(
            "perl -e 'use Socket; my $a=$ARGV[0]; $a=~s/^@/\\0/; socket(my $s,AF_UNIX,SOCK_STREAM,0); ",
            "connect($s,pack_sockaddr_un($a)) or exit 1; sysread $s,my $b,5; exit($b eq \"PWNED\"?0:1)' ",
            $address
        )
    };
}

/// Still there after 1.5 s: the kernel ends a process namespace a moment after its first process.
const SURVIVES: &str = "for n in $(seq 30); do pgrep -f \"^sleep 41$VICTIM\" > /dev/null || exit 1; sleep 0.05; done; \
                        pkill -f \"^sleep 41$VICTIM\"";

pub(crate) const PROBES: &[Probe] = &[
    // secrets by other ways
    denied("dotenv_of_the_project", "grep -q SECRET $P/.env"),
    denied("dotenv_deep_in_the_project", "grep -q SECRET $P/deep/a/b/.env.production"),
    denied("dotenv_in_the_worktree", "grep -q SECRET $W/.env").after("echo SECRET > $W/.env").gap(ALLOWING),
    denied("link_made_before", "grep -q SECRET l").after("ln -sf $HOME/.aws/credentials $W/l"),
    denied("link_made_inside", "ln -s $HOME/.aws l2 && grep -q SECRET l2/credentials"),
    denied("hard_link_made_inside", "ln $HOME/.netrc h && grep -q SECRET h"),
    denied("root_of_another_process", "grep -q SECRET /proc/$VICTIM/root$HOME/.netrc"),
    denied("cwd_of_another_process", "grep -q SECRET /proc/$VICTIM/cwd/.netrc"),
    denied("environment_of_another_process", "tr '\\0' '\\n' < /proc/$VICTIM/environ | grep -q SECRET_ENV"),
    denied("arguments_of_another_process", "tr '\\0' ' ' < /proc/$VICTIM/cmdline | grep -q SECRET_ARG").gap(ALONE),
    denied("kernel_log", "timeout 1 dd if=/dev/kmsg bs=8192 count=1 2>/dev/null | grep -q ."),
    denied("raw_disk", "d=$(ls /dev/vd? /dev/sd? /dev/nvme?n? 2>/dev/null | head -1); head -c 512 $d | wc -c | grep -q 512"),
    denied("kernel_keyring", "perl -e 'exit(syscall(250,0,-3,1)>=0?0:1)'"),
    // what runs later, outside
    denied("git_configuration_of_the_user", "git config --global core.pager evil").seen_by("grep -q evil $HOME/.gitconfig"),
    denied("authorized_keys", "echo k > $HOME/.ssh/authorized_keys").seen_by("test -e $HOME/.ssh/authorized_keys"),
    denied("cargo_configuration", "echo evil > $HOME/.cargo/config.toml").seen_by("grep -q evil $HOME/.cargo/config.toml"),
    denied("programs_of_the_user", "echo evil > $HOME/.local/bin/tool").seen_by("grep -q evil $HOME/.local/bin/tool"),
    denied("services_of_the_user", "echo evil > $HOME/.config/systemd/user/x.service").seen_by("grep -q evil $HOME/.config/systemd/user/x.service"),
    denied("settings_of_watchfire", "echo evil > $HOME/.watchfire/settings.yaml").seen_by("grep -q evil $HOME/.watchfire/settings.yaml"),
    denied("system_files", "echo x > /etc/watchfire-probe").seen_by("test -e /etc/watchfire-probe && rm /etc/watchfire-probe"),
    denied("sysctl", "h=$(cat /proc/sys/kernel/panic); echo $h > /proc/sys/kernel/panic"),
    denied("core_pattern", "h=$(cat /proc/sys/kernel/core_pattern); echo \"$h\" > /proc/sys/kernel/core_pattern"),
    // the user's files
    denied("mode_of_a_file", "chmod 777 $HOME/plain").after("chmod 644 $HOME/plain").seen_by("test $(stat -c %a $HOME/plain) = 777").gap(ALONE),
    denied("time_of_a_file", "touch -d 2001-01-01 $HOME/plain").seen_by("test $(stat -c %Y $HOME/plain) -lt 1000000000").gap(ALONE),
    denied("attribute_of_a_file", "perl -e '$p=$ENV{HOME}.\"/plain\";$n=\"user.probe\";$v=\"v\";exit(syscall(188,$p,$n,$v,1,0)==0?0:1)'").gap(ALONE),
    denied("deleting", "rm -f $HOME/plain; test ! -e $HOME/plain").seen_by("test ! -e $HOME/plain"),
    denied("moving_a_folder", "mv $HOME/folder $HOME/other").after("mkdir -p $HOME/folder").seen_by("test -e $HOME/other"),
    denied("a_hard_link_that_was_there", "echo evil >> hl").after("ln $HOME/plain $W/hl").seen_by("grep -q evil $HOME/plain").gap(ALL),
    // what is shared
    denied("shared_memory_files", "echo x > /dev/shm/watchfire-probe-$VICTIM").seen_by("test -e /dev/shm/watchfire-probe-$VICTIM && rm /dev/shm/watchfire-probe-$VICTIM"),
    denied("shared_tmp_written", "echo x > /tmp/watchfire-probe-$VICTIM").seen_by("test -e /tmp/watchfire-probe-$VICTIM && rm /tmp/watchfire-probe-$VICTIM"),
    denied("shared_tmp_read", "grep -q SECRET /tmp/watchfire-probe-s$VICTIM").after("echo SECRET > /tmp/watchfire-probe-s$VICTIM").seen_by(""),
    denied("system_v_memory", "perl -e '$k=shmget(0x5b0000+$ENV{VICTIM},64,0600); exit 1 unless defined $k; shmread($k,$b,0,6); exit($b eq \"SECRET\"?0:1)'")
        .after("perl -e '$k=shmget(0x5b0000+$ENV{VICTIM},64,0600|01000); shmwrite($k,\"SECRET\",0,6)'").gap(ALONE),
    // ways out
    denied("mounting", "mkdir -p m && mount -t tmpfs x m").seen_by("umount $W/m"),
    denied("new_user_namespace", "unshare -Ur true"),
    denied("new_mount_namespace", "unshare -m true"),
    denied("entering_a_namespace", "nsenter -t $VICTIM -m true"),
    denied("chroot", "chroot / true"),
    denied("device_node", "mknod b b 7 0 && head -c 1 b > /dev/null"),
    denied("handle_of_a_file", "perl -e '$h=pack(\"II\",120,0).(\"\\0\"x120);$m=pack(\"i\",0);$p=$ENV{HOME}.\"/.netrc\"; exit(1) if syscall(303,-100,$p,$h,$m,0); open(F,\"<\",\".\"); exit(syscall(304,fileno(F),$h,0)>=0?0:1)'"),
    // git
    denied("hook", "echo evil > $P/.git/hooks/post-merge").seen_by("test -e $P/.git/hooks/post-merge"),
    denied("configuration", "git config core.fsmonitor evil").seen_by("grep -q evil $P/.git/config"),
    denied("attributes", "mkdir -p $P/.git/info; echo evil >> $P/.git/info/attributes").seen_by("grep -q evil $P/.git/info/attributes"),
    denied("alternates", "mkdir -p $P/.git/objects/info; echo evil >> $P/.git/objects/info/alternates").after("mkdir -p $P/.git/objects/info").seen_by("grep -q evil $P/.git/objects/info/alternates").gap(ALONE),
    denied("branch_main", "git update-ref refs/heads/main $(git commit-tree -m evil HEAD^{tree})").seen_by("git -C $P log -1 --format=%s main | grep -q evil"),
    denied("branch_of_another_task", "echo 0000 > $P/.git/refs/heads/watchfire/0002").seen_by("grep -q 0000 $P/.git/refs/heads/watchfire/0002").gap(ALONE),
    denied("tag", "git tag evil").seen_by("git -C $P tag | grep -q evil"),
    denied("packed_refs", "echo x >> $P/.git/packed-refs").seen_by("grep -qx x $P/.git/packed-refs"),
    denied("head_of_the_checkout", "echo ref: refs/heads/evil > $P/.git/HEAD").seen_by("grep -q evil $P/.git/HEAD"),
    denied("index_of_the_checkout", "echo evil > $P/.git/index").seen_by("grep -q evil $P/.git/index"),
    denied("pointer_changed", "echo gitdir: /evil > $W/.git").seen_by("grep -q evil $W/.git").gap(ALONE),
    denied("pointer_replaced", "rm -f $W/.git && mkdir $W/.git && echo evil > $W/.git/config").seen_by("test -d $W/.git").gap(ALONE),
    denied("common_folder", "echo /evil > $P/.git/worktrees/0001/commondir").seen_by("grep -q evil $P/.git/worktrees/0001/commondir").gap(ALONE),
    denied("object_that_exists", "o=$(git rev-parse main); f=$P/.git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-); chmod +w $f && echo x > $f").seen_by("! git -C $P cat-file -p main").gap(ALL),
    denied("another_worktree", "echo evil >> $P/.watchfire/worktrees/0002/main.rs").seen_by("grep -q evil $P/.watchfire/worktrees/0002/main.rs"),
    denied("another_worktree_read", "cat $P/.watchfire/worktrees/0002/main.rs"),
    denied("main_checkout", "echo evil >> $P/main.rs").seen_by("grep -q evil $P/main.rs"),
    denied("project_settings", "echo evil >> $P/.watchfire/project.yaml").seen_by("grep -q evil $P/.watchfire/project.yaml"),
    denied("another_task", "echo evil >> $P/.watchfire/tasks/0002.yaml").seen_by("grep -q evil $P/.watchfire/tasks/0002.yaml"),
    denied("worktree_moved_away", "mv $W $W.x").seen_by("test -e $W.x && mv $W.x $W"),
    // other processes
    denied("socket_in_a_hidden_folder", connect!("$HOME/.gnupg/s")).after(listener!("$HOME/.gnupg/s")).gap(ALONE),
    denied("socket_in_tmp", connect!("/tmp/watchfire-probe-sock$VICTIM")).after(listener!("/tmp/watchfire-probe-sock$VICTIM")).gap(ALONE),
    denied("socket_in_plain_sight", connect!("$HOME/plain.sock")).after(listener!("$HOME/plain.sock")).gap(ALL),
    denied("abstract_socket", connect!("@watchfire-probe-$VICTIM")).after(listener!("@watchfire-probe-$VICTIM")),
    denied("signal", "kill -0 $VICTIM"),
    denied("priority", "renice -n 3 -p $VICTIM").gap(&["landlock_alone as user"]),
    denied("memory_of_a_process", "perl -e 'open(F,\"+<\",\"/proc/$ENV{VICTIM}/mem\") or exit 1'"),
    denied("descriptors_of_a_process", "readlink /proc/$VICTIM/fd/0 | grep -q pipe"),
    denied("survivor", "setsid sleep 41$VICTIM > /dev/null 2>&1 < /dev/null & sleep 0.1").seen_by(SURVIVES).gap(ALONE),
    // system calls
    denied("io_uring", "perl -e '$b=\"\\0\"x120; exit(syscall(425,8,$b)>=0?0:1)'"),
    denied("userfaultfd", "perl -e 'exit(syscall(323,1)>=0?0:1)'"),
    denied("bpf", "perl -e '$a=pack(\"IIII\",2,4,4,1).(\"\\0\"x112); exit(syscall(321,0,$a,128)>=0?0:1)'"),
    denied("perf", "perl -e '$a=pack(\"II\",1,112).(\"\\0\"x104); exit(syscall(298,$a,0,-1,-1,0)>=0?0:1)'"),
    denied("virtual_machine_socket", "perl -e 'exit(syscall(41,40,1,0)>=0?0:1)'"),
    denied("packet_socket", "perl -e 'exit(syscall(41,17,3,0)>=0?0:1)'"),
    // work
    works("commit", "echo a > f && git add f && git commit -qm one && git commit -q --amend -m two").seen_by("git -C $W log -1 --format=%s watchfire/0001 | grep -q two"),
    works("status_and_log", "git status --porcelain && git log --oneline --all && git diff HEAD"),
    works("rebase", "echo a > f && git add f && git commit -qm one && echo b > g && git add g && git commit -qm two && git rebase -q --root --onto HEAD~1 HEAD~1 || git rebase -q HEAD~1"),
    works("collect_garbage_if_needed", "git gc -q --auto; true"),
    works("the_project_can_be_read", "grep -q main $P/main.rs"),
    works("walking_up", "test -e ../../../main.rs && cat ../../../main.rs > /dev/null"),
    works("caches", "echo c > $HOME/.cache/x && mkdir -p $HOME/.npm/_cacache/x && mkdir -p $HOME/.cargo/registry/x"),
    works("program_built_here", "printf '#!/bin/sh\\nexit 0\\n' > run && chmod +x run && ./run"),
    works("terminal_of_its_own", "script -qec 'test -t 0' /dev/null < /dev/null").gap(CAGED),
    works("tracing_children", "strace -f -o /dev/null true").gap(CAGED),
    works("sockets_inside", "d=$(mktemp -d); perl -e 'use IO::Socket::UNIX; my $p=shift; my $s=IO::Socket::UNIX->new(Local=>$p,Listen=>1) or exit 1; if(!fork){my $c=IO::Socket::UNIX->new(Peer=>$p) or exit 1; print $c \"hi\\n\"; exit 0} my $c=$s->accept; exit(<$c> eq \"hi\\n\"?0:1)' $d/s"),
    works("network", "perl -e 'use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>1,LocalAddr=>\"127.0.0.1\") or exit 1; my $c=IO::Socket::INET->new(PeerAddr=>\"127.0.0.1\",PeerPort=>$s->sockport) or exit 2; my $u=IO::Socket::INET->new(Proto=>\"udp\",PeerAddr=>\"127.0.0.1:9\") or exit 3;'"),
    works("own_children_can_be_signalled", "sleep 60 & kill $! && ! kill -0 999999 2> /dev/null"),
    works("many_files_open", "(ulimit -n 512)"),
    works("file_locks", "flock lock true"),
    works("semaphores_in_shared_memory", "echo x > /dev/shm/x && rm /dev/shm/x").gap(ALLOWING),
    works("proc", "cat /proc/self/status /proc/cpuinfo /proc/meminfo > /dev/null && test -r /proc/self/exe"),
    works("names_of_users_and_hosts", "getent passwd root > /dev/null && getent hosts localhost > /dev/null"),
];

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// Asks one question of one sandbox.
pub(crate) fn ask(probe: &Probe, variant: &str, bench: Bench<'_>, _: Helper) -> Outcome {
    let open = |name: &str| -> Result<bool, NotPassed> {
        let place = Place::new(&bench.scratch.join(name))?;
        place.outside(probe.setup);
        let command = place.command(probe.inside);
        let confined = match name {
            "control" => NoSandbox.prepare(&place.policy()?, command),
            _ => bench.sandbox.prepare(&place.policy()?, command),
        };
        let ran = run(confined.map_err(|error| failed(error.report()))?).map_err(failed)?;
        Ok(match probe.verify {
            "" => ran.code == 0,
            verify => place.outside(verify),
        })
    };
    let as_user = format!("{variant} as user");
    let gap = |name: &&str| *name == variant || (*name == as_user && !is_root());
    let expected = probe.works != probe.gaps.iter().any(gap);
    if !open("control")? {
        return Err(NotPassed::Skipped("does not work without a sandbox either".to_owned()));
    }
    match open("confined")? {
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
mkdir -p $HOME/.ssh $HOME/.aws $HOME/.gnupg $HOME/.cargo/registry $HOME/.cargo/bin $HOME/.local/bin $HOME/.npm/_cacache \
    $HOME/.cache $HOME/.config/systemd/user $HOME/.watchfire/logs $P/deep/a/b
echo SECRET > $HOME/.aws/credentials; echo SECRET > $HOME/.netrc; echo plain > $HOME/plain
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
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_AUTHOR_NAME", "n".into()),
        ("GIT_AUTHOR_EMAIL", "e@x".into()),
        ("GIT_COMMITTER_NAME", "n".into()),
        ("GIT_COMMITTER_EMAIL", "e@x".into()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into()),
    ]
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

    fn command(&self, script: &str) -> CommandSpec {
        shell(script).with_envs(self.variables()).with_cwd(self.worktree())
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
