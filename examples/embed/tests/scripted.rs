//! An agent works on a task, and what it leaves is merged. `docs/embed-and-test.md` shows this file.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use watchfire_backends as _; // links the agents
use watchfire_core::orchestrator::{Orchestrator, RunRequest};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::Ending;
use watchfire_core::store::{NewProject, NewTask};
use watchfire_git::GitWorkspace;
use watchfire_term::Emulator;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the agent does: it reads no model, only this.
const PROMPT: &str = "Write a greeting.

```watchfire-script
write hello.txt hello
commit Say hello
done
exit 0
```
";

fn repository(root: &Path) -> Result {
    std::fs::create_dir(root)?;
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        assert!(Command::new("git").args(args).current_dir(root).status()?.success());
    }
    Ok(())
}

#[tokio::test]
async fn what_the_agent_leaves_is_merged() -> Result {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("project");
    repository(&root)?;
    let orchestrator = Orchestrator::builder()
        .home(folder.path().join("home"))
        .helper(Helper::at(env!("CARGO_BIN_EXE_embed"))?)
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, Default::default())?)))
        .terminals(Emulator::boxed)
        .start()
        .await?;
    orchestrator.home().init_project(&root, NewProject::new()).await?;
    let project = orchestrator.open(&root).await?;
    let task = NewTask::new("Greet").with_prompt(PROMPT).with_agent("scripted".parse()?).with_ready(true);
    let task = project.store().create(task, None).await?.value.task_number;

    let run = project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let summary = run.wait().await?;

    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{:?}", summary.endings);
    assert_eq!(std::fs::read_to_string(root.join("hello.txt"))?.trim(), "hello");
    orchestrator.shutdown().await;
    Ok(())
}
