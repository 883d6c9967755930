//! What depends on the machine: a sandbox that works, a person who is not root, a disk that can be filled.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Arguments;
use support::{World, no_sandbox, trial};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("a_sandboxed_run", no_sandbox(), a_sandboxed_run),
        trial(
            "a_sandboxed_run_where_sandboxes_have_their_own",
            no_namespaces(),
            where_sandboxes_have_their_own,
        ),
        trial("an_agent_with_a_git_of_its_own", no_namespaces(), an_agent_with_a_git_of_its_own),
        trial("an_agent_whose_folder_leads_to_a_git_of_its_own", no_step(), whose_folder_leads_to_it),
        trial("a_read_only_project", is_root(), a_read_only_project),
        trial("a_full_disk", no_small_disk(), a_full_disk),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn no_namespaces() -> Option<String> {
    let world = World::new();
    let report = world.run(world.folder.path(), ["doctor", "--json"]).json();
    let works = report["sandboxes"].as_array()?.iter().any(|sandbox| {
        let mut mechanisms = sandbox["mechanisms"].as_array().into_iter().flatten();
        mechanisms.any(|found| found["name"] == "namespaces" && found["available"] == true)
    });
    (!works).then(|| "no namespaces on this machine".to_owned())
}

/// Returns a command for the program where it can make no namespaces.
fn without_namespaces(world: &World, at: &Path, args: &[&str]) -> Command {
    let mut unshare = world.command_of("unshare".as_ref(), at, ["--user", "--map-root-user", "sh", "-c"]);
    unshare.arg(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"",
    );
    unshare.arg("sh").arg(support::program()).args(args);
    unshare
}

/// Returns why there is no step of the ladder without namespaces here.
fn no_step() -> Option<String> {
    let world = World::new();
    let said = without_namespaces(&world, world.folder.path(), &["doctor", "--json"]).output().ok()?;
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let first = report["sandboxes"].as_array().and_then(|all| all.iter().find(|it| it["available"] == true));
    let works = first.is_some_and(|sandbox| sandbox["step"] == "without namespaces");
    (!works).then(|| "this machine cannot take namespaces away, or confines nothing without them".to_owned())
}

fn is_root() -> Option<String> {
    rustix::process::geteuid().is_root().then(|| "root writes everywhere".to_owned())
}

fn no_small_disk() -> Option<String> {
    let world = World::new();
    let done = small_disk(world.folder.path(), "true").output();
    let works = done.is_ok_and(|done| done.status.success());
    (!works).then(|| "no file system can be mounted in a namespace here".to_owned())
}

/// A command of the shell, with a file system of one megabyte at `folder`.
fn small_disk(folder: &Path, command: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!("mount -t tmpfs -o size=1m tmpfs \"$1\" && {command}"))
        .args([std::ffi::OsStr::new("sh"), folder.as_os_str(), support::program().as_ref()])
        .stdin(Stdio::null());
    unshare
}

/// What git does for an agent, and what it does not; each line is a name and a command.
const GIT: &str = "\
yes status    git status --porcelain
yes add       echo 1 > x && git add -A
yes commit    git commit -qm one
yes amend     git commit -q --amend -m amended
yes stash     echo 2 > x && git stash -q && git stash pop -q
yes again     git commit -qam two
yes rebase    git rebase -q --force-rebase HEAD~1
yes branch    git branch watchfire/0001-other && git branch -D watchfire/0001-other
yes gc        git gc -q --auto && git gc -q
yes fetch     git fetch -q . HEAD
yes repack    git repack -q -a -d -l; git pack-refs --all; git rev-parse -q --verify HEAD
no  secret    cat .env
yes clean     git status --porcelain && test -z \"$(git status --porcelain)\"
no  config    git config core.fsmonitor evil
no  hook      echo > $C/hooks/post-merge
no  head      echo 'ref: refs/heads/other' > $C/HEAD
yes main      git update-ref refs/heads/main HEAD
yes mine      git branch mine
yes tag       git tag mine
yes notes     git notes add -m noted
yes rescue    git update-ref refs/watchfire/rescue/0001/1 HEAD
yes feature   git checkout -q -b feature
no  pointer   echo gitdir: /evil > .git
no  replaced  rm -f .git && mkdir .git
no  commondir echo /evil > $(git rev-parse --git-dir)/commondir
no  alternate echo /evil > $C/objects/info/alternates
no  records   ls $C/watchfire/work
no  objects   echo > $C/watchfire/private/0001/shared/xx
";

