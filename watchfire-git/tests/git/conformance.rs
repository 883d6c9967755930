//! The suite for workspaces, on real repositories.

use watchfire_core::workspace::conformance;

use crate::support::Repo;

#[tokio::test]
async fn git_conforms() {
    for case in conformance::CASES {
        let repo = Repo::new();
        let outcome = case.run(&repo.workspace()).await;
        assert_eq!(outcome, Ok(()), "{}", case.name());
        repo.fsck();
        assert_eq!(repo.git(["stash", "list"]), "");
    }
}
