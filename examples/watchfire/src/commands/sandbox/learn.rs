//! `watchfire sandbox learn`: runs a command in the place of an agent, and shows what the sandbox refused it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use watchfire_core::backend::FailedAccess;
use watchfire_core::orchestrator::Confinement;
use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::{Access, Refusals, Refused, SandboxChoice};
use watchfire_core::{Error, ErrorKind};

use super::Whose;
use super::exec::{self, COMMAND};
use super::trace::Trace;
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
The command runs as with `watchfire sandbox exec`, under strace, which must be installed. Afterwards stderr says what the
sandbox refused it, what each setting would open, and the lines for settings.yaml. It opens nothing: read the lines before
you use them. A program that tries many places names more than it needs.

Examples:
  watchfire sandbox learn --task 3 -- npm test
  watchfire sandbox learn -- gh pr list

Exit codes: as `watchfire sandbox exec`.")]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    whose: Whose,
    /// The command
    #[arg(value_name = COMMAND, required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<std::ffi::OsString>,
}

/// Largest trace that is read, in bytes.
const LARGEST: u64 = 256 << 20;
/// Number of entries up to which the content of a folder is counted.
const COUNTED: usize = 1000;

/// Refused accesses, each with the rule.
type Refusal = BTreeMap<(Access, PathBuf), Option<String>>;

pub(super) async fn run(context: &Context, args: LearnArgs) -> Result<Exit> {
    exec::coded(learn(context, &args).await)
}

async fn learn(context: &Context, args: &LearnArgs) -> Result<Exit> {
    let tracer = tracer()?;
    let found = args.whose.find(context).await?;
    let (orchestrator, confinement) = args.whose.confine(&found).await?;
    let Prepared { judge, cwd, to, trace } = match prepare(&confinement, &found.root).await {
        Ok(prepared) => prepared,
        Err(failure) => {
            drop(confinement);
            orchestrator.shutdown().await;
            return Err(failure);
        }
    };
    let command = CommandSpec::new(tracer)
        .with_args(["-f", "-q", "-y", "--failed-only", "-s", "4096", "-e", "signal=none"])
        .with_args(["-e", "trace=%file,connect,bind", "-o"])
        .with_args([to.as_os_str()])
        .with_args(["--"])
        .with_args(args.command.iter().cloned());
    let Some(ran) = exec::held(orchestrator, confinement, &command).await? else {
        return Ok(Exit::Interrupted);
    };
    exec::tell(context, &ran);
    let mut said = Vec::new();
    trace
        .take(LARGEST)
        .read_to_end(&mut said)
        .map_err(|e| Error::io("reading the trace", e).with_path(&to))?;
    let trace = Trace::read(&said, &cwd);
    if !trace.is_complete {
        let error = Error::new(ErrorKind::NotSupported, "the command could not be traced").with(
            "hint",
            "strace says why, above: there may be no such program, or it may not trace in this container",
        );
        return Err(error.into());
    }
    let refused = refused(&judge, &trace);
    if context.out.json {
        eprintln!("{}", as_json(&refused, exec::code(&ran)));
    } else {
        eprint!("{}", rendered(&refused));
    }
    Ok(Exit::Of(exec::code(&ran)))
}

/// Everything that is made before the command runs.
struct Prepared {
    judge: Refusals,
    cwd: PathBuf,
    /// The file for the trace, as the command sees it.
    to: PathBuf,
    /// The same file, held open: its folder goes with the session, and it is read afterwards.
    trace: File,
}

async fn prepare(confinement: &Confinement, root: &Path) -> Result<Prepared> {
    if confinement.choice().value == SandboxChoice::None {
        let by = confinement.choice().from;
        let message = format!("nothing is refused without a sandbox, and none is asked for by {by}");
        return Err(Error::new(ErrorKind::InvalidInput, message).into());
    }
    let cwd = confinement.command().cwd().unwrap_or(root).to_path_buf();
    let judge = Refusals::new(confinement.policy(), confinement.explain().await?, cwd.clone())?;
    let folder = confinement.command().env().find(|(name, _)| *name == "WATCHFIRE_SESSION_DIR");
    let to = PathBuf::from(folder.map(|(_, value)| value).unwrap_or_default()).join("trace");
    let opened = File::create(&to).and_then(|_| File::open(&to));
    let trace = opened.map_err(|e| Error::io("making a file for the trace", e).with_path(&to))?;
    Ok(Prepared { judge, cwd, to, trace })
}

/// Finds strace.
fn tracer() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("strace")).find(|path| path.is_file());
    Ok(found.ok_or_else(|| {
        Error::new(ErrorKind::ProgramMissing, "strace is not installed")
            .with("hint", "install the package strace, which watches the command")
    })?)
}