/// Inside, git works and the person's repository cannot be touched; outside, it is whole all the time.
fn an_agent_with_a_git_of_its_own() {
    let world = World::for_sandboxes();
    let root = world.project("project", "");
    fs::write(root.join(".env"), "SECRET=1\n").unwrap();
    fs::write(
        root.join("try.sh"),
        "C=$(git rev-parse --git-common-dir)\nexport C\nwhile read -r wanted name command; do\n\
         if sh -c \"$command\" > /tmp/out 2>&1 < /dev/null; then got=yes; else got=no; fi\n\
         test $got = $wanted && ! grep -i 'read-only.*packed' /tmp/out && continue\n\
         echo \"$name: $got\" >> wrong.txt; cat /tmp/out >> wrong.txt\ndone < git.txt\n",
    )
    .unwrap();
    fs::write(root.join("git.txt"), GIT).unwrap();
    world.git(&root, &["add", ".env", "try.sh", "git.txt"]);
    world.git(&root, &["commit", "-qm", "a secret, and what to try"]);
    world.git(&root, &["pack-refs", "--all"]);
    let main = world.git(&root, &["rev-parse", "main"]);

    world.task(
        &root,
        "Try everything",
        "run sh try.sh\nrun touch tried\nwait go 60\nrun rm go tried\nrun git commit -q --allow-empty -m three\ndone\nexit 0",
    );
    let mut run = world.start(&root, ["run", "all"]);
    run.wait_for("#0001 Try everything: running");
    let folder = root.join(".watchfire/worktrees/0001");
    support::until("everything was tried", || folder.join("tried").exists());
    world.git(&root, &["fsck", "--no-dangling"]);
    world.git(&root, &["gc", "-q", "--prune=now"]);
    assert_eq!(world.git(&root, &["rev-parse", "watchfire/0001"]), main, "nothing has arrived yet");
    world.git(&root, &["log", "--all", "--stat"]);
    fs::write(folder.join("go"), "").unwrap();

    let said = run.end().good();
    assert!(said.stdout.contains("1 merged"), "{}", said.stdout);
    let wrong = root.join("wrong.txt");
    assert!(!wrong.exists(), "{}", fs::read_to_string(wrong).unwrap());
    assert_eq!(world.git(&root, &["log", "--format=%s", "main^1..main^2"]), "three\ntwo\namended\n");
    assert_eq!(world.git(&root, &["diff", "--name-only", "main^1", "main"]), "x\n");
    let left = world.git(&root, &["for-each-ref", "--format=%(subject)", "refs/watchfire/left/0001/*"]);
    // A rebase in the same second makes the same commits.
    assert!(
        ["one\n", "one\ntwo\n", "two\none\n"].contains(&left.as_str()),
        "what the agent took back: {left:?}"
    );
    let kept =
        world.git(&root, &["for-each-ref", "--format=%(refname:lstrip=4)", "refs/watchfire/left/0001/*/**"]);
    assert_eq!(kept, "notes/commits\ntags/mine\nwatchfire/rescue/0001/1\n");
    assert_eq!(world.git(&root, &["branch", "--list", "mine", "feature"]), "");
    assert_eq!(fs::read_to_string(root.join(".env")).unwrap(), "SECRET=1\n");
    world.git(&root, &["fsck", "--no-dangling"]);
}

/// Commands of git that work where nothing can be shown at another place, and writes to the person's repository that fail.
const LINKED: &str = "\
yes status    git status --porcelain
yes commit    echo 1 > x && git add -A && git commit -qm one
yes amend     git commit -q --amend -m amended
yes stash     echo 2 > x && git stash -q && git stash pop -q
yes again     git commit -qam two
yes rebase    git rebase -q --force-rebase HEAD~1
yes branch    git branch mine && git branch -D mine
yes gc        git gc -q && git pack-refs --all
yes config    git config user.signingkey mine
yes tag       git tag mine
no  main      echo > $P/refs/heads/main
no  objects   echo > $P/objects/xx
no  hook      echo > $P/hooks/post-merge
no  settings  echo >> $P/config
no  records   ls $P/watchfire
";

