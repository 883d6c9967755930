//! A client in Python without generated code: the daemon describes itself by reflection.
//!
//! Takes a Python with `grpcio` and `grpcio-reflection`, which `WATCHFIRE_TEST_PYTHON` may name; SKIPPED where it is not.

mod support;

use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use support::World;

const CLIENT: &str = include_str!("languages/client.py");
/// Lines of the client between which the example of the book stands.
const MARK: &str = "# --- docs/api.md\n";

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("the_book_has_the_client", || {
            the_book_has_the_client();
            Ok(())
        }),
        support::trial("python_works_by_reflection", no_python(), python_works_by_reflection),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn python() -> Command {
    Command::new(std::env::var_os("WATCHFIRE_TEST_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn no_python() -> Option<String> {
    let tried = python().args(["-c", "import grpc, grpc_reflection"]).output();
    let works = tried.is_ok_and(|tried| tried.status.success());
    (!works).then(|| "no Python with grpcio and grpcio-reflection".to_owned())
}

fn the_book_has_the_client() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    let example = CLIENT.split(MARK).nth(1).unwrap();
    assert!(page.contains(example), "docs/api.md differs from tests/languages/client.py");
}

fn python_works_by_reflection() {
    let world = World::new();
    let running = world.start(&[]);
    support::block_on(async {
        world.project(&world.connect().await, "shop").await;
    });
    let said = python()
        .arg("-c")
        .arg(CLIENT)
        .env_clear()
        .env("HOME", world.path("home"))
        .env("WATCHFIRE_HOME", &world.home)
        .env("WATCHFIRE_TEST_PORT", running.file.port.to_string())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    let said: Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!(said["projects"], serde_json::json!(["shop"]));
    assert_eq!(said["socket"], said["projects"], "the socket asks for no token");
    let work = &said["work"];
    for part in ["screen", "printed"] {
        assert!(work[part].as_str().unwrap().contains("hello from python"), "{part}: {work}");
    }
    assert_eq!((&work["outcome"], &work["state"]), (&"completed".into(), &"merged".into()), "{work}");
    assert_eq!(work["log"]["status"], "completed");
    assert!(work["log"]["content"].as_str().unwrap().contains("hello from python"), "{work}");
    // A call by hand, and that of reflection.
    for (who, code) in
        [("without", "UNAUTHENTICATED"), ("wrong", "UNAUTHENTICATED"), ("renamed", "PERMISSION_DENIED")]
    {
        assert_eq!(said[who], serde_json::json!([code, code]), "{who}");
    }
}
