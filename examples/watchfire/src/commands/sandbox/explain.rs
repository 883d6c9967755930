//! `watchfire sandbox explain`: names the rules that allow or deny access to a path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use watchfire_core::orchestrator::SandboxRecord;
use watchfire_core::sandbox::{Access, Decision, SandboxPolicy, Verdict};
use watchfire_core::{Error, ErrorKind};
use watchfire_sandbox::Answer;

use super::{Whose, no_session};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
A path that does not begin with / or ~ is meant as the agent means it: in the task's worktree, or in the project's root.
While `run --embedded` works on the project, the answer comes from the policy of the task's last session.

Examples:
  watchfire sandbox explain ~/.ssh/id_ed25519
  watchfire sandbox explain --task 3 .git src/main.rs
  watchfire sandbox explain --task 3 --last /etc/passwd --json

Exit codes: 0 answered, 1 an error.")]
pub(crate) struct ExplainArgs {
    /// The paths
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    whose: Whose,
    /// Ask the policy of the last session, which may still run
    #[arg(long)]
    last: bool,
}

pub(super) async fn run(context: &Context, args: ExplainArgs) -> Result<Exit> {
    let found = args.whose.find(context).await?;
    let logs = context.home().await?.logs_dir(&found.id);
    let recorded = || SandboxRecord::latest(&logs, args.whose.task);
    let (cwd, policy) = if args.last {
        let record = recorded()?.ok_or_else(|| no_session(&args.whose))?;
        (record.cwd, record.policy)
    } else {
        match args.whose.confine(&found).await {
            Ok((orchestrator, confinement)) => {
                let cwd = confinement.command().cwd().unwrap_or(&found.root).to_path_buf();
                let policy = confinement.policy().clone();
                drop(confinement);
                orchestrator.shutdown().await;
                (cwd, policy)
            }
            // Of a run without the daemon, the policy of its last session is the best answer there is.
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Locked => {
                let record = match args.whose.ask(&found, error).await {
                    Err(failure) => recorded()?.ok_or(failure)?,
                    asked => asked?,
                };
                (record.cwd, record.policy)
            }
            Err(failure) => return Err(failure),
        }
    };
    let answers: Vec<_> = args.paths.iter().map(|path| answer(&policy, &cwd, path)).collect::<Result<_>>()?;
    let with_setting = |answer| {
        let mut value = json!(answer);
        value["setting"] = json!(setting(answer));
        value
    };
    let value = json!({ "cwd": cwd, "answers": answers.iter().map(with_setting).collect::<Vec<_>>() });
    context.out.report(value, |out| answers.iter().map(|answer| rendered(out, answer)).collect());
    Ok(Exit::Good)
}

fn answer(policy: &SandboxPolicy, cwd: &Path, path: &Path) -> Result<Answer> {
    let home = std::env::home_dir();
    let path = match (path.strip_prefix("~"), &home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => cwd.join(path),
    };
    // `absolute` keeps `..`, as the kernel needs it: if `a` does not exist, `a/..` leads nowhere.
    let path = std::path::absolute(&path).map_err(|e| Error::io("reading a path", e).with_path(&path))?;
    Ok(watchfire_sandbox::ask(policy, &path)?)
}

/// Returns what is said of a command that failed about each of its arguments that names a file which it could not read: the rule,
/// and the setting that opens it.
pub(super) fn unreadable(policy: &SandboxPolicy, cwd: &Path, args: &[OsString]) -> Vec<String> {
    // A path may stand behind the name of an option.
    let parts = args.iter().map(|arg| {
        let text = arg.to_string_lossy();
        text.split_once('=').filter(|_| text.starts_with('-')).map_or_else(|| arg.into(), |(_, it)| it.into())
    });
    let paths = parts.filter(|path: &PathBuf| cwd.join(path).symlink_metadata().is_ok());
    let answers = paths.filter_map(|path| answer(policy, cwd, &path).ok());
    let denied = answers.filter(|answer| answer.read.verdict == Verdict::Denied);
    let told = denied.map(|answer| {
        let rule = answer.read.rule.as_deref().map(|rule| format!(" by the rule for {rule}"));
        let setting = setting(&answer).map(|line| format!("; to open it, in settings.yaml: {line}"));
        text::line(&format!(
            "{} is closed{}{}",
            answer.path.display(),
            rule.unwrap_or_default(),
            setting.unwrap_or_default()
        ))
    });
    told.collect()
}

/// Returns the line of `settings.yaml` that opens a denied path. `None` if only another file can: the project's
/// rules, and those that protect the repository.
fn setting(answer: &Answer) -> Option<String> {
    let denied = [(Access::Read, &answer.read), (Access::Write, &answer.write)];
    let (access, decision) = denied.into_iter().find(|(_, it)| it.verdict == Verdict::Denied)?;
    access.setting(&answer.path, decision.rule.as_deref())
}

fn rendered(out: Out, answer: &Answer) -> String {
    let mut lines = vec![out.style.bold(&text::line(&answer.path.display().to_string()))];
    // Rules hold for the place that a link leads to.
    if answer.real != answer.path {
        lines.push(format!("  leads to {}", text::line(&answer.real.display().to_string())));
    }
    if let Some(shows) = &answer.shows {
        lines.push(format!("  shows {}", text::line(&shows.display().to_string())));
    }
    for (what, decision) in [("read", &answer.read), ("write", &answer.write)] {
        let Decision { verdict, rule } = decision;
        let verdict = match verdict {
            Verdict::Allowed => out.style.green("allowed"),
            Verdict::Denied => out.style.red("denied "),
        };
        let rule = rule.as_deref().unwrap_or("no rule applies: readable, not writable");
        lines.push(format!("  {what:<5}  {verdict}  {}", text::line(rule)));
    }
    if let Some(setting) = setting(answer) {
        lines.push(format!("  to open it, in settings.yaml:  {}", text::line(&setting)));
    }
    lines.push(String::new());
    lines.join("\n")
}
