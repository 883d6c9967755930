//! The suite for workspaces, on the one that isolates nothing.

use std::fs;
use std::sync::{Arc, Mutex};

use watchfire_core::conformance::Suites;
use watchfire_core::workspace::{InPlace, Workspace, conformance};

fn main() {
    let folders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&folders);
    let make = move || -> Box<dyn Workspace> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(conformance::FILE), conformance::CONTENT).unwrap();
        let workspace = InPlace::new(folder.path()).unwrap();
        kept.lock().unwrap().push(folder);
        Box::new(workspace)
    };
    Suites::new().with("in_place", conformance::CASES, make).run()
}
