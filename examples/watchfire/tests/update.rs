//! New releases: looked for where the person says, told on a terminal, and installed when asked.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use support::on_terminal::OnTerminal;
use support::{World, until};

/// A repository with the tags of releases.
fn releases(world: &World, tags: &[&str]) -> PathBuf {
    let source = world.repo("releases");
    for tag in tags {
        world.git(&source, &["tag", tag]);
    }
    source
}

fn set(world: &World, key: &str, value: &str) {
    world.run(&world.empty("x"), ["settings", "--global", key, value]).good();
}

#[test]
fn a_newer_release_is_found_and_installed() {
    let world = World::new();
    let at = world.empty("x");
    let said = world.run(&at, ["update"]).code(1).stderr;
    assert!(
        said.contains("no source of releases is configured") && said.contains("updates.source"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let source = releases(&world, &["v0.0.1", "v98.0.0", "v99.0.0-rc.1", "latest"]);
    set(&world, "updates.source", source.to_str().unwrap());
    let ours = env!("CARGO_PKG_VERSION");
    let said = world.run(&at, ["update", "--check"]).good().stdout;
    assert_eq!(said, format!("release 98.0.0 is out; this is {ours}\n"));
    let told = world.run(&at, ["update", "--check", "--json"]).good().json();
    assert_eq!((&told["newest"], &told["is_newer"]), (&"98.0.0".into(), &true.into()), "{told}");

    // Nobody is here to say yes.
    let said = world.run(&at, ["update"]).code(2).stderr;
    assert!(
        said.contains(&format!("cargo install --locked --profile dist --git file://{}", source.display())),
        "{said}"
    );
    let bin = world.empty("bin");
    let cargo = bin.join("cargo");
    let asked = world.path("asked");
    fs::write(&cargo, format!("#!/bin/sh\necho \"$*\" >> '{}'\nexit ${{FAIL:-0}}\n", asked.display()))
        .unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let install = |fail| world.start_with(&at, ["update", "--yes"], &[("PATH", &path), ("FAIL", fail)]).end();
    install("0").good();
    let wanted = format!(
        "install --locked --profile dist --git file://{} --tag v98.0.0 watchfire\n",
        source.display()
    );
    assert_eq!(fs::read_to_string(asked).unwrap(), wanted);
    let said = install("3").code(1).stderr;
    assert!(said.contains("cargo ended with exit status: 3"), "{said}");

    world.git(&source, &["tag", "-d", "v98.0.0"]);
    let said = world.run(&at, ["update"]).good().stdout;
    assert_eq!(said, format!("this is {ours}; the newest release is 0.0.1\n"));
    set(&world, "updates.source", world.path("nowhere").to_str().unwrap());
    let said = world.run(&at, ["update"]).code(1).stderr;
    assert!(said.contains("updates.source") && said.contains("does not appear to be a git repo"), "{said}");
    let said = world.run(&at, ["settings", "--global", "updates.check_frequency", "hourly"]).code(1).stderr;
    assert!(said.contains("every_launch"), "{said}");
}

/// The first command looks in the background; later ones tell what was found, on a terminal alone.
#[test]
fn a_newer_release_is_told_after_other_commands() {
    let world = World::new();
    let at = world.empty("x");
    let source = releases(&world, &["v98.0.0"]);
    let (bin, asked) = (world.empty("bin"), world.path("asked"));
    let before = std::env::var("PATH").unwrap();
    let noting =
        format!("#!/bin/sh\necho \"$*\" >> '{}'\nexport PATH='{before}'\nexec git \"$@\"\n", asked.display());
    fs::write(bin.join("git"), noting).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{before}", bin.display());
    let known = world.path("watchfire-home/releases.json");
    let list =
        || OnTerminal::start(&world, &at, &["costs"], &[("NO_COLOR", "1"), ("PATH", path.as_str())]).end().0;
    // Without a source, nobody is asked.
    list();
    set(&world, "updates.source", source.to_str().unwrap());
    list();
    // It is noted before it looks, too.
    until("it has looked", || fs::read_to_string(&known).is_ok_and(|note| note.contains("98.0.0")));
    let remotes = |asked: &str| asked.lines().filter(|words| words.contains("ls-remote")).count();
    assert_eq!(remotes(&fs::read_to_string(asked).unwrap()), 1);
    let told = list();
    assert!(told.contains("release 98.0.0 of watchfire is out"), "{told}");
    // Not every start looks.
    let found = fs::read(&known).unwrap();
    list();
    assert_eq!(fs::read(&known).unwrap(), found);
    set(&world, "updates.check_on_startup", "false");
    let told = list();
    assert!(!told.contains("98.0.0"), "{told}");
}
