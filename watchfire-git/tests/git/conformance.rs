//! The suite for workspaces, on real repositories.

use watchfire_core::workspace::conformance;

use crate::support::Repo;

#[tokio::test]
async fn git_conforms() {
    let mut failed = Vec::new();
    for case in conformance::CASES {
        let repo = Repo::new();
        if let Err(why) = case.run(&repo.workspace()).await {
            failed.push(format!("{}: {why}", case.name()));
        }
        repo.fsck();
        assert_eq!(repo.git(["stash", "list"]), "", "{}", case.name());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
