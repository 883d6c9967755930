//! A task that works in several repositories, as its person has it.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Arguments;
use support::{World, no_sandbox, trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("from_a_list_of_repositories_to_merged", None, from_a_list_of_repositories_to_merged),
        trial("what_holds_one_repository_holds_all", None, what_holds_one_repository_holds_all),
        trial("an_undo_takes_back_all_of_it", None, an_undo_takes_back_all_of_it),
        trial("only_what_the_settings_allow", None, only_what_the_settings_allow),
        trial("in_a_sandbox", no_sandbox(), in_a_sandbox),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// A project that names `lib`, which lies beside it, and a person who allows that.
fn project(world: &World, more: &str) -> (PathBuf, PathBuf) {
    let lib = world.repo("lib");
    let root = world.project("project", &format!("repositories: [../lib]\n{more}"));
    allow(world, &root, &lib);
    (root, lib)
}

fn allow(world: &World, root: &Path, repository: &Path) {
    let list = format!("[{:?}]", repository.display().to_string());
    world.run(root, ["settings", "--global", "git.repositories", &list]).good();
}

const BOTH: &str =
    "write app.txt app\nrun cp app.txt ../lib/lib.txt\nrun rm ../lib/b.txt\ncommit x\ndone\nexit 0";

fn from_a_list_of_repositories_to_merged() {
    let world = World::new();
    let (root, lib) = project(&world, "verify: ['cmp app.txt ../lib/lib.txt', '! test -e ../lib/b.txt']");
    world.task(&root, "Both", BOTH);
    let said = world.run(&root, ["run", "all", "--no-sandbox", "--no-merge"]).good();
    assert!(said.stdout.contains("kept on its branch"), "{}", said.stdout);

    let diff = world.run(&root, ["diff", "1"]).good().stdout;
    assert!(
        diff.contains("added app.txt") && diff.contains("in ../lib:\n") && diff.contains("deleted b.txt"),
        "{diff}"
    );
    let diff = world.run(&root, ["diff", "1", "--json"]).good().json();
    assert_eq!(diff["others"][0]["repository"], "../lib");
    assert_eq!(diff["others"][0]["diff"]["total_files"], 2);
    let branches = world.run(&root, ["branches"]).good().stdout;
    assert!(branches.contains("in ../lib: watchfire/0001@project-"), "{branches}");
    let shown = world.run(&root, ["task", "show", "1"]).good().stdout;
    assert!(shown.contains("in ../lib"), "{shown}");
    assert_eq!(world.git(&lib, &["log", "--format=%s", "main"]), "first\n");

    let merged = world.run(&root, ["branches", "merge", "1"]).good().stdout;
    assert!(merged.contains("#0001 merged"), "{merged}");
    for (repository, file) in [(&root, "app.txt"), (&lib, "lib.txt")] {
        assert_eq!(fs::read_to_string(repository.join(file)).unwrap(), "app");
        assert_eq!(world.git(repository, &["status", "--porcelain"]), "");
        assert_eq!(world.git(repository, &["branch", "--list", "watchfire/*"]), "");
        assert!(
            world
                .git(repository, &["log", "-1", "--format=%s", "main"])
                .starts_with("Merge watchfire/0001: Both")
        );
    }
    assert!(!lib.join(".watchfire").exists());
    assert_eq!(world.states(&root), [(1, "merged".to_owned())]);
    let diff = world.run(&root, ["diff", "1"]).good().stdout;
    assert!(diff.contains("added app.txt") && diff.contains("added lib.txt"), "{diff}");

    // Nothing of it is in the project itself.
    world.task(&root, "Elsewhere", "run touch ../lib/alone.txt\ndone\nexit 0");
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(0);
    assert!(said.stdout.contains("#0002 Elsewhere: merged"), "{}", said.stdout);
    assert!(lib.join("alone.txt").exists());
}

fn what_holds_one_repository_holds_all() {
    let world = World::new();
    let (root, lib) = project(&world, "");
    world.task(&root, "Both", BOTH);
    fs::write(lib.join("b.txt"), "mine\n").unwrap();
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3);
    assert!(
        said.stdout.contains("local edits are in the way in") && said.stdout.contains("lib: b.txt"),
        "{}",
        said.stdout
    );
    assert!(!root.join("app.txt").exists(), "one without the other");
    world.git(&lib, &["checkout", "-q", "b.txt"]);
    // Taken off the list meanwhile, it is not waited for, and the reason is the true one.
    let file = root.join(".watchfire/project.yaml");
    let listed = fs::read_to_string(&file).unwrap();
    fs::write(&file, listed.replace("repositories: [../lib]\n", "")).unwrap();
    let said = world.run(&root, ["run", "all", "--no-sandbox"]).code(3).stdout;
    assert!(said.contains("back into `repositories`"), "{said}");
    let said = world.run(&root, ["branches", "merge", "1"]).code(3).stdout;
    assert!(said.contains("back into `repositories`"), "{said}");
    fs::write(&file, listed).unwrap();
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert!(root.join("app.txt").exists() && lib.join("lib.txt").exists() && !lib.join("b.txt").exists());
}

