//! The suite for workspaces, on real repositories.

use watchfire_core::workspace::conformance;

use crate::support::Repo;

#[tokio::test]
async fn git_conforms() {
    for (name, case) in conformance::CASES {
        eprintln!("{name}");
        let repo = Repo::new();
        case(&repo.workspace()).await;
        repo.fsck();
        assert_eq!(repo.git(["stash", "list"]), "");
    }
}
