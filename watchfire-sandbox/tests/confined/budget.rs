//! Nothing inside uses up what the keeper needs to keep hidden what is hidden.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::process::{Group, SpawnOptions, spawn};
use watchfire_core::sandbox::{NamePattern, Sandbox as _, SandboxPolicy};
use watchfire_sandbox::LinuxSandbox;

use crate::Bench;

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

const GLUTTON: &str = "test-glutton";

watchfire_core::register_helper_role!(GLUTTON, |args: RoleArgs| {
    let Some(file) = args.args().first().map(PathBuf::from) else { return 2 };
    let watcher = init(CreateFlags::CLOEXEC).unwrap();
    let mut folders = vec![PathBuf::from("/usr")];
    let mut count = 0;
    'all: while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            match add_watch(&watcher, entry.path(), WatchFlags::CREATE | WatchFlags::DONT_FOLLOW) {
                Ok(_) => count += 1,
                Err(rustix::io::Errno::NOSPC) => break 'all,
                Err(_) => {}
            }
        }
    }
    println!("used {count}");
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let state = match std::fs::File::open(&file).map_err(|error| error.kind()) {
            Ok(_) => "open",
            Err(std::io::ErrorKind::NotFound) => "missing",
            Err(_) => "covered",
        };
        println!("{state}");
        std::thread::sleep(Duration::from_millis(20));
    }
    0
});

/// Time limit for anything.
const PATIENCE: Duration = Duration::from_secs(20);

const WATCHES: &str = "test-watches";

watchfire_core::register_helper_role!(WATCHES, |args: RoleArgs| {
    let scratch = args.args().first().map(PathBuf::from).unwrap_or_default();
    let outcome = match args.args().get(1).is_some_and(|whose| whose == "own") {
        true => a_later_name_is_covered(&scratch),
        false => the_session_ends(&scratch),
    };
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why:?}");
            1
        }
    }
});

/// A session in which a program has used all watches that it can have. A secret has appeared since.
struct Used {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    guard: Box<dyn watchfire_core::sandbox::SandboxGuard>,
}

fn use_all(scratch: &Path) -> Result<Used, NotPassed> {
    let exe = std::env::current_exe().map_err(failed)?;
    let helper = Helper::at(&exe).map_err(failed)?;
    let project = scratch.join("project");
    std::fs::create_dir(&project).map_err(failed)?;
    let pattern = NamePattern {
        root: project.clone(),
        names: vec![".env".to_owned()],
        except: Vec::new(),
        origin: "names".to_owned(),
    };
    // Below `/tmp` it would not show otherwise.
    let policy = SandboxPolicy::builder().pattern(pattern).read(project.clone(), "the project");
    let policy = policy.build().map_err(failed)?;
    let secret = project.join("new/.env");
    let command = helper.command(GLUTTON, [&secret]).with_program(exe).with_cwd("/");
    let confined = LinuxSandbox::new(helper).prepare(&policy, command);
    let confined = confined.map_err(|error| failed(error.report()))?;
    let options = SpawnOptions::default().with_stdout(Stdio::piped()).with_group(Group::Session);
    let mut child =
        spawn(&confined.command, options.with_descriptors(confined.descriptors)).map_err(failed)?;
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(|| failed("no stdout"))?).lines();
    let first = lines.next().ok_or_else(|| failed(confined.guard.report()))?.map_err(failed)?;
    if !first.starts_with("used ") {
        return Err(failed(first));
    }
    // A folder that no watch is on yet.
    std::fs::create_dir(project.join("new")).map_err(failed)?;
    std::fs::write(&secret, "SECRET").map_err(failed)?;
    Ok(Used { child, lines, guard: confined.guard })
}

fn a_later_name_is_covered(scratch: &Path) -> Outcome {
    let mut used = use_all(scratch)?;
    let mut seen = Vec::new();
    for line in used.lines.by_ref() {
        seen.push(line.map_err(failed)?);
        if seen.last().is_some_and(|state| state == "covered") {
            used.child.kill().and_then(|()| used.child.wait()).map_err(failed)?;
            return Ok(());
        }
    }
    used.child.wait().map_err(failed)?;
    Err(failed(format!("not covered: {}; {}", seen.join(" "), used.guard.report())))
}

fn the_session_ends(scratch: &Path) -> Outcome {
    let mut used = use_all(scratch)?;
    let last = used.lines.by_ref().last();
    let code = used.child.wait().map_err(failed)?.code();
    let report = used.guard.report().to_string();
    match code == Some(126) && report.contains("could not be watched any more") {
        true => Ok(()),
        false => Err(failed(format!("code {code:?}, last {last:?}\n{report}"))),
    }
}

/// Watches that a program inside uses up are its own where the kernel counts them apart, which it does in a user
/// namespace. Elsewhere the session ends.
pub(crate) fn watches_cannot_be_used_up(bench: Bench<'_>, helper: Helper) -> Outcome {
    if bench.sandbox.probe().title() != "landlock" {
        return Err(NotPassed::Skipped("nobody watches in this sandbox, and the report says so".to_owned()));
    }
    const FEW: &str = "echo 400 > /proc/sys/user/max_inotify_watches || exit 99; exec \"$@\"";
    // Without this one, our helper makes a user namespace of its own.
    let less = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
    for (whose, wrapper) in [("own", &less[..]), ("shared", &[])] {
        let scratch = bench.scratch.join(whose);
        std::fs::create_dir(&scratch).map_err(failed)?;
        let role = helper.command(WATCHES, [scratch.as_os_str(), whose.as_ref()]);
        let mut command = Command::new("unshare");
        command.args(["-Ur", "sh", "-c", FEW, "sh"]).args(wrapper);
        command.arg(std::env::current_exe().map_err(failed)?).args(role.args()).current_dir("/");
        let ran = command.output().map_err(failed)?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if said.starts_with("unshare:") || ran.status.code() == Some(99) {
            return Err(NotPassed::Skipped(format!("no user namespaces: {}", said.trim())));
        }
        if !ran.status.success() {
            return Err(failed(format!("{whose}: {said}")));
        }
    }
    Ok(())
}
