//! Chats in the real sandbox: they share the person's files, and nothing of theirs runs outside.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Arguments;
use support::on_terminal::OnTerminal;
use support::sandboxed::{no_sandbox, world};
use support::{trial, until};

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("a_chat_and_its_person_share_the_work", no_sandbox(), a_chat_and_its_person_share_the_work),
        trial("the_person_is_told_at_the_end", no_sandbox(), the_person_is_told_at_the_end),
        trial("a_chat_has_a_folder_of_its_own", no_sandbox(), a_chat_has_a_folder_of_its_own),
        trial("what_a_killed_chat_left_is_captured", no_sandbox(), what_a_killed_chat_left_is_captured),
        trial("nothing_runs_that_a_chat_planted", no_sandbox(), nothing_runs_that_a_chat_planted),
        trial(
            "a_chat_does_not_change_what_is_protected",
            no_sandbox(),
            a_chat_does_not_change_what_is_protected,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// What either commits is the other's within a second, and the last of it also after a kill.
fn a_chat_and_its_person_share_the_work() {
    let (world, root) = world("done\nexit 0");
    let script = "run echo a > a; git add a; git commit -qm theirs
run while test \"$(git log -1 --format=%s)\" != mine; do sleep 0.05; done
run echo b > b; git add b; git commit -qm last
say committed
hang";
    fs::write(root.join("script"), script).unwrap();
    let path = root.join("script");
    let variables = [("WATCHFIRE_SCRIPT", path.to_str().unwrap())];
    let mut chat = OnTerminal::start(&world, &root, &["chat", "--agent", "scripted"], &variables);
    let newest = || world.git(&root, &["log", "-1", "--format=%s"]).trim().to_owned();
    until("the chat's commit arrives", || newest() == "theirs");
    assert!(!world.git(&root, &["status", "--porcelain"]).contains(" a\n"));
    fs::write(root.join("c"), "c").unwrap();
    world.git(&root, &["add", "c"]);
    world.git(&root, &["commit", "-qm", "mine"]);
    chat.wait_for("committed");
    chat.child.kill().unwrap();
    chat.child.wait().unwrap();
    // The next program on the project carries over what was left.
    let private = root.join(".git/watchfire/private");
    let left = || {
        let mut entries = fs::read_dir(&private).unwrap().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("guest-"))
    };
    until("what was left is carried over", || {
        world.run(&root, ["run", "1"]);
        newest() == "last" && !left()
    });
    world.git(&root, &["fsck"]);
}

/// With `--worktree` it sees and changes nothing of the checkout, goes on where it was, and begins again once its work is merged.
fn a_chat_has_a_folder_of_its_own() {
    let (world, root) = world("done\nexit 0");
    fs::write(root.join(".git/info/exclude"), "private\n").unwrap();
    fs::write(root.join("private"), "secret").unwrap();
    let before = world.git(&root, &["rev-parse", "main"]);
    let chat = |script: &str| {
        let path = world.path("script");
        fs::write(&path, script).unwrap();
        let variables = [("WATCHFIRE_SCRIPT", path.to_str().unwrap())];
        let args = ["chat", "--worktree", "--agent", "scripted"];
        OnTerminal::start(&world, &root, &args, &variables).end()
    };
    let look = format!("run ! test -e '{}'; echo b > b", root.join("private").display());
    let (painted, code) = chat(&format!("run echo a > a; git add a; git commit -qm theirs\n{look}\nexit 0"));
    let told = "the chat's work is on watchfire/chat (2 commits); to take it: git merge watchfire/chat";
    assert!(painted.contains(told), "{painted}");
    assert_eq!(code, Some(0));
    let subjects = || world.git(&root, &["log", "--format=%s", "main..watchfire/chat"]);
    assert_eq!(subjects(), "Uncommitted work of a chat\ntheirs\n");
    assert_eq!(world.git(&root, &["rev-parse", "main"]), before);
    assert!(!root.join("a").exists() && root.join("private").exists());
    assert_eq!(world.git(&root, &["status", "--porcelain"]), "");

    let (painted, _) = chat("run test -e a && test -e b && git commit -q --allow-empty -m more\nexit 0");
    assert!(painted.contains("(3 commits)"), "{painted}");
    world.git(&root, &["merge", "-q", "--no-ff", "-m", "taken", "watchfire/chat"]);
    fs::write(root.join("c"), "c").unwrap();
    world.git(&root, &["add", "c"]);
    world.git(&root, &["commit", "-qm", "mine"]);
    // It begins at the branch as it is now, and leaves nothing where it has done nothing.
    let (painted, _) = chat("run test -e c\nexit 0");
    assert!(painted.contains("chat ended") && !painted.contains("watchfire/chat"), "{painted}");
    assert_eq!(world.git(&root, &["branch", "--list", "watchfire/chat"]), "");
    world.git(&root, &["fsck"]);
    let logs = world.run(&root, ["logs", "--json"]).good().json();
    let numbers: Vec<_> = logs["logs"].as_array().unwrap().iter().map(|log| &log["number"]).collect();
    assert_eq!(numbers, [3, 2, 1], "each chat has a number of its own: {logs}");
}

