//! Projects for tests in a real sandbox.

use std::fs;
use std::path::PathBuf;

use super::World;

/// The reason why nothing can be confined on this machine, if it is so.
pub(crate) fn no_sandbox() -> Option<String> {
    let world = World::new();
    let code = world.run(world.folder.path(), ["sandbox", "probe"]).code;
    (code != Some(0)).then(|| "no sandbox works: not available here".to_owned())
}

/// A project with one ready task, in a home with a secret.
pub(crate) fn world(script: &str) -> (World, PathBuf) {
    let world = World::for_sandboxes();
    fs::create_dir_all(world.home.join(".ssh")).unwrap();
    fs::write(world.home.join(".ssh/id_x"), "secret\n").unwrap();
    let root = world.project("project", "");
    world.task(&root, "Look", script);
    (world, root)
}
