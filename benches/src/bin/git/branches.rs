//! Listing branches.

use std::fs;
use std::process::{Command, Stdio};

use watchfire_benches::Report;
use watchfire_core::workspace::Workspace;

use crate::pairs::Pair;
use crate::repository::{Done, Repository, key};

const BRANCHES: usize = 500;

/// 500 branches, each of one commit, made while `main` moved on by as many.
pub(crate) async fn measure(at: &Repository, section: &str, report: &mut Report) -> Done {
    let mut main = at.tip("refs/heads/main")?;
    for n in 0..BRANCHES {
        at.set(&format!("refs/heads/watchfire/{}", key(n + 3001)?), at.commit(main, 6, n)?)?;
        main = at.commit(main, 7, n)?;
    }
    at.git(&["checkout", "-q", "--detach"])?;
    at.set("refs/heads/main", main)?;
    // Each is one commit: what it changes is what its branch changes.
    let tips = at.folder.path().join("tips");
    fs::write(&tips, at.git(&["for-each-ref", "--format=%(objectname)", "refs/heads/watchfire"])?)?;
    let mut pair = Pair::default();
    for _ in 0..15 {
        let listing = async || match at.workspace.list().await?.len() {
            BRANCHES.. => Ok(()),
            few => Err(format!("only {few} branches").into()),
        };
        let format = "--format=%(refname) %(ahead-behind:main) %(committerdate:unix) %(subject)";
        let for_each = || {
            at.git(&["for-each-ref", format, "refs/heads/watchfire"])?;
            let input = Stdio::from(fs::File::open(&tips)?);
            let mut command = Command::new("git");
            command.args(["diff-tree", "--stdin", "-r"]).current_dir(&at.root).stdin(input);
            if command.output()?.stdout.is_empty() { Err("no differences".into()) } else { Ok(()) }
        };
        pair.time(listing, for_each).await?;
    }
    pair.tell(report, section, "list 500 branches", "git for-each-ref, git diff-tree");
    Ok(())
}
