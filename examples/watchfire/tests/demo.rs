//! The demo, as on a fresh machine.

mod support;

use std::time::Instant;

use support::World;

#[test]
fn the_demo_shows_every_fate() {
    let world = World::for_sandboxes();
    let at = world.empty("anywhere");
    let began = Instant::now();
    let report = world.run(&at, ["demo", "--json"]).good();
    let last: serde_json::Value = serde_json::from_str(report.stdout.lines().last().unwrap()).unwrap();
    let states: Vec<_> =
        last["tasks"].as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
    let (rivals, others) = states.split_at(2);
    assert!(matches!(rivals, ["merged", "conflict"] | ["conflict", "merged"]), "{last:#}");
    assert_eq!(others, ["merged", "verify failed", "failed", "merged"], "{last:#}");
    assert!(last["graph"].as_str().unwrap().contains("A small greeter"));
    assert_eq!(last["sandbox"]["tried"].as_array().unwrap().len(), 3);
    eprintln!("the demo took {:?}", began.elapsed());
    let left: Vec<_> = std::fs::read_dir(world.home.join(".cache/watchfire")).unwrap().collect();
    assert!(left.is_empty(), "nothing is left behind");
    assert!(!world.path("watchfire-home").exists(), "the person's own Watchfire home is not touched");
}

#[test]
fn the_demo_can_be_kept() {
    let world = World::for_sandboxes();
    let at = world.empty("anywhere");
    let said = world.run(&at, ["demo", "--keep"]).good();
    assert!(!said.stdout.contains('\x1b'));
    let kept = said.stdout.lines().last().unwrap().strip_prefix("kept: ").unwrap();
    let log = world.git(kept.as_ref(), &["log", "--format=%s"]);
    // On a busy machine the second of the two rivals may be first.
    assert!(log.contains("Say good morning") != log.contains("Say hi"), "{log}");
    world.git(kept.as_ref(), &["fsck", "--no-dangling"]);
}

/// A machine without any sandbox can show the rest, and says that nothing was refused.
#[test]
fn the_demo_goes_on_without_a_sandbox() {
    let world = World::for_sandboxes();
    let at = world.empty("anywhere");
    let said = world.run(&at, ["demo", "--no-sandbox"]).good();
    assert_eq!(said.stdout.matches("NOT refused").count(), 3, "{}", said.stdout);
    assert!(said.stdout.contains("The sandbox: none"), "{}", said.stdout);
}

#[test]
fn ctrl_c_ends_the_demo_and_cleans_up() {
    let world = World::for_sandboxes();
    let at = world.empty("anywhere");
    let mut demo = world.start(&at, ["demo"]);
    demo.wait_for("#0002 Say hi: running");
    demo.signal("INT");
    demo.end().code(130);
    assert_eq!(std::fs::read_dir(world.home.join(".cache/watchfire")).unwrap().count(), 0);
}
