//! What an agent is told is true where it works: in its sandbox, at the paths that the prompt names.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use libtest_mimic::Arguments;
use support::sandboxed::no_sandbox;
use support::{World, trial};

/// Takes every path out of its prompt, and uses it.
const AGENT: &str = r#"#!/bin/sh
set -e
path_of() { sed -n "s|^- \(.*\): $1.*|\1|p" "$prompt"; }
prompt=$1
cp "$prompt" prompt.txt
grep -h '^title: ' "$(path_of 'files of other tasks')"/*.yaml > titles.txt
grep '^title: ' "$(path_of 'your task')" > own.txt
echo '- build with make' >> "$(path_of 'what agents leave')"
progress=$(sed -n 's|.*If `\(.*progress.md\)` exists.*|\1|p' "$prompt")
cp "$progress" progress.txt 2>/dev/null || { echo 'half done' > "$progress"; exit 7; }
git add .
git commit --quiet --message Look
watchfire-agent finish 'Looked.'
"#;

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let trials =
        vec![trial("the_prompt_says_only_what_is_true", no_sandbox(), the_prompt_says_only_what_is_true)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn the_prompt_says_only_what_is_true() {
    let world = World::for_sandboxes();
    let bin = world.home.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("looker"), AGENT).unwrap();
    fs::set_permissions(bin.join("looker"), fs::Permissions::from_mode(0o755)).unwrap();
    let root = world.project("project", "");
    let agents = "agents: {looker: {path: ~/bin/looker, prompt_mode: file, args: ['{system_prompt_file}', '{prompt_file}']}}\n";
    fs::write(world.path("watchfire-home/settings.yaml"), format!("version: 1\n{agents}")).unwrap();
    world.run(&root, ["task", "add", "--title", "The first one", "--agent", "looker", "--ready"]).good();
    world.run(&root, ["task", "add", "--title", "Another one"]).good();
    // The first attempt leaves notes on its progress and fails; the second one finds them.
    world.run(&root, ["run", "1"]).code(3);
    world.run(&root, ["run", "1"]).good();
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(read("own.txt"), "title: \"The first one\"\n");
    assert!(read("titles.txt").contains("Another one"), "{}", read("titles.txt"));
    assert_eq!(read("progress.txt"), "half done\n");
    assert!(read(".watchfire/memory.md").contains("- build with make"));
    // The template of the instructions is a comment for people.
    assert!(!read("prompt.txt").contains("<!--") && !read("prompt.txt").contains("test accounts"));
}