fn an_undo_takes_back_all_of_it() {
    let world = World::new();
    let (root, lib) = project(&world, "verify: ['test -e ../lib']");
    world.task(&root, "Both", BOTH);
    world.task(&root, "Elsewhere", "run touch ../lib/alone.txt\ndone\nexit 0");
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    let shown = world.run(&root, ["task", "show", "2"]).good().stdout;
    assert!(shown.contains("merged as") && shown.contains(" in ../lib"), "{shown}");
    // Held in one repository, held in all.
    fs::write(lib.join("lib.txt"), "mine\n").unwrap();
    let held = world.run(&root, ["undo", "1"]).code(3).stdout;
    assert!(held.contains("local edits are in the way"), "{held}");
    assert!(root.join("app.txt").exists(), "one without the other");
    world.git(&lib, &["checkout", "-q", "lib.txt"]);
    let said = world.run(&root, ["undo", "1"]).good().stdout;
    assert!(said.contains("the last merge of #0001 is taken back by #0003"), "{said}");
    assert!(!root.join("app.txt").exists() && !lib.join("lib.txt").exists());
    assert!(lib.join("b.txt").exists() && lib.join("alone.txt").exists(), "what came later stays");
    // All of its work is in the other repository.
    world.run(&root, ["undo", "2"]).good();
    assert!(!lib.join("alone.txt").exists());
    let list = world.run(&root, ["task", "list"]).good().stdout;
    assert!(list.contains("taken back by #0003") && list.contains("taken back by #0004"), "{list}");
    for repository in [&root, &lib] {
        assert_eq!(world.git(repository, &["status", "--porcelain"]), "");
        assert_eq!(world.git(repository, &["branch", "--list", "watchfire/*"]), "");
        world.git(repository, &["fsck", "--no-dangling"]);
    }

    // Later work on the same places, in either repository, is for an agent.
    world.task(&root, "One", "write one 1\nrun cp one ../lib/b.txt\ndone\nexit 0");
    world.task(&root, "Two", "write two 2\nrun cp two ../lib/b.txt\ndone\nexit 0");
    for task in ["5", "6"] {
        world.run(&root, ["run", task, "--no-sandbox"]).good();
    }
    let said = world.run(&root, ["undo", "5"]).code(3).stdout;
    assert!(said.contains("../lib/b.txt"), "{said}");
    assert!(root.join("one").exists());
    assert_eq!(world.states(&root).last(), Some(&(7, "draft".to_owned())));
}

fn only_what_the_settings_allow() {
    let world = World::new();
    let lib = world.repo("lib");
    let root = world.project("project", "repositories: [../lib]");
    world.task(&root, "Both", BOTH);
    let error = world.run(&root, ["run", "all", "--no-sandbox", "--json"]).code(1).json_error();
    assert_eq!(error["code"], "invalid_input", "{error}");
    let text = error.to_string();
    assert!(text.contains("repositories") && text.contains("git.repositories"), "{text}");
    assert_eq!(world.git(&lib, &["for-each-ref", "refs/watchfire", "refs/heads/watchfire"]), "");
    let doctor = world.run(&root, ["doctor"]).stdout;
    assert!(doctor.contains("git.repositories"), "{doctor}");
    allow(&world, &root, &lib);
    world.run(&root, ["run", "all", "--no-sandbox"]).good();
    assert!(lib.join("lib.txt").exists());

    for (list, says) in [
        ("[../lib, ../lib]", "the same repository"),
        ("[.]", "your settings do not allow this repository"),
        ("[/srv]", "relative to the project"),
    ] {
        let path = root.join(".watchfire/project.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| match line.starts_with("repositories:") {
            true => format!("repositories: {list}\n"),
            false => format!("{line}\n"),
        });
        fs::write(&path, lines.collect::<String>()).unwrap();
        let error = world.run(&root, ["run", "all", "--no-sandbox"]).code(1);
        assert!(error.stderr.contains(says), "{list}: {}", error.stderr);
    }
}

/// The agent writes in both of its folders, commits in both, and sees neither checkout.
fn in_a_sandbox() {
    let world = World::for_sandboxes();
    let (root, lib) =
        project(&world, "verify: ['test -f ../lib/lib.txt && ! cat ../../../../../lib/secret']");
    for repository in [&root, &lib] {
        fs::write(repository.join("secret"), "SECRET=1\n").unwrap();
        fs::write(repository.join(".git/info/exclude"), "secret\n").unwrap();
    }
    let script = format!(
        "write try.sh {:?}\nrun sh try.sh {} {}\nrun rm try.sh\ndone\nexit 0",
        "echo app > app.txt && git add app.txt && git commit -qm app && cd ../lib && echo lib > lib.txt && \
         git add lib.txt && git commit -qm lib && git log --format=%s -1 > said.txt || exit 1; \
         for at in $1 $2; do cat $at/secret && exit 1; touch $at/mine && exit 1; touch $at/.git/mine; done; true",
        root.display(),
        lib.display(),
    );
    world.task(&root, "Both", &script);
    let said = world.run(&root, ["run", "all"]).code(0);
    assert!(said.stdout.contains("1 merged"), "{}", said.stdout);
    assert_eq!(fs::read_to_string(lib.join("said.txt")).unwrap(), "lib\n", "it committed there");
    assert_eq!(world.git(&lib, &["log", "--format=%s", "--grep=^lib$", "main"]), "lib\n");
    assert_eq!(world.git(&root, &["log", "--format=%s", "--grep=^app$", "main"]), "app\n");
    for repository in [&root, &lib] {
        assert!(!repository.join("mine").exists() && !repository.join(".git/mine").exists());
        world.git(repository, &["fsck", "--no-dangling"]);
    }
}
