//! The suite for workspaces, on the one that isolates nothing.
#![cfg(feature = "testing")]

use std::fs;

use watchfire_core::workspace::{InPlace, conformance};

#[tokio::test]
async fn in_place_conforms() {
    let mut folders = Vec::new();
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(conformance::FILE), conformance::CONTENT).unwrap();
        let workspace = InPlace::new(folder.path()).unwrap();
        folders.push(folder);
        workspace
    })
    .await;
}