/// The next program on the project commits what is in the folder of a chat that was killed.
fn what_a_killed_chat_left_is_captured() {
    let (world, root) = world("done\nexit 0");
    let script = world.path("script");
    fs::write(&script, "run echo a > a\nsay written\nhang").unwrap();
    let variables = [("WATCHFIRE_SCRIPT", script.to_str().unwrap())];
    let args = ["chat", "--worktree", "--agent", "scripted"];
    let mut chat = OnTerminal::start(&world, &root, &args, &variables);
    chat.wait_for("written");
    chat.child.kill().unwrap();
    chat.child.wait().unwrap();
    let said = world.run(&root, ["run", "1"]).good();
    assert!(said.stdout.contains("git merge watchfire/chat"), "{}", said.stdout);
    assert_eq!(world.git(&root, &["show", "watchfire/chat:a"]), "a\n");
    // Begun again, the work is kept elsewhere.
    fs::write(&script, "run ! test -e a\nexit 0").unwrap();
    let (painted, _) =
        OnTerminal::start(&world, &root, &[&args[..], &["--fresh"]].concat(), &variables).end();
    assert!(painted.contains("chat ended"), "{painted}");
    let kept = world.git(&root, &["for-each-ref", "--format=%(refname)", "refs/watchfire/rescue/chat"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
    assert_eq!(world.git(&root, &["show", &format!("{}:a", kept.trim())]), "a\n");
}

/// The screen is the agent's until it ends. Then the person reads what was not carried over, and where it is.
fn the_person_is_told_at_the_end() {
    let (world, root) = world("done\nexit 0");
    let script =
        "run git init -q sub; git -C sub -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
run git add sub; git commit -qm both; echo x > Makefile
exit 0";
    fs::write(root.join("script"), script).unwrap();
    let path = root.join("script");
    let variables = [("WATCHFIRE_SCRIPT", path.to_str().unwrap())];
    let chat = OnTerminal::start(&world, &root, &["chat", "--agent", "scripted"], &variables);
    let (painted, code) = chat.end();
    assert_eq!(code, Some(0), "{painted}");
    for part in [
        "! refs/heads/main of the chat is not taken over (a chat cannot add the submodule sub",
        "refs/watchfire/left/chat/",
        "on their own: Makefile",
    ] {
        assert!(painted.contains(part), "{part}: {painted}");
    }
    assert!(painted.ends_with("chat ended\r\n"), "{painted}");
}

/// Every place where git takes commands from, written by a chat; then what a person's day consists of, while it runs and
/// after it was killed. A canary outside of the project shows what ran.
fn nothing_runs_that_a_chat_planted() {
    const PLANT: &str = r#"
run() { echo "touch '$CANARY/$1'; false"; }
evil() { mkdir -p $1; git init -q $1; git -C $1 -c core.fsmonitor=false -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
  git -C $1 config core.fsmonitor "$(run nested-$2)"; }
evil subm subm; evil src src
git -c core.fsmonitor=false -c core.hooksPath=/dev/null add subm a 2>/dev/null
git -c core.fsmonitor=false -c core.hooksPath=/dev/null commit -qm planted
rm -rf lib/.git; mv lib lib2 2>/dev/null; evil lib lib
git config core.fsmonitor "$(run fsmonitor)"; git config core.pager "$(run pager)"; git config core.editor "$(run editor)"
git config core.sshCommand "$(run ssh)"; git config diff.external "$(run external)"; git config gpg.program "$(run gpg)"
git config filter.x.clean "$(run clean)"; git config filter.x.smudge "$(run smudge)"; git config diff.x.textconv "$(run textconv)"
git config merge.x.driver "$(run driver)"; git config core.hooksPath .planted; git config alias.st "!$(run alias)"
git config include.path ../planted.config; git config extensions.worktreeConfig true; git config submodule.lib.update "!$(run update)"
for hook in pre-commit post-commit post-checkout post-merge post-index-change pre-rebase post-rewrite reference-transaction; do
  for folder in .git/hooks .planted .husky .husky/_; do
    mkdir -p $folder; { echo '#!/bin/sh'; run "hook-$hook"; } > $folder/$hook; chmod +x $folder/$hook
  done
done 2>/dev/null
echo '* filter=x diff=x merge=x' > .gitattributes; mkdir -p .git/info; echo '* filter=x diff=x' > .git/info/attributes
printf '[submodule "lib"]
	path = lib
	url = ./x
	update = !%s
' "$(run modules)" > .gitmodules
echo ../evil > .git/commondir; mkdir -p .git/worktrees/evil; echo "$PWD/src" > .git/worktrees/evil/gitdir
mkdir -p .git/rebase-merge .git/sequencer; echo "exec touch '$CANARY/rebase'" > .git/rebase-merge/git-rebase-todo
echo refs/heads/main > .git/rebase-merge/head-name; git rev-parse HEAD > .git/rebase-merge/onto
echo "exec touch '$CANARY/sequencer'" > .git/sequencer/todo; echo "touch '$CANARY/bisect'" > .git/BISECT_RUN
echo /tmp/evil > .git/objects/info/alternates; ln -sf /tmp .git/refs/heads/link
"#;
    let (world, root) = world("done\nexit 0");
    let canary = world.path("canary");
    fs::create_dir(&canary).unwrap();
    let lib = world.path("libsrc");
    let person = |at: &Path, args: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(at)
            .env("HOME", &world.home);
        command.env("GIT_EDITOR", "true").stdin(std::process::Stdio::null()).output().unwrap()
    };
    fs::create_dir(&lib).unwrap();
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x"],
    ] {
        assert!(person(&lib, args).status.success());
    }
    fs::create_dir_all(root.join(".husky/_")).unwrap();
    fs::write(root.join(".husky/_/pre-commit"), "#!/bin/sh\n").unwrap();
    assert!(person(&root, &["submodule", "add", "-q", lib.to_str().unwrap(), "lib"]).status.success());
    assert!(person(&root, &["config", "core.hooksPath", ".husky/_"]).status.success());
    fs::write(root.join("a"), "one\n").unwrap();
    fs::write(root.join("plant.sh"), PLANT).unwrap();
    let script = format!("run CANARY='{}' sh plant.sh\nsay planted\nhang", canary.display());
    fs::write(root.join("script"), script).unwrap();
    world.git(&root, &["add", "-A"]);
    world.git(&root, &["commit", "-qm", "all"]);
    fs::write(root.join("a"), "two\n").unwrap();
    let before = fs::read(root.join(".git/config")).unwrap();

    let path = root.join("script");
    let variables = [("WATCHFIRE_SCRIPT", path.to_str().unwrap())];
    let mut chat = OnTerminal::start(&world, &root, &["chat", "--agent", "scripted"], &variables);
    chat.wait_for("planted");
    let day = |folders: &[&str]| {
        for folder in folders {
            for args in [
                &["status"][..],
                &["diff"],
                &["log", "-p", "-3", "--all"],
                &["add", "a"],
                &["commit", "-qm", "mine"],
                &["checkout", "-q", "-b", "other"],
                &["checkout", "-q", "-"],
                &["branch", "-D", "other"],
                &["merge", "--no-edit", "main"],
                &["rebase", "--continue"],
                &["rebase", "HEAD~1"],
                &["cherry-pick", "--continue"],
                &["bisect", "run", "true"],
                &["stash", "push"],
                &["stash", "pop"],
                &["submodule", "status"],
                &["submodule", "update", "--init"],
                &["st"],
                &["worktree", "list"],
                &["fetch", "--all"],
                &["gc", "-q"],
                &["status"],
            ] {
                person(&root.join(folder), args);
            }
            let ran: Vec<_> =
                fs::read_dir(&canary).unwrap().flatten().map(|entry| entry.file_name()).collect();
            assert!(ran.is_empty(), "in {folder:?} ran {ran:?}");
        }
    };
    let left = || world.git(&root, &["for-each-ref", "--format=%(subject)", "refs/watchfire/left/chat"]);
    day(&[""]);
    chat.child.kill().unwrap();
    chat.child.wait().unwrap();
    world.run(&root, ["run", "1"]);
    assert_eq!(left(), "planted\n");
    for (gone, place) in [(true, "src/.git"), (true, "subm/.git"), (false, "lib/.git"), (true, "lib2")] {
        assert_eq!(!root.join(place).exists(), gone, "{place}");
    }
    day(&["", "src", "subm", "lib"]);
    assert_eq!(fs::read(root.join(".git/config")).unwrap(), before);
    world.git(&root, &["fsck"]);
}

