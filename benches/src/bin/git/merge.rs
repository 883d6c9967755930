//! Merges: of one branch that nobody has checked out, and into the person's checkout.

use std::fs;

use watchfire_benches::Report;
use watchfire_core::workspace::{Merge, MergeRequest, PublishRequest, Published, Workspace, WorkspaceKey};

use crate::pairs::Pair;
use crate::repository::{Done, Repository, key, name};

/// Merges the work under `ours` into `main`, and `theirs` beside it; `main` is then where it was.
pub(crate) async fn merge(at: &Repository, pair: &mut Pair, ours: &WorkspaceKey, theirs: &str) -> Done {
    let main = at.tip("refs/heads/main")?;
    // What `git update-ref` moves to, so that there is no third git to start.
    let made = at.commit(main, 3, 0)?.to_string();
    let back = || at.set("refs/heads/main", main);
    let ours = async || {
        publish(at, ours).await?;
        back()
    };
    let theirs = || {
        at.git(&["merge-tree", "--write-tree", "main", theirs])?;
        at.git(&["update-ref", "refs/heads/main", &made, &main.to_string()])?;
        back()
    };
    pair.time(ours, theirs).await
}

pub(crate) async fn publish(at: &Repository, key: &WorkspaceKey) -> Done {
    let request = MergeRequest::new(key.clone(), "main", "merge");
    match at.workspace.prepare_merge(&request).await? {
        Merge::Ready(candidate) => {
            match at.workspace.publish(&candidate, &PublishRequest::default()).await? {
                Published::Done { .. } => Ok(()),
                other => Err(format!("{other:?}").into()),
            }
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// Into a checkout of the target.
pub(crate) async fn measure(at: &Repository, section: &str, report: &mut Report) -> Done {
    // The checkout was detached where `main` was at first.
    at.git(&["checkout", "-q", "main"])?;
    let mut pair = Pair::default();
    for round in 0..at.rounds() {
        let start = at.tip("refs/heads/main")?;
        let ours = key(round + 2001)?;
        at.set(&format!("refs/heads/watchfire/{ours}"), at.commit(start, 4, round)?)?;
        at.set("refs/heads/theirs", at.commit(start, 5, round)?)?;
        let publishing = async || publish(at, &ours).await;
        let merging = || at.git(&["merge", "-q", "--no-ff", "-m", "merge", "theirs"]).map(drop);
        pair.time(publishing, merging).await?;
        let last = format!("change {round} of kind 4\n");
        if fs::read_to_string(at.root.join(name(4)))? != last
            || !at.git(&["status", "--porcelain"])?.is_empty()
        {
            return Err("the checkout did not come along".into());
        }
    }
    pair.tell(report, section, "merge, target checked out", "git merge");
    Ok(())
}
