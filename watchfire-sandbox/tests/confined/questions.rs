//! The questions. Those about time, such as a file that somebody makes while the agent runs, wait for each other by files.

use super::probes::{Probe, denied, works};

const ALONE: &[&str] = &["landlock_alone"];
const CAGED: &[&str] = &["birdcage"];
const ALLOWING: &[&str] = &["landlock_alone", "birdcage"];
const ALL: &[&str] = &["landlock", "bwrap", "landlock_alone", "birdcage"];
/// Nobody there watches what is made later.
const BWRAP: &[&str] = &["bwrap"];
const UNKEPT: &[&str] = &["bwrap", "landlock_alone", "birdcage"];
/// The shared parts of the repository are not private copies in these tests.
const UNBOUND: &[&str] = ALL;

/// A listener that greets whoever connects, for 20 seconds at most; `$1` is its address, `@` in front: abstract.
macro_rules! listener {
    ($address:literal) => {
        concat!(
            "perl -e 'use Socket; my $a=$ARGV[0]; $a=~s/^@/\\0/; unlink $a; socket(my $s,AF_UNIX,SOCK_STREAM,0); ",
            "bind($s,pack_sockaddr_un($a)) or exit 1; listen($s,5); if(fork){exit 0} alarm 20; close STDOUT; ",
            "while(accept(my $c,$s)){syswrite $c,\"PWNED\";close $c}' ",
            $address
        )
    };
}