/// Returns what the sandbox refused. What lies in a folder that is refused too is left out.
fn refused(judge: &Refusals, trace: &Trace) -> Refusal {
    let mut all = Refusal::new();
    let denied = |failed: &FailedAccess| match judge.judge(failed)?.what {
        Refused::Path { path, access, rule, .. } => Some((path, access, rule)),
        _ => None,
    };
    for failed in trace.failed() {
        // A new file in a folder that is hidden: what is needed is the folder.
        let above = || {
            let folder = Path::new(&failed.path).parent()?.display().to_string();
            let is_new = failed.change && failed.absent;
            let (path, _, rule) =
                denied(&FailedAccess { path: folder, change: false, ..failed.clone() }).filter(|_| is_new)?;
            Some((path, Access::Write, rule))
        };
        if let Some((path, access, rule)) = denied(&failed).or_else(above) {
            all.insert((access, path), rule);
        }
    }
    let covered: Vec<_> = all
        .keys()
        .filter(|(access, path)| {
            path.ancestors().skip(1).any(|above| {
                let by = |access| all.contains_key(&(access, above.to_path_buf()));
                by(Access::Write) || by(*access)
            })
        })
        .cloned()
        .collect();
    covered.iter().for_each(|key| _ = all.remove(key));
    // Who may write may read.
    let both: Vec<_> =
        all.keys().filter(|(access, _)| *access == Access::Write).map(|(_, path)| path.clone()).collect();
    both.into_iter().for_each(|path| _ = all.remove(&(Access::Read, path)));
    all
}

/// Describes what lies at a path, so that a person knows what they would open.
fn content(path: &Path) -> String {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let count = fs::read_dir(path).map_or(0, |entries| entries.take(COUNTED).count());
            let more = if count == COUNTED { "at least " } else { "" };
            format!("a folder with {more}{}", text::count(count, "item"))
        }
        Ok(metadata) if metadata.is_file() => format!("a file of {}", text::bytes(metadata.len())),
        Ok(metadata) if metadata.is_symlink() => "a link".to_owned(),
        Ok(_) => "a socket or device".to_owned(),
        Err(_) => "nothing yet".to_owned(),
    }
}

/// Writes a path as settings may have it, with `~` for the home folder.
fn short(path: &Path) -> String {
    let below = std::env::home_dir().and_then(|home| Some(path.strip_prefix(home).ok()?.to_path_buf()));
    below.map_or_else(|| path.display().to_string(), |below| format!("~/{}", below.display()))
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

/// Returns the paths that settings can open with this access.
fn openable(refused: &Refusal, access: Access) -> Vec<String> {
    let wanted =
        refused.iter().filter(|((of, _), rule)| *of == access && Access::can_be_set(rule.as_deref()));
    wanted.map(|((_, path), _)| path.display().to_string()).collect()
}

fn as_json(refused: &Refusal, code: u8) -> serde_json::Value {
    let all = refused.iter().map(|((access, path), rule)| {
        json!({
            "access": word(*access), "path": path, "rule": rule, "opens": content(path),
            "setting": access.setting(path, rule.as_deref()),
        })
    });
    let sandbox =
        json!({ "read": openable(refused, Access::Read), "write": openable(refused, Access::Write) });
    json!({ "schema": 1, "exit": code, "refused": all.collect::<Vec<_>>(), "settings": { "sandbox": sandbox } })
}

fn rendered(refused: &Refusal) -> String {
    if refused.is_empty() {
        return "\nThe sandbox refused the command no file.\n".to_owned();
    }
    let mut said = "\nThe sandbox refused:\n".to_owned();
    for ((access, path), rule) in refused {
        let rule = match rule {
            None => "(no rule allows it)".to_owned(),
            // Most rules are about the path itself.
            Some(rule) => {
                match rule.strip_prefix(&*path.to_string_lossy()).and_then(|rest| rest.strip_prefix(' ')) {
                    Some(origin) => origin.to_owned(),
                    None => format!("by {rule}"),
                }
            }
        };
        let said_path = text::line(&short(path));
        said += &format!("  {:<5}  {said_path}: {} {}\n", word(*access), content(path), text::line(&rule));
    }
    let lists: Vec<_> = [Access::Read, Access::Write]
        .into_iter()
        .map(|access| (word(access), openable(refused, access)))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    if lists.is_empty() {
        return said + "Settings cannot open any of it.\n";
    }
    said += "To open all of it that settings can, in settings.yaml (delete what you would rather keep):\nsandbox:\n";
    for (key, paths) in lists {
        said += &format!("  {key}:\n");
        // JSON is valid YAML, so the quotes of the path are right.
        said.extend(paths.iter().map(|path| format!("    - {}\n", json!(short(Path::new(path))))));
    }
    said
}
