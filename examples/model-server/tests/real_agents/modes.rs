//! A real agent in every mode beside a task and a chat: wildfire with its phases, and the definition of the project.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use watchfire_core::backend::Backend;
use watchfire_core::model::{Mode, TaskNumber, TaskStatus};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::RunOptions;
use watchfire_core::store::TaskPatch;

use super::agents::Agent;
use super::harness::{Checked, git, must};
use super::orchestrated::WORK;
use super::stage::{DEADLINE, Stage, failed, told};

/// A draft is refined and done, a task is generated, refined and done, then nothing is left; and the project gets a definition.
pub(crate) fn all(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| story(agent, transport, dir))
}

fn refine(task: &str) -> serde_json::Value {
    let run = "sed -i 's/^status: .*/status: ready/' $WATCHFIRE_TASK_FILE && touch $WATCHFIRE_SESSION_DIR/refine_done.yaml";
    json!({ "when": format!("Refine Task #{task}"), "turns": [{ "run": run }, { "text": "It is refined." }] })
}

async fn story(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let second = "echo two > two.txt && git add -A && git commit -qm Two && sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\"";
    let generate = "d=$WATCHFIRE_SESSION_DIR; [ -e $d/tasks/0002.yaml ] || \
                    printf 'version: 1\\ntask_number: 2\\ntitle: two\\nprompt: Write two.\\nstatus: draft\\n' > $d/tasks/0002.yaml; \
                    touch $d/generate_done.yaml";
    let define =
        "d=$WATCHFIRE_SESSION_DIR; echo 'It greets.' > $d/definition.md; touch $d/definition_done.yaml";
    let work = |task: &str, run: &str| json!({ "when": format!("Implement Task #{task}"), "turns": [{ "run": run }, { "text": "All is done." }] });
    let last = |when: &str, run: &str| json!({ "when": when, "turns": [{ "run": run }, { "text": "It is written." }] });
    let script = json!([
        refine("0001"),
        refine("0002"),
        work("0001", WORK),
        work("0002", second),
        last("Find the work that remains", generate),
        last("Write the definition", define),
        { "turns": [{ "text": "What?" }] },
    ]);
    let stage = Stage::set(agent, transport, &script.to_string(), dir).await?;
    let task = stage.task().await?;
    let draft = TaskPatch::new().with_status(TaskStatus::Draft);
    stage.project.store().update(task, draft, None, None).await.map_err(failed)?;
    let run = stage.project.run(RunRequest::wildfire()).await.map_err(failed)?;
    let summary = tokio::time::timeout(2 * DEADLINE, run.wait()).await;
    let told = || format!("{:?}", stage.server.asks().into_iter().map(|ask| ask.outputs).collect::<Vec<_>>());
    let summary = summary.map_err(|_| format!("it takes too long\n{}", told()))?.map_err(failed)?;
    must(summary.is_good(), &format!("{summary:#?}\n{}", told()))?;
    let generated: Vec<_> = summary.course.generated.iter().map(|task| task.value()).collect();
    must((summary.course.rounds, &generated[..]) == (2, &[2]), &format!("{summary:#?}"))?;
    let second = TaskNumber::new(2).ok_or("no number")?;
    for task in [task, second] {
        let task = stage.project.store().get(task).await.map_err(failed)?.value;
        must(task.status == TaskStatus::Done, &format!("{task:?}"))?;
    }
    must(
        git(&stage.root, &["show", "main:hello.txt", "main:two.txt"])? == "hello\ntwo\n",
        "it is not merged",
    )?;

    let proposed = stage.project.generate(Mode::GenerateDefinition, RunOptions::default());
    let proposed = tokio::time::timeout(DEADLINE, proposed).await;
    let proposed = proposed.map_err(|_| format!("it proposes nothing\n{}", told()))?.map_err(failed)?;
    must(
        proposed.definition.as_deref().map(str::trim) == Some("It greets."),
        &format!("{:?}", proposed.definition),
    )?;
    stage.strike(agent.rewrites).await
}
