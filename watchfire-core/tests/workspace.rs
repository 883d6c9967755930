//! The suite for workspaces, on the one that isolates nothing.
#![cfg(feature = "testing")]

use std::fs;

use watchfire_core::conformance::check;
use watchfire_core::workspace::{InPlace, Workspace, conformance};

#[test]
fn in_place_conforms() {
    let mut folders = Vec::new();
    let make = || -> Box<dyn Workspace> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(conformance::FILE), conformance::CONTENT).unwrap();
        let workspace = InPlace::new(folder.path()).unwrap();
        folders.push(folder);
        Box::new(workspace)
    };
    check(conformance::CASES, make).unwrap();
}