/// In perl: goes on in the background, and cleans up when the other process ends, which is when the probe does.
macro_rules! until_then {
    ($clean:literal) => {
        concat!(
            "if(fork){exit 0} close $_ for (*STDOUT,*STDERR); ",
            "select(undef,undef,undef,0.05) while kill 0,$ENV{VICTIM}; ",
            $clean
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

/// What somebody does outside, `$before` at once and the rest when the agent is there.
macro_rules! meanwhile {
    ($then:literal, $before:literal) => {
        concat!(
            $before,
            " (n=0; until test -e $W/ready || test $n -gt 400; do n=$((n+1)); sleep 0.05; done; ",
            $then,
            "; : > $W/made) > /dev/null 2>&1 &"
        )
    };
}

/// Lets it be done, and can read the secret afterwards, again and again.
macro_rules! again {
    ($path:literal) => {
        concat!(
            ": > ready; n=0; until test -e made || test $n -gt 400; do n=$((n+1)); sleep 0.05; done; n=0; while grep -q SECRET ",
            $path,
            "; do n=$((n+1)); test $n -gt 20 && exit 0; sleep 0.05; done; exit 1"
        )
    };
}

/// By what they are about.
pub(crate) const GROUPS: &[(&str, &[Probe])] = &[
    ("secrets", &[
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
        denied("ssh_key", "grep -q SECRET $HOME/.ssh/id_ed25519"),
        denied("cloud_keys", "grep -q SECRET $HOME/.aws/credentials"),
        denied("passwords_of_hosts", "grep -q SECRET $HOME/.netrc"),
        denied("npm_token", "grep -q SECRET $HOME/.npmrc"),
        denied("docker_login", "grep -q SECRET $HOME/.docker/config.json"),
        denied("crates_token", "grep -q SECRET $HOME/.cargo/credentials.toml"),
        denied("login_of_another_agent", "grep -q SECRET $HOME/.claude/key").after("mkdir -p $HOME/.claude && echo SECRET > $HOME/.claude/key"),
        denied("settings_of_another_agent", "echo evil > $HOME/.claude/settings.json").after("mkdir -p $HOME/.claude").seen_by("grep -q evil $HOME/.claude/settings.json"),
        denied("shell_history", "grep -q SECRET $HOME/.bash_history"),
        denied("endpoint_of_watchfire", "grep -q SECRET $HOME/.watchfire/daemon.yaml"),
        denied("secret_in_a_renamed_folder", "mv $HOME/.ssh $HOME/.cache/s; grep -q SECRET $HOME/.cache/s/id_ed25519").after("true"),
        denied("secret_by_a_copy_of_its_folder", "cp -r $HOME/.ssh s && grep -q SECRET s/id_ed25519"),
        denied("secret_by_a_descriptor_of_the_home", "perl -e 'chdir $ENV{HOME}; open(F,\"<\",\"./.ssh/../.ssh/id_ed25519\") or exit 1; exit(<F>=~/SECRET/?0:1)'"),
        denied("secret_by_the_newer_way_to_open", "perl -e '$p=$ENV{HOME}.q{/.netrc}; $h=pack(q{QQQ},0,0,0); $f=syscall(437,-100,$p,$h,24); exit 1 if $f<0; open(F,qq{<&=$f}); exit(<F>=~/SECRET/?0:1)'"),
        denied("secret_by_a_descriptor_of_a_path", "perl -e '$p=$ENV{HOME}.q{/.netrc}; $f=syscall(257,-100,$p,010000000,0); exit 1 if $f<0; open(F,q{<},qq{/proc/self/fd/$f}) or exit 1; exit(<F>=~/SECRET/?0:1)'"),
        denied("secret_by_the_root_of_its_own", "grep -q SECRET /proc/self/root$HOME/.netrc"),
        denied("secret_in_an_archive", "tar cf - -C $HOME .ssh .aws .netrc 2> /dev/null | grep -aq SECRET"),
        denied("secret_by_a_link_where_a_rule_is", "grep -q SECRET $HOME/.ssh/id_ed25519").after("ln -sfn $HOME/.ssh/id_ed25519 $P/.git/refs/heads/watchfire/0002"),
        denied("dotenv_folder", "grep -q SECRET $P/deep/.env/key").after("mkdir -p $P/deep/.env && echo SECRET > $P/deep/.env/key"),
        denied("dotenv_that_an_editor_replaces", again!("$W/.env")).after(meanwhile!("echo SECRET > $W/.env.new; mv $W/.env.new $W/.env", "echo SECRET > $W/.env;")).gap(UNKEPT),
        denied("dotenv_of_the_project_that_an_editor_replaces", again!("$P/.env")).after(meanwhile!("echo SECRET > $P/new; mv $P/new $P/.env", "")).gap(BWRAP),
        denied("dotenv_made_later_in_the_project", again!("$P/.env.local")).after(meanwhile!("echo SECRET > $P/.env.local", "")).gap(BWRAP),
        denied("dotenv_made_later_in_a_new_folder", again!("$P/src/late/er/.env")).after(meanwhile!("mkdir -p $P/src/late/er; echo SECRET > $P/src/late/er/.env", "mkdir -p $P/src;")).gap(UNKEPT),
        denied("dotenv_moved_in_with_its_folder", again!("$P/src/late/.env")).after(meanwhile!("mv $HOME/outside $P/src/late", "mkdir -p $P/src $HOME/outside; echo SECRET > $HOME/outside/.env;")).gap(UNKEPT),
        denied("dotenv_made_later_by_the_person_in_the_worktree", again!("$W/late/.env")).after(meanwhile!("mkdir $W/late; echo SECRET > $W/late/.env", "")).gap(ALL),
        denied("secret_folder_made_later", again!("$HOME/.kube/config")).after(meanwhile!("mkdir $HOME/.kube; echo SECRET > $HOME/.kube/config", "")),
        denied("secret_file_made_later", again!("$HOME/.config/gh/hosts.yml")).after(meanwhile!("mkdir -p $HOME/.config/gh; echo SECRET > $HOME/.config/gh/hosts.yml", "")),
    ]),
    ("what runs later, outside", &[
        denied("git_configuration_of_the_user", "git config --global core.pager evil").seen_by("grep -q evil $HOME/.gitconfig"),
        denied("authorized_keys", "echo k > $HOME/.ssh/authorized_keys").seen_by("test -e $HOME/.ssh/authorized_keys"),
        denied("cargo_configuration", "echo evil > $HOME/.cargo/config.toml").seen_by("grep -q evil $HOME/.cargo/config.toml"),
        denied("programs_of_the_user", "echo evil > $HOME/.local/bin/tool").seen_by("grep -q evil $HOME/.local/bin/tool"),
        denied("programs_by_a_link_where_a_rule_is", "echo evil > $HOME/.local/bin/tool").after("d=$P/.git/logs/refs/heads/watchfire; rm -rf $d; ln -s $HOME/.local/bin $d").seen_by("grep -q evil $HOME/.local/bin/tool"),
        denied("services_of_the_user", "echo evil > $HOME/.config/systemd/user/x.service").seen_by("grep -q evil $HOME/.config/systemd/user/x.service"),
        denied("settings_of_watchfire", "echo evil > $HOME/.watchfire/settings.yaml").seen_by("grep -q evil $HOME/.watchfire/settings.yaml"),
        denied("system_files_written", "echo x > /etc/watchfire-probe").seen_by("test -e /etc/watchfire-probe && rm /etc/watchfire-probe"),
        denied("sysctl", "h=$(cat /proc/sys/kernel/panic); echo $h > /proc/sys/kernel/panic"),
        denied("core_pattern", "h=$(cat /proc/sys/kernel/core_pattern); echo \"$h\" > /proc/sys/kernel/core_pattern"),
        denied("shell_start", "echo evil >> $HOME/.bashrc").seen_by("grep -q evil $HOME/.bashrc"),
        denied("programs_of_cargo", "echo evil > $HOME/.cargo/bin/tool").seen_by("test -e $HOME/.cargo/bin/tool"),
        denied("npm_configuration", "echo evil >> $HOME/.npmrc").seen_by("grep -q evil $HOME/.npmrc"),
        denied("projects_of_watchfire", "echo evil > $HOME/.watchfire/projects.yaml").seen_by("grep -q evil $HOME/.watchfire/projects.yaml"),
        denied("logs_of_watchfire", "echo evil > $HOME/.watchfire/logs/x.jsonl").seen_by("test -e $HOME/.watchfire/logs/x.jsonl"),
        denied("autostart", "mkdir -p $HOME/.config/autostart; echo evil > $HOME/.config/autostart/x.desktop").seen_by("test -e $HOME/.config/autostart/x.desktop"),
        denied("variables_that_are_secrets", "env | grep -q SECRET_ENV"),
        denied("program_that_sets_its_user", "cp /bin/true s && chmod u+s s").seen_by("test -u $W/s"),
        denied("program_made_to_set_its_user", "perl -e 'use Fcntl; sysopen(F,\"s\",O_CREAT|O_RDWR,04755) or exit 1; print F \"x\"; close F'").seen_by("test -u $W/s && test -s $W/s"),
    ]),
    ("the user's files", &[
        denied("mode_of_a_file", "chmod 777 $HOME/plain").after("chmod 644 $HOME/plain").seen_by("test $(stat -c %a $HOME/plain) = 777").gap(ALONE),
        denied("time_of_a_file", "touch -d 2001-01-01 $HOME/plain").seen_by("test $(stat -c %Y $HOME/plain) -lt 1000000000").gap(ALONE),
        denied("attribute_of_a_file", "perl -e '$p=$ENV{HOME}.\"/plain\";$n=\"user.probe\";$v=\"v\";exit(syscall(188,$p,$n,$v,1,0)==0?0:1)'").gap(ALONE),
        denied("deleting", "rm -f $HOME/plain; test ! -e $HOME/plain").seen_by("test ! -e $HOME/plain"),
        denied("moving_a_folder", "mv $HOME/folder $HOME/other").after("mkdir -p $HOME/folder").seen_by("test -e $HOME/other"),
        denied("a_hard_link_that_was_there", "echo evil >> hl").after("ln $HOME/plain $W/hl").seen_by("grep -q evil $HOME/plain").gap(ALL),
        denied("mode_of_a_folder", "chmod 000 $HOME/Documents").after("mkdir -p $HOME/Documents").seen_by("test $(stat -c %a $HOME/Documents) = 0").gap(ALONE),
        denied("personal_folder", "grep -q SECRET $HOME/Documents/taxes").after("mkdir -p $HOME/Documents; echo SECRET > $HOME/Documents/taxes"),
        denied("emptying", ": > $HOME/plain").seen_by("test ! -s $HOME/plain"),
        denied("folders_exchanged", "mkdir e; perl -e '$a=$ENV{HOME}.q{/folder}; $b=q{e}; exit(syscall(316,-100,$a,-100,$b,2)==0?0:1)'").after("mkdir -p $HOME/folder/x").seen_by("test ! -e $HOME/folder/x"),
        denied("written_by_a_hard_link", "ln $HOME/plain pl && echo evil >> pl").seen_by("grep -q evil $HOME/plain"),
        denied("written_by_a_link", "ln -s $HOME/plain pl && echo evil >> pl").seen_by("grep -q evil $HOME/plain"),
        denied("written_by_a_descriptor_to_read", "exec 5< $HOME/plain; echo evil > /proc/self/fd/5").seen_by("grep -q evil $HOME/plain"),
        denied("mode_by_a_descriptor", "exec 5< $HOME/plain; chmod 777 /proc/self/fd/5").after("chmod 644 $HOME/plain").seen_by("test $(stat -c %a $HOME/plain) = 777"),
        denied("mode_of_a_device", "chmod 600 /dev/full").seen_by("test $(stat -c %a /dev/full) = 600; r=$?; chmod 666 /dev/full; exit $r").gap(&["landlock_alone as root", "bwrap as root", "birdcage as root"]),
    ]),
    ("what is shared", &[
        denied("shared_memory_files", "echo x > /dev/shm/watchfire-probe-$VICTIM").seen_by("test -e /dev/shm/watchfire-probe-$VICTIM && rm /dev/shm/watchfire-probe-$VICTIM"),
        denied("shared_tmp_written", "echo x > /tmp/watchfire-probe-$VICTIM").seen_by("test -e /tmp/watchfire-probe-$VICTIM && rm /tmp/watchfire-probe-$VICTIM"),
        denied("shared_tmp_read", "grep -q SECRET /tmp/watchfire-probe-s$VICTIM").after("echo SECRET > /tmp/watchfire-probe-s$VICTIM").seen_by(""),
        denied("system_v_memory", "perl -e '$k=shmget(0x5b0000+$ENV{VICTIM},64,0600); exit 1 unless defined $k; shmread($k,$b,0,6); exit($b eq \"SECRET\"?0:1)'")
            .after(concat!("perl -e '$k=shmget(0x5b0000+$ENV{VICTIM},64,0600|01000); shmwrite($k,\"SECRET\",0,6); ", until_then!("shmctl($k,0,0)"), "'")).gap(ALONE),
        denied("message_queue", "perl -e '$q=msgget(0x5b0000+$ENV{VICTIM},0600); exit(defined $q?0:1)'").after(concat!("perl -e '$q=msgget(0x5b0000+$ENV{VICTIM},0600|01000); ", until_then!("msgctl($q,0,0)"), "'")).seen_by("").gap(ALONE),
        denied("tmp_of_others_written", "echo x > /var/tmp/watchfire-probe-$VICTIM").seen_by("test -e /var/tmp/watchfire-probe-$VICTIM && rm /var/tmp/watchfire-probe-$VICTIM"),
    ]),
    ("ways out", &[
        denied("mounting", "mkdir -p m && mount -t tmpfs x m").seen_by("umount $W/m"),
        denied("new_user_namespace", "unshare -Ur true"),
        denied("new_mount_namespace", "unshare -m true"),
        denied("entering_a_namespace", "nsenter -t $VICTIM -m true"),
        denied("chroot", "chroot / true"),
        denied("device_node", "mknod b b 7 0 && head -c 1 b > /dev/null"),
        denied("handle_of_a_file", "perl -e '$h=pack(\"II\",120,0).(\"\\0\"x120);$m=pack(\"i\",0);$p=$ENV{HOME}.\"/.netrc\"; exit(1) if syscall(303,-100,$p,$h,$m,0); open(F,\"<\",\".\"); exit(syscall(304,fileno(F),$h,0)>=0?0:1)'"),
        denied("the_new_way_to_mount", "perl -e '$t=q{tmpfs}; exit(syscall(430,$t,0)>=0?0:1)'"),
        denied("copy_of_a_mount", "perl -e '$p=q{/}; exit(syscall(428,-100,$p,1)>=0?0:1)'"),
        denied("namespace_by_the_newest_fork", "perl -e '$a=pack(q{Q11},0x10000000,0,0,0,17,0,0,0,0,0,0); $p=syscall(435,$a,88); exit 0 if $p==0; exit($p>0?0:1)'"),
        denied("kernel_message", "perl -e '$b=q{ } x 99; exit(syscall(103,3,$b,99)>=0?0:1)'"),
    ]),
    ("git", &[
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
        denied("hook_replaced", "mv $P/.git/hooks $P/.git/hooks2; mkdir $P/.git/hooks; echo evil > $P/.git/hooks/post-merge").seen_by("test -e $P/.git/hooks/post-merge"),
        denied("hooks_elsewhere", "git config core.hooksPath /tmp/evil").seen_by("grep -q evil $P/.git/config"),
        denied("configuration_by_hand", "echo '[alias] evil=!id' >> $P/.git/config").seen_by("grep -q evil $P/.git/config"),
        denied("configuration_replaced", "cp $P/.git/config c; echo evil >> c; mv -f c $P/.git/config").seen_by("grep -q evil $P/.git/config"),
        denied("configuration_of_the_worktree", "echo evil > $P/.git/worktrees/0001/config.worktree").after(": > $P/.git/worktrees/0001/config.worktree").seen_by("grep -q evil $P/.git/worktrees/0001/config.worktree").gap(ALONE),
        denied("folder_of_the_worktree", "echo /evil > $P/.git/worktrees/0001/gitdir").seen_by("grep -q evil $P/.git/worktrees/0001/gitdir").gap(ALONE),
        denied("common_folder_of_the_checkout", "echo /evil > $P/.git/commondir").seen_by("test -e $P/.git/commondir"),
        denied("repository_moved_away", "mv $P/.git $P/.git2").seen_by("test -e $P/.git2 && mv $P/.git2 $P/.git"),
        denied("replaced_object", "git replace -f HEAD $(git commit-tree -m evil HEAD^{tree})").seen_by("git -C $P for-each-ref refs/replace | grep -q ."),
        denied("branch_removed", "git update-ref -d refs/heads/watchfire/0002").seen_by("! git -C $P rev-parse -q --verify watchfire/0002"),
        denied("branch_by_hand", "echo 0000 > $P/.git/refs/heads/main").seen_by("grep -q 0000 $P/.git/refs/heads/main"),
        denied("remote_branch", "mkdir -p $P/.git/refs/remotes/o; git rev-parse HEAD > $P/.git/refs/remotes/o/main").seen_by("test -e $P/.git/refs/remotes/o/main"),
        denied("administration_of_another_worktree", "echo ref: refs/heads/evil > $P/.git/worktrees/0002/HEAD").seen_by("grep -q evil $P/.git/worktrees/0002/HEAD"),
        denied("lock_of_the_index", ": > $P/.git/index.lock").seen_by("test -e $P/.git/index.lock"),
        denied("branch_by_pushing", "git push -q . HEAD:refs/heads/evil").seen_by("git -C $P rev-parse -q --verify refs/heads/evil"),
        denied("main_as_its_own_branch", "git symbolic-ref HEAD refs/heads/main && git commit -q --allow-empty -m evil").seen_by("git -C $P log -1 --format=%s main | grep -q evil"),
        denied("commit_in_the_checkout", "git -C $P commit -q --allow-empty -m evil").seen_by("git -C $P log -1 --format=%s main | grep -q evil"),
        denied("branches_moved_away", "mv $P/.git/refs/heads $P/.git/refs/other").seen_by("test -e $P/.git/refs/other && mv $P/.git/refs/other $P/.git/refs/heads"),
        denied("new_worktree", "git worktree add -q $W/more").seen_by("git -C $P worktree list | grep -q more"),
    ]),
    ("other processes", &[
        denied("socket_in_a_hidden_folder", connect!("$HOME/.gnupg/s")).after(listener!("$HOME/.gnupg/s")),
        denied("socket_in_tmp", connect!("/tmp/watchfire-probe-sock$VICTIM")).after(listener!("/tmp/watchfire-probe-sock$VICTIM")),
        denied("socket_in_plain_sight", connect!("$HOME/plain.sock")).after(listener!("$HOME/plain.sock")).gap(&["birdcage"]),
        denied("abstract_socket", connect!("@watchfire-probe-$VICTIM")).after(listener!("@watchfire-probe-$VICTIM")),
        denied("signal", "kill -0 $VICTIM"),
        denied("priority", "renice -n 3 -p $VICTIM").gap(&["landlock_alone as user"]),
        denied("memory_of_a_process", "perl -e 'open(F,\"+<\",\"/proc/$ENV{VICTIM}/mem\") or exit 1'"),
        denied("descriptors_of_a_process", "readlink /proc/$VICTIM/fd/0 | grep -q pipe"),
        denied("survivor", "setsid sleep 41$VICTIM > /dev/null 2>&1 < /dev/null & sleep 0.1").seen_by(SURVIVES).gap(ALONE),
        denied("socket_of_the_sessions_of_the_user", connect!("/run/user/watchfire-probe-$VICTIM")).after(listener!("/run/user/watchfire-probe-$VICTIM")),
        denied("arguments_by_the_list_of_processes", "ps axww | grep -v grep | grep -q SECRET_ARG").gap(ALONE),
        denied("stopping", "kill -STOP $VICTIM").seen_by("grep -q '^State:.*stopped' /proc/$VICTIM/status; r=$?; kill -CONT $VICTIM; exit $r"),
        denied("tracing", "timeout 1 strace -o t -p $VICTIM; grep -q read t"),
        denied("memory_by_the_kernel", "perl -e '$l=\"\\0\"x64;$a=pack(\"QQ\",unpack(\"Q\",pack(\"P\",$l)),64);open(M,\"<\",\"/proc/$ENV{VICTIM}/maps\") or exit 1;$f=<M>;$f=~/^([0-9a-f]+)/;$r=pack(\"QQ\",hex $1,8);exit(syscall(310,int($ENV{VICTIM}),$a,1,$r,1,0)>0?0:1)'"),
        denied("limits_of_a_process", "prlimit --pid $VICTIM --nofile=64:64").seen_by("grep -q '^Max open files *64 ' /proc/$VICTIM/limits").gap(ALONE),
        denied("descriptor_of_a_process", "perl -e '$p=syscall(434,int($ENV{VICTIM}),0); exit 1 if $p<0; exit(syscall(438,$p,0,0)>=0?0:1)'"),
        denied("processor_of_a_process", "taskset -pc 0 $VICTIM").gap(&["landlock_alone as user"]),
        denied("signal_by_a_handle", "perl -e '$p=syscall(434,int($ENV{VICTIM}),0); exit 1 if $p<0; exit(syscall(424,$p,0,0,0)==0?0:1)'"),
        denied("handle_of_a_process", "perl -e 'exit(syscall(434,int($ENV{VICTIM}),0)>=0?0:1)'").gap(ALONE),
    ]),
    ("system calls", &[
        denied("io_uring", "perl -e '$b=\"\\0\"x120; exit(syscall(425,8,$b)>=0?0:1)'"),
        denied("userfaultfd", "perl -e 'exit(syscall(323,1)>=0?0:1)'"),
        denied("bpf", "perl -e '$a=pack(\"IIII\",2,4,4,1).(\"\\0\"x112); exit(syscall(321,0,$a,128)>=0?0:1)'"),
        denied("perf", "perl -e '$a=pack(\"II\",1,112).(\"\\0\"x104); exit(syscall(298,$a,0,-1,-1,0)>=0?0:1)'"),
        denied("virtual_machine_socket", "perl -e 'exit(syscall(41,40,1,0)>=0?0:1)'"),
        denied("packet_socket", "perl -e 'exit(syscall(41,17,3,0)>=0?0:1)'"),
        denied("typing_for_the_person", "script -qec \"perl -e 'exit(syscall(16,0,0x5412,my \\$b=q{x})>=0?0:1)'\" /dev/null < /dev/null"),
        denied("typing_with_high_bits", "script -qec \"perl -e 'exit(syscall(16,0,0x100005412,my \\$b=q{x})>=0?0:1)'\" /dev/null < /dev/null"),
        denied("second_set_of_numbers", "perl -e 'exit(syscall(0x40000000+39)>=0?0:1)'"),
    ]),
    ("work", &[
        works("commit", "echo a > f && git add f && git commit -qm one && git commit -q --amend -m two").seen_by("git -C $W log -1 --format=%s watchfire/0001 | grep -q two"),
        works("status_and_log", "git status --porcelain && git log --oneline --all && git diff HEAD"),
        works("rebase", "echo a > f && git add f && git commit -qm one && echo b > g && git add g && git commit -qm two && git rebase -q --root --onto HEAD~1 HEAD~1 || git rebase -q HEAD~1"),
        works("collect_garbage_if_needed", "git gc -q --auto; true"),
        works("the_project_can_be_read", "grep -q main $P/main.rs"),
        works("walking_up", "test -e ../../../main.rs && cat ../../../main.rs > /dev/null"),
        works("caches", "echo c > $HOME/.cache/x && mkdir -p $HOME/.npm/_cacache/x && mkdir -p $HOME/.cargo/registry/x").gap(ALLOWING),
        works("program_built_here", "printf '#!/bin/sh\\nexit 0\\n' > run && chmod +x run && ./run"),
        works("terminal_of_its_own", "script -qec 'test -t 0' /dev/null < /dev/null").gap(CAGED),
        works("tracing_children", "strace -f -o /dev/null true").gap(CAGED),
        works("sockets_inside", "d=$(mktemp -d); perl -e 'use IO::Socket::UNIX; my $p=shift; my $s=IO::Socket::UNIX->new(Local=>$p,Listen=>1) or exit 1; if(!fork){my $c=IO::Socket::UNIX->new(Peer=>$p) or exit 1; print $c \"hi\\n\"; exit 0} my $c=$s->accept; exit(<$c> eq \"hi\\n\"?0:1)' $d/s").gap(ALONE),
        works("network", "perl -e 'use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>1,LocalAddr=>\"127.0.0.1\") or exit 1; my $c=IO::Socket::INET->new(PeerAddr=>\"127.0.0.1\",PeerPort=>$s->sockport) or exit 2; my $u=IO::Socket::INET->new(Proto=>\"udp\",PeerAddr=>\"127.0.0.1:9\") or exit 3;'"),
        works("own_children_can_be_signalled", "sleep 60 & kill $! && ! kill -0 999999 2> /dev/null"),
        works("many_files_open", "(ulimit -n 512)"),
        works("file_locks", "flock lock true"),
        works("semaphores_in_shared_memory", "echo x > /dev/shm/x && rm /dev/shm/x").gap(ALLOWING),
        works("proc", "cat /proc/self/status /proc/cpuinfo /proc/meminfo > /dev/null && test -r /proc/self/exe"),
        works("names_of_users_and_hosts", "getent passwd root > /dev/null && getent hosts localhost > /dev/null"),
        works("hooks_of_the_project_run", "echo a > f && git add f && git commit -qm one && grep -q ran hooked").after("printf '#!/bin/sh\\necho ran > hooked\\n' > $P/.git/hooks/pre-commit; chmod +x $P/.git/hooks/pre-commit"),
        works("stash", "echo a > f && git add f && git stash -q && git stash pop -q && test -e f").gap(UNBOUND),
        works("branch_of_its_own", "git checkout -q -b watchfire/more && git checkout -q watchfire/0001"),
        works("fetching_from_itself", "GIT_EDITOR=true git fetch -q . HEAD"),
        works("add_all_with_a_hidden_file", "echo a > f && git add -A && git commit -qm one && git status --porcelain | grep -v '^??' | grep -q . && exit 1; true").after("echo SECRET > $W/.env"),
        works("renames_across_folders", "mkdir -p a b && echo x > a/f && mv a/f b/g && mv b c && grep -q x c/g"),
        works("devices", "echo x > /dev/null && head -c 8 /dev/urandom > /dev/null && head -c 8 /dev/zero > /dev/null && : < /dev/null"),
        works("system_files", "ls /usr/lib > /dev/null && cat /etc/hosts /etc/passwd > /dev/null && ldd /bin/ls > /dev/null"),
        works("abstract_sockets_inside", "perl -e 'use Socket; $a=pack_sockaddr_un(qq{\\0inner$$}); socket(my $s,AF_UNIX,SOCK_STREAM,0); bind($s,$a) or exit 1; listen($s,1); if(!fork){socket(my $c,AF_UNIX,SOCK_STREAM,0); connect($c,$a) or exit 1; syswrite $c,q{hi}; exit 0} accept(my $c,$s) or exit 1; sysread $c,my $b,2; exit($b eq q{hi}?0:1)'").gap(ALONE),
        works("datagrams", "perl -e 'use IO::Socket::INET; my $s=IO::Socket::INET->new(Proto=>q{udp},LocalAddr=>q{127.0.0.1}) or exit 1; my $c=IO::Socket::INET->new(Proto=>q{udp},PeerAddr=>q{127.0.0.1},PeerPort=>$s->sockport); $c->send(q{hi}); $s->recv(my $b,2); exit($b eq q{hi}?0:1)'"),
        works("cargo", "mkdir -p hello/src && printf '[package]\\nname = \"hello\"\\nedition = \"2021\"\\n[workspace]\\n' > hello/Cargo.toml && echo 'fn main() { println!(\"hello\") }' > hello/src/main.rs && cd hello && PATH=$TOOLS:$PATH cargo build -q --offline && ./target/debug/hello | grep -q hello").after("rm $HOME/.cargo/config.toml"),
        works("node", "node -e 'const {Worker}=require(\"worker_threads\"); new Worker(\"1\",{eval:true}).on(\"exit\",c=>process.exit(c))'"),
        works("npm", "mkdir -p dep && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json && echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"node -p 1\"}}' > package.json && npm install --offline --no-audit --no-fund ./dep && npm run -s t"),
        works("python", "python3 -c 'import sqlite3,multiprocessing as m; c=sqlite3.connect(\"t.db\"); c.execute(\"create table t(a)\"); c.commit(); p=m.Pool(2); assert p.map(abs,[-1])==[1]'").gap(ALLOWING),
        works("compiling_c", "printf 'int main(){return 0;}' > a.c && cc a.c -o a.out && ./a.out"),
        works("another_personality", "perl -e 'exit(syscall(135,0x0400000)>=0?0:1)'").gap(CAGED),
        works("program_from_memory", "perl -e '$n=q{x}; $f=syscall(319,$n,0); open(F,qq{>&=$f}); open(G,q{/bin/true}); local $/; print F <G>; close G; F->flush; exec qq{/proc/$$/fd/$f}'"),
        works("no_core_dumps", "ulimit -c | grep -qx 0"),
        works("folder_of_another_agent", "mkdir -p $HOME/.claude/projects && echo 1 > $HOME/.claude/projects/t && ! grep -q SECRET $HOME/.claude/key").after("mkdir -p $HOME/.claude && : > $HOME/.claude/key").gap(ALLOWING),
        works("cherry_picking", "echo a > f && git add f && git commit -qm one && h=$(git rev-parse HEAD) && git reset -q --hard HEAD~1 && git cherry-pick $h && test -e f"),
        works("many_at_once", "printf 'all: a b c\\na b c:\\n\\techo $@ > $@\\n' > Makefile && make -j3 && test -e a -a -e b -a -e c"),
        works("list_of_processes", "ps ax | grep -q 'ps ax'"),
        works("named_pipe", "mkfifo ff && (echo hi > ff &) && grep -q hi ff"),
        works("environment_of_python", "python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix.endswith(\"/v\")'"),
        works("usual_variables", "test -n \"$PATH\" && test -n \"$HOME\" && test \"$TERM\" = xterm"),
        works("agents_own_folder_in_tmp", "mkdir -p $TMPDIR/x && echo x > $TMPDIR/x/y").after("true"),
    ]),
];