/// The person's repository is out of reach also where the sandbox can only open what lies at its place.
fn whose_folder_leads_to_it() {
    let world = World::for_sandboxes();
    let root = world.project("project", "");
    fs::write(world.path("watchfire-home/settings.yaml"), "version: 1\nsandbox:\n  step_down: allow\n")
        .unwrap();
    fs::write(
        root.join("try.sh"),
        format!(
            "P='{}'\nexport P\nwhile read -r wanted name command; do\n\
             if sh -c \"$command\" > $TMPDIR/out 2>&1 < /dev/null; then got=yes; else got=no; fi\n\
             test $got = $wanted || {{ echo \"$name: $got\"; cat $TMPDIR/out; }} >> wrong.txt\ndone < git.txt\n",
            root.join(".git").display()
        ),
    )
    .unwrap();
    fs::write(root.join("git.txt"), LINKED).unwrap();
    world.git(&root, &["add", "."]);
    world.git(&root, &["commit", "-qm", "what to try"]);
    world.task(&root, "Try everything", "run sh try.sh\ndone\nexit 0");
    let said = without_namespaces(&world, &root, &["run", "all"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(
        said.status.success() && text.contains("1 merged"),
        "{text}{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let wrong = root.join("wrong.txt");
    assert!(!wrong.exists(), "{}", fs::read_to_string(wrong).unwrap());
    assert_eq!(world.git(&root, &["log", "--format=%s", "main^1..main^2"]), "two\namended\n");
    let kept =
        world.git(&root, &["for-each-ref", "--format=%(refname:lstrip=4)", "refs/watchfire/left/0001/*/**"]);
    assert_eq!(kept, "tags/mine\n");
    assert!(!world.git(&root, &["config", "--list"]).contains("signingkey"));
    world.git(&root, &["fsck", "--no-dangling"]);
}

/// The whole way with the sandbox that every run gets, and with what it must keep from the agent.
fn a_sandboxed_run() {
    a_sandboxed_run_in(&World::for_sandboxes());
}

/// Every session has folders of its own at these places; the project and the home show in them all the same.
fn where_sandboxes_have_their_own() {
    for parent in ["/tmp", "/var/tmp", "/dev/shm"] {
        a_sandboxed_run_in(&World::below(parent.as_ref()));
    }
}

fn a_sandboxed_run_in(world: &World) {
    fs::create_dir_all(world.home.join(".ssh")).unwrap();
    fs::write(world.home.join(".ssh/id_x"), "secret").unwrap();
    let root = world.project("project", "verify: ['test -f out.txt']");
    let script = "run cat ~/.ssh/id_x > out.txt 2>&1 || echo refused >> out.txt\n\
                  run touch ~/planted && echo planted >> out.txt\ncommit out\ndone\nexit 0";
    world.task(&root, "Look", script);
    let said = world.run(&root, ["run", "all"]).good();
    assert!(said.stdout.contains("1 merged"), "{}", said.stdout);
    let out = world.git(&root, &["show", "HEAD:out.txt"]);
    // Its home is a folder of its own, which it may write and which goes with it.
    assert!(!out.contains("secret") && out.contains("refused\nplanted\n"), "{out}");
    assert!(!world.home.join("planted").exists());
    world.git(&root, &["fsck"]);
}

fn a_read_only_project() {
    let world = World::new();
    let root = world.project("project", "");
    let tasks = root.join(".watchfire/tasks");
    fs::set_permissions(&tasks, fs::Permissions::from_mode(0o555)).unwrap();
    let error = world.run(&root, ["task", "add", "--title", "x", "--json"]).code(1).json_error();
    fs::set_permissions(&tasks, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(error["code"], "permission_denied");
}

/// A task that cannot be written is an error that says so, and the ones before it are whole.
fn a_full_disk() {
    let world = World::new();
    let folder = world.empty("disk");
    let script = r#"cd "$1" && export HOME="$1" WATCHFIRE_HOME="$1/home" && "$2" init --yes --force >/dev/null &&
        "$2" task add --title Before >/dev/null && dd if=/dev/zero of=full bs=4k 2>/dev/null;
        "$2" task add --title After --json; code=$?; rm full; "$2" task list --json && exit $code"#;
    let done = small_disk(&folder, script).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("out_of_space"), "{stderr}");
    let list: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let titles: Vec<_> = list["tasks"].as_array().unwrap().iter().map(|task| task["title"].clone()).collect();
    assert_eq!((titles, &list["malformed"]), (vec!["Before".into()], &serde_json::json!([])));
}