/// In a task such changes hold the merge; a chat has no merge.
fn a_chat_does_not_change_what_is_protected() {
    let (world, root) = world("done\nexit 0");
    for file in ["ci/deploy.sh", "infra/main.tf", "free"] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "mine\n").unwrap();
    }
    let yaml = root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    fs::write(&yaml, text + "protected: [ci/deploy.sh, infra/, absent.sh, '**/*.lock']\n").unwrap();
    let in_place = world.run(&root, ["sandbox", "report", "--json"]).json();
    let controls = in_place["report"]["controls"].as_array().unwrap();
    let places = controls.iter().find(|it| it["name"] == "read-only places inside of writable folders");
    if places.is_none_or(|it| it["state"] == "open") {
        return println!("SKIPPED a_chat_does_not_change_what_is_protected: no mount namespace");
    }
    let script = "echo evil > ci/deploy.sh; rm -f ci/deploy.sh; mv ci ci2; echo evil > infra/main.tf; echo evil > infra/new; \
                  rm -rf infra; ln -s free infra/link; echo theirs > free; echo new > absent.sh; cat ci/deploy.sh";
    let said = world.run(&root, ["sandbox", "exec", "--mode", "chat", "--", "sh", "-c", script]);
    assert!(said.stdout.ends_with("mine\n"), "{said:?}");
    for (file, content) in [("ci/deploy.sh", "mine\n"), ("infra/main.tf", "mine\n"), ("free", "theirs\n")] {
        assert_eq!(fs::read_to_string(root.join(file)).unwrap(), content, "{file}");
    }
    assert_eq!(fs::read_dir(root.join("infra")).unwrap().count(), 1);
    // What is not there yet is the person's to make as well: it is not cleared.
    assert!(root.join("absent.sh").exists() && !root.join("ci2").exists());
}
