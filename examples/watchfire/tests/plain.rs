//! A project in a folder without git, as its person has it.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Arguments;
use support::{World, no_sandbox, trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("from_a_folder_to_merged_and_undone", None, from_a_folder_to_merged_and_undone),
        trial("only_for_those_who_ask", None, only_for_those_who_ask),
        trial("a_folder_that_gets_a_repository", None, a_folder_that_gets_a_repository),
        trial("in_a_sandbox", no_sandbox(), in_a_sandbox),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// A folder without git that is a project, with a file, an ignored one and a secret.
fn project(world: &World) -> PathBuf {
    let root = world.empty("letters");
    for (name, content) in [("a.txt", "1\n2\n3\n"), (".gitignore", "drafts/\n"), (".env", "SECRET=1\n")] {
        fs::write(root.join(name), content).unwrap();
    }
    fs::create_dir(root.join("drafts")).unwrap();
    fs::write(root.join("drafts/mine"), "mine\n").unwrap();
    let said = world.run(&root, ["init", "--plain", "--yes"]).good().stdout;
    assert!(said.contains("took a snapshot"), "{said}");
    assert!(!root.join(".git").exists());
    root
}

fn keeps_what_is_mine(root: &Path) {
    assert!(!root.join(".git").exists());
    assert_eq!(fs::read_to_string(root.join(".env")).unwrap(), "SECRET=1\n");
    assert_eq!(fs::read_to_string(root.join("drafts/mine")).unwrap(), "mine\n");
}

fn from_a_folder_to_merged_and_undone() {
    let world = World::new();
    let root = project(&world);
    let script = "run test ! -e .env\nrun test ! -e drafts\nrun sed -i s/3/three/ a.txt\nwrite new.txt new\ndone\nexit 0";
    world.task(&root, "Count", script);
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--no-merge"]).good();
    assert!(said.stdout.contains("kept on its branch"), "{}", said.stdout);
    let diff = world.run(&root, ["diff", "1"]).good().stdout;
    assert!(diff.contains("added new.txt") && diff.contains("+three"), "{diff}");
    let branches = world.run(&root, ["branches"]).good().stdout;
    assert!(branches.contains("watchfire/0001  unmerged  1 ahead of main"), "{branches}");
    // An edit meanwhile, in the same file.
    fs::write(root.join("a.txt"), "one\n2\n3\n").unwrap();
    let merged = world.run(&root, ["branches", "merge", "1"]).good().stdout;
    assert!(merged.contains("#0001 merged"), "{merged}");
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\n2\nthree\n");
    assert_eq!(fs::read_to_string(root.join("new.txt")).unwrap(), "new");
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);

    // Settings change without a repository being made.
    let said = world.run(&root, ["init", "--yes", "--verify", "test -f a.txt"]).good().stdout;
    assert!(said.contains("changed verify"), "{said}");
    let doctor = world.run(&root, ["doctor"]).stdout;
    assert!(doctor.contains("snapshots of it"), "{doctor}");
    world.run(&root, ["backup"]).good();
    world.run(&root, ["sandbox", "report"]).good();

    world.run(&root, ["undo", "1"]).good();
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\n2\n3\n");
    assert!(!root.join("new.txt").exists());
    keeps_what_is_mine(&root);
}

fn only_for_those_who_ask() {
    let world = World::new();
    let root = project(&world);
    world.task(&root, "Any", "write new.txt new\ndone\nexit 0");
    // Another home knows nothing of it, and makes no repository by mistake.
    let mut command = world.command(&root, ["init", "--yes", "--json"]);
    let output = command.env("WATCHFIRE_HOME", world.path("another")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another Watchfire home"), "{said}");
    keeps_what_is_mine(&root);

    let home = world.run(&world.path("home"), ["init", "--plain", "--yes", "--json"]).code(1).json_error();
    assert!(home.to_string().contains("your home folder"), "{home}");
    let inside = world.empty("watchfire-home/inside");
    let error = world.run(&inside, ["init", "--plain", "--yes", "--json"]).code(1).json_error();
    assert!(error.to_string().contains("Watchfire's own folder"), "{error}");
    let repo = world.repo("repo");
    let error = world.run(&repo, ["init", "--plain", "--yes", "--json"]).code(1).json_error();
    assert!(error.to_string().contains("leave out --plain"), "{error}");
    assert!(!repo.join(".watchfire").exists());

    // A project of git whose repository is away.
    let root = world.project("shop", "");
    world.task(&root, "Any", "write new.txt new\ndone\nexit 0");
    fs::rename(root.join(".git"), world.path("away")).unwrap();
    let error = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "not_found", "{error}");
    assert!(error.to_string().contains("init --plain"), "{error}");
    let doctor = world.run(&root, ["doctor"]).stdout;
    assert!(doctor.contains("not a git repository"), "{doctor}");
}

fn a_folder_that_gets_a_repository() {
    let world = World::new();
    let root = project(&world);
    world.task(&root, "Before", "write before.txt before\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox", "--no-merge"]).good();
    world.git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join(".gitignore"), "drafts/\n.watchfire/\n.env\n").unwrap();
    world.git(&root, &["add", "-A"]);
    world.git(&root, &["commit", "-qm", "first"]);
    let said = world.run(&root, ["branches", "merge", "1"]).stdout;
    assert!(said.contains("before the folder had a git repository"), "{said}");
    assert!(!root.join("before.txt").exists());
    world.task(&root, "After", "write after.txt after\ndone\nexit 0");
    world.run(&root, ["run", "2", "--no-sandbox"]).good();
    assert_eq!(fs::read_to_string(root.join("after.txt")).unwrap(), "after");
    world.run(&root, ["task", "draft", "1"]).good();
    let said = world.run(&root, ["branches", "delete", "1", "--discard"]).good().stdout;
    assert!(said.contains("kept as refs/watchfire/rescue/0001/"), "{said}");
}

/// The agent commits with a git of its own, and sees neither the folder nor anything that snapshots leave out.
fn in_a_sandbox() {
    // Not below the folder of the builds, which lies in a repository.
    let world = World::new();
    let root = project(&world);
    let script = format!(
        "write try.sh {:?}\nrun sh try.sh {} {}\nrun rm try.sh\ndone\nexit 0",
        "cat $1/.env $1/a.txt && exit 1; touch $1/mine; ls $2/projects.yaml && exit 1; \
         cat .env && exit 1; ls $(git rev-parse --git-common-dir)/watchfire/lock && exit 1; \
         touch $(git rev-parse --git-common-dir)/refs/heads/main; \
         echo new > new.txt && git add new.txt && git commit -qm inside && git log --format=%s -1 > said.txt",
        root.display(),
        world.path("watchfire-home").display(),
    );
    world.task(&root, "Apart", &script);
    let said = world.run(&root, ["run", "all"]).code(0);
    assert!(said.stdout.contains("1 merged"), "{}", said.stdout);
    assert_eq!(fs::read_to_string(root.join("said.txt")).unwrap(), "inside\n", "it committed there");
    assert_eq!(fs::read_to_string(root.join("new.txt")).unwrap(), "new\n");
    assert!(!root.join("mine").exists());
    keeps_what_is_mine(&root);
}
