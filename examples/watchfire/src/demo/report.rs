//! Prints what the demo is about, and its result.

use std::fs;
use std::time::Duration;

use serde_json::json;
use watchfire_core::Result;
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::sandbox::Probe;
use watchfire_core::schedule::Ending;

use super::project::Scratch;
use crate::commands::run::Ended;
use crate::git::git;
use crate::out::Out;
use crate::{status, terminal, text};

/// The sandbox of the sessions.
#[derive(Debug, Default)]
pub(super) struct Sandboxed {
    pub(super) name: String,
    /// Rules of the policy that were not fully enforced.
    pub(super) open: Vec<String>,
    pub(super) probe: Option<Probe>,
}

pub(super) fn opening(out: Out, scratch: &Scratch) -> String {
    let columns = usize::from(terminal::size().cols()).clamp(40, 120);
    let about = "A small git repository, six tasks, two at a time. Each agent works in a pseudo-terminal, in a sandbox, in \
                 a worktree of its own; what it did is verified with `sh check.sh` and merged. The agents follow a script.";
    let place = out.style.dim(&text::line(&scratch.root.display().to_string()));
    format!("{}\n{}\n{place}\n\n", out.style.bold("Watchfire demo"), text::wrap(about, columns, ""))
}

pub(super) fn closing(
    out: Out,
    scratch: &Scratch,
    ended: &Ended,
    sandboxed: &Sandboxed,
    took: Duration,
) -> Result<()> {
    let graph = git(
        &scratch.root,
        &["log", "--graph", "--oneline", "--exclude=refs/watchfire/*", "--all", "--decorate=short"],
    )
    // An older git may not know one of the options. A plainer picture is better than none.
    .or_else(|_| git(&scratch.root, &["log", "--graph", "--oneline", "--all"]))?;
    let attempts = attempts(scratch);
    let value = json!({
        "tasks": ended.tasks.iter().map(status::json).collect::<Vec<_>>(),
        "graph": graph,
        "sandbox": {
            "name": sandboxed.name,
            "not_enforced": sandboxed.open,
            "tried": attempts.iter().map(|(what, refused)| json!({ "what": what, "refused": refused })).collect::<Vec<_>>(),
        },
        "seconds": took.as_secs_f64(),
    });
    out.report(value, |out| {
        let style = out.style;
        let mut lines = vec![String::new(), style.bold("The history now")];
        lines.extend(graph.lines().map(|line| format!("  {}", text::line(line))));
        lines.extend([String::new(), style.bold("What became of the tasks")]);
        lines.extend(ended.tasks.iter().flat_map(|info| task(out, info)));
        lines.extend([String::new(), style.bold(&format!("The sandbox: {}", sandboxed.name))]);
        lines.extend(attempts.iter().map(|(what, refused)| {
            let mark = match refused {
                Some(true) => style.green("✓ refused    "),
                Some(false) => style.red("✗ NOT refused"),
                None => style.dim("- not tried  "),
            };
            format!("  {mark}  {what}")
        }));
        lines.extend(mechanisms(out, sandboxed, scratch));
        lines.extend([String::new(), style.dim(&format!("all of it in {}", text::elapsed(took)))]);
        lines.push(style.dim("next: watchfire doctor shows which agents are here; watchfire init begins"));
        lines.push(String::new());
        lines.join("\n")
    });
    Ok(())
}

/// Returns the lines about a task: its end, and the reason if it was not merged.
fn task(out: Out, info: &TaskInfo) -> Vec<String> {
    let number = info.task.task_number;
    let title = text::pad(&text::clip(&text::line(&info.task.title), 30), 30);
    let fate = match info.ending() {
        Some(Ending::Merged { commit, .. }) => {
            format!("merged as {}", commit.as_deref().and_then(|commit| commit.get(..8)).unwrap_or_default())
        }
        Some(ending) if ending.is_good() => ending.word().to_owned(),
        Some(ending) => format!("not merged: {}", ending.word()),
        None => info.word().to_owned(),
    };
    let mut lines = vec![format!("  {} #{number} {title}  {fate}", status::mark(info, out.style))];
    if let Some(reason) = info.ending().and_then(Ending::reason) {
        let columns = usize::from(terminal::size().cols()).max(40);
        let shown: Vec<_> =
            text::lines(&reason).lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        // The last lines of an output say most.
        let skipped = shown.len().saturating_sub(3);
        lines.extend(
            shown
                .iter()
                .skip(skipped)
                .map(|line| out.style.dim(&text::clip(&format!("        {line}"), columns - 1))),
        );
    }
    lines
}

/// Returns the attempts of the last task, and whether each was refused. The disk is asked where possible, not the
/// agent.
fn attempts(scratch: &Scratch) -> Vec<(&'static str, Option<bool>)> {
    let looked = fs::read_to_string(scratch.root.join("LOOKED.md")).unwrap_or_default();
    // A file that is gone or cannot be read counts as changed.
    let project = fs::read_to_string(scratch.root.join(".watchfire/project.yaml")).unwrap_or_default();
    let read = looked.lines().any(|line| line.contains("id_demo") && line.contains("NOT refused"));
    // Without the file the task was interrupted before it tried.
    let tried = |refused: bool| (!looked.is_empty()).then_some(refused);
    vec![
        ("reading a private key in ~/.ssh", tried(!read)),
        ("writing a file into the home folder", tried(!scratch.user.join("planted.txt").exists())),
        ("changing the project's settings", tried(!project.is_empty() && !project.contains("# touched"))),
    ]
}

fn mechanisms(out: Out, sandboxed: &Sandboxed, scratch: &Scratch) -> Vec<String> {
    let style = out.style;
    let columns = usize::from(terminal::size().cols()).clamp(40, 120);
    let user = scratch.user.display().to_string();
    let mut lines = Vec::new();
    if let Some(probe) = &sandboxed.probe {
        let (there, missing): (Vec<_>, Vec<_>) =
            probe.mechanisms.iter().partition(|mechanism| mechanism.available);
        let names: Vec<_> = there.iter().map(|mechanism| mechanism.name.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("  by {}", text::line(&names.join(", "))));
        }
        lines.extend(missing.iter().map(|mechanism| {
            style.dim(&format!(
                "  not on this machine: {}, {}",
                text::line(&mechanism.name),
                text::line(&mechanism.detail)
            ))
        }));
    }
    if sandboxed.open.is_empty() {
        lines.push("  everything that the policy asks for was enforced".to_owned());
    } else {
        lines.push(style.yellow("  asked for, and not fully enforced here:"));
        lines.extend(sandboxed.open.iter().map(|open| {
            // The demo's own `~` has a long path, and would hide what the rule is about.
            let open = text::line(&open.replace(&user, "~"));
            text::wrap(&format!("    - {open}"), columns, "      ")
        }));
    }
    lines
}
