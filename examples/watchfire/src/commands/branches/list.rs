//! Lists the branches of tasks and the rescued work.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchfire_core::journal::Journal;
use watchfire_core::workspace::{BranchInfo, BranchStatus, RescueRef};
use watchfire_git::GitOptions;
use watchfired::Repositories;

use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

pub(super) async fn run(context: &Context) -> Result<Exit> {
    let project = context.project().await?;
    let workspace = Repositories::own(&project.home, &project.root, GitOptions::default()).await?;
    let branches = Repositories::open(&project.home, &project.root).await?.workspace().list().await?;
    // Rescue refs are no branches: git's own list of branches does not show them.
    let rescued = workspace.rescued().await?;
    let in_use = in_use(&project)?;
    let listed = branches.iter().map(|branch| match serde_json::to_value(branch) {
        Ok(Value::Object(mut fields)) => {
            fields.insert("in_use".to_owned(), in_use.contains(&branch.key).into());
            Value::Object(fields)
        }
        _ => Value::Null,
    });
    let report = json!({ "branches": listed.collect::<Vec<_>>(), "rescued": rescued });
    context.out.report(report, |out| text(out, &branches, &in_use, &rescued));
    Ok(Exit::Good)
}

/// Returns the keys of the tasks that agents work on, in any process that has the project open.
fn in_use(project: &OpenProject) -> Result<BTreeSet<String>> {
    let journal = project.home.state_dir(&project.id).join("journal");
    // Without a writer, sessions in the journal are left over from a killed process.
    if Journal::writer(&journal).is_none() {
        return Ok(BTreeSet::new());
    }
    let (state, _) = Journal::read(journal)?;
    // A life without a session, such as one that is queued, has no agent in its worktree.
    let working = state.ledger.lives.values().filter(|life| life.session.is_some());
    Ok(working.filter_map(|life| life.subject.task()).map(|task| task.to_string()).collect())
}

fn text(out: Out, branches: &[BranchInfo], in_use: &BTreeSet<String>, rescued: &[RescueRef]) -> String {
    let mut lines = Vec::new();
    let width = branches.iter().map(|branch| text::width(&branch.branch)).max().unwrap_or(0);
    for branch in branches {
        let (word, painted): (&str, fn(crate::style::Style, &str) -> String) = match branch.status {
            // First, because a branch in use also has one of the other states.
            _ if in_use.contains(&branch.key) => ("in use", crate::style::Style::bold),
            BranchStatus::Empty => ("empty", crate::style::Style::dim),
            BranchStatus::Merged => ("merged", crate::style::Style::green),
            BranchStatus::Unmerged => ("unmerged", crate::style::Style::yellow),
            BranchStatus::Orphaned => ("orphaned", crate::style::Style::dim),
            _ => ("", crate::style::Style::dim),
        };
        let target = branch.target.as_deref().map(text::line);
        let (of, behind) = target.map(|name| (format!(" of {name}"), format!(" {name}"))).unwrap_or_default();
        let size = branch
            .size
            .filter(|size| size.files > 0)
            .map(|size| format!(", {} ({})", text::count(size.files, "file"), text::bytes(size.bytes)));
        let size = size.unwrap_or_default();
        let place = format!("{} ahead{of}, {} behind{behind}{size}", branch.ahead, branch.behind);
        // The last commit of a branch without work of its own is its target's.
        let subject = branch.subject.as_deref().filter(|_| branch.ahead > 0);
        let subject = text::line(subject.unwrap_or_default());
        lines.push(format!(
            "{}  {}  {}  {}",
            text::pad(&text::line(&branch.branch), width),
            painted(out.style, &text::pad(word, 8)),
            text::pad(&place, 44),
            out.style.dim(&text::clip(&subject, 60)),
        ));
        if let Some(worktree) = &branch.worktree {
            lines.push(out.style.dim(&format!("  worktree {}", text::line(&worktree.display().to_string()))));
        }
        for part in &branch.others {
            let ahead = format!("{} ahead", part.branch.ahead);
            let place = format!("  in {}: {}, {ahead}", part.repository.display(), part.branch.branch);
            lines.push(out.style.dim(&text::line(&place)));
        }
    }
    if branches.is_empty() {
        lines.push("no branches of tasks".to_owned());
    }
    if !rescued.is_empty() {
        lines.push(out.style.bold(&format!("Rescued work ({})", rescued.len())));
        lines.extend(
            rescued.iter().map(|work| format!("  {}  {}", text::line(&work.name), work.commit.short())),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}
