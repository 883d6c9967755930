//! Very many new files at once.

use std::fs;
use std::path::Path;

use watchfire_benches::Report;
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{CaptureRequest, OpenRequest, Workspace};

use crate::merge::publish;
use crate::pairs::Pair;
use crate::repository::{Done, Repository, git, key};

/// Files of a large merge.
const MERGED: usize = 15_000;
/// Files that an agent left uncommitted.
const UNCOMMITTED: usize = 50_000;
const ROUNDS: usize = 3;
const PLAIN: [&str; 2] = ["merge 15,000, target checked out", "git merge of 15,000"];
const ATTRIBUTES: [&str; 2] = ["merge 15,000, with attributes", "git merge of 15,000, with attributes"];
const SECTION: &str = "very many new files";

pub(crate) async fn measure(at: &Repository, report: &mut Report) -> Done {
    at.git(&["checkout", "-q", "main"])?;
    merge_all(at, 0, PLAIN, report).await?;
    // As most repositories have them: none of these converts a file.
    fs::write(at.root.join(".gitattributes"), "* text=auto\n*.png binary\n*.rs diff=rust\n")?;
    at.git(&["add", ".gitattributes"])?;
    at.git(&["commit", "-q", "-m", "attributes"])?;
    merge_all(at, ROUNDS, ATTRIBUTES, report).await?;
    let mut capturing = Pair::default();
    for round in 0..ROUNDS {
        let (ours, theirs) = (key(round + 6001)?, at.folder.path().join(format!("add-{round}")));
        let opened = at.workspace.open(&OpenRequest::new(ours.clone(), Attempt(1))).await?;
        at.git(&["worktree", "add", "-q", "--detach", &theirs.to_string_lossy(), "main"])?;
        write_all(&opened.cwd, &format!("ours {round}"))?;
        write_all(&theirs, &format!("theirs {round}"))?;
        let capture = async || {
            let captured = at.workspace.capture(&CaptureRequest::new(ours.clone(), "work")).await?;
            if captured.paths.len() == UNCOMMITTED { Ok(()) } else { Err("not all was captured".into()) }
        };
        let add = || git(&theirs, &["add", "-A"]).map(drop);
        capturing.time(capture, add).await?;
    }
    capturing.tell(report, SECTION, "capture 50,000 (and commit)", "git add of 50,000");
    Ok(())
}

/// Measures merges of very many new files into a target that is checked out, with the names of our and git's row.
async fn merge_all(at: &Repository, first: usize, rows: [&'static str; 2], report: &mut Report) -> Done {
    let mut merging = Pair::default();
    for round in first..first + ROUNDS {
        let start = at.tip("refs/heads/main")?;
        let ours = key(round + 5001)?;
        at.set(&format!("refs/heads/watchfire/{ours}"), at.add(start, &format!("ours-{round}"), MERGED)?)?;
        at.set("refs/heads/theirs", at.add(start, &format!("theirs-{round}"), MERGED)?)?;
        let publishing = async || publish(at, &ours).await;
        let merge = || at.git(&["merge", "-q", "--no-ff", "-m", "merge", "theirs"]).map(drop);
        merging.time(publishing, merge).await?;
        if !at.git(&["status", "--porcelain"])?.is_empty() {
            return Err("the checkout did not come along".into());
        }
    }
    merging.tell(report, SECTION, rows[0], rows[1]);
    Ok(())
}

fn write_all(folder: &Path, what: &str) -> Done {
    for n in 0..UNCOMMITTED {
        let path = folder.join(format!("many/d{}", n / 100));
        if n % 100 == 0 {
            fs::create_dir_all(&path)?;
        }
        fs::write(path.join(format!("f{n}")), format!("{what} {n}\n{}", "some text\n".repeat(n % 50)))?;
    }
    Ok(())
}
