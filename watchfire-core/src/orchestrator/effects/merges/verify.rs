//! The project's setup and verify commands on the merged tree.

use std::sync::Arc;

use crate::Result;
use crate::failpoint::reached;
use crate::model::{Project, Settings};
use crate::orchestrator::compose::{Wanted, own_policy};
use crate::orchestrator::effects::commands::{Commands, Failure, Place};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{Fact, Life};
use crate::workspace::Candidate;

/// Runs the commands in order. Returns the one that failed, or `None` if all succeeded.
pub(in crate::orchestrator::effects) async fn run(
    shared: &Arc<ProjectShared>,
    project: &Project,
    settings: &Settings,
    life: &Life,
    candidate: &Candidate,
) -> Result<Option<Failure>> {
    // Nothing then needs the merged tree on the disk; setup commands only prepare it for these.
    if project.verify.is_empty() {
        return Ok(None);
    }
    let writing = shared.workspace.checkout(candidate);
    let scratch = shared.patiently(life.subject.task(), "writing the merged files", writing).await?;
    reached(|| "scratch made");
    let (of, path) = (Arc::clone(shared), scratch.path().to_path_buf());
    let (wanted, allowed) = (Wanted::of(project)?, (project.clone(), settings.clone()));
    let provide = move || Ok(wanted.provide(&of.root, &path, &own_policy(&of, &allowed.0, &allowed.1)?));
    let provided = blocking("giving a merged tree files of the checkout", provide).await?;
    let place = Place {
        path: scratch.path().to_path_buf(),
        rules: scratch.policy_rules.iter().cloned().chain(provided.rules).collect(),
        // No agent's repository is shown: the scratch folder is a plain tree.
        binds: provided.binds,
        is_workspace: false,
        others: Vec::new(),
    };
    let commands = Commands::new(shared, project, settings, &life.options, place).await?;
    let mut failure = Ok(None);
    for line in project.setup.iter().chain(&project.verify) {
        shared.report(Fact::Verifying { life: life.id, command: line.clone() });
        failure = commands.run(line).await.map(std::result::Result::err);
        if !matches!(failure, Ok(None)) {
            break;
        }
    }
    drop(commands);
    // A whole tree, whose removal would block the runtime.
    blocking("removing a folder", move || {
        drop(scratch);
        Ok(())
    })
    .await?;
    failure
}
