//! Terminals, signals and ends.

use std::io::{BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::Helper;
use watchfire_core::process::{Group, SpawnOptions, spawn};
use watchfire_core::sandbox::conformance::shell;
use watchfire_core::sandbox::{SandboxGuard, SandboxPolicy};

use crate::Bench;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

fn start(
    bench: Bench<'_>,
    script: &str,
    options: SpawnOptions,
) -> Result<(Child, Box<dyn SandboxGuard>), NotPassed> {
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").build().map_err(failed)?;
    let command = shell(script).with_cwd(bench.scratch).with_env("TERM", "xterm");
    let confined = bench.sandbox.prepare(&policy, command).map_err(failed)?;
    let child = spawn(&confined.command, options.with_descriptors(confined.descriptors));
    Ok((child.map_err(failed)?, confined.guard))
}

/// Reads until the text is there.
fn wait_for(from: &mut (impl std::io::Read + AsFd), wanted: &str) -> Result<String, NotPassed> {
    let deadline = Instant::now() + PATIENCE;
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains(wanted) {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(failed)?;
        let ready = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&left)).unwrap_or(0);
        let count = if ready == 0 { 0 } else { from.read(&mut buffer).unwrap_or(0) };
        if count == 0 || Instant::now() > deadline {
            return Err(NotPassed::Failed(format!("{wanted:?} did not come: {text:?}")));
        }
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    Ok(text)
}

fn exit_code(child: &mut Child) -> Result<Option<i32>, NotPassed> {
    Ok(child.wait().map_err(failed)?.code())
}

/// In a terminal: it is one, by name too; jobs can be controlled; its size and Ctrl+C arrive.
pub(crate) fn terminals_work(bench: Bench<'_>, _: Helper) -> Outcome {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(failed)?;
    grantpt(&master).and_then(|()| unlockpt(&master)).map_err(failed)?;
    let name = ptsname(&master, Vec::new()).map_err(failed)?;
    let slave = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_string_lossy().as_ref())
        .map_err(failed)?;
    let copy = |file: &std::fs::File| file.try_clone().map(OwnedFd::from).map(Stdio::from).map_err(failed);
    let options = SpawnOptions::default()
        .with_stdin(copy(&slave)?)
        .with_stdout(copy(&slave)?)
        .with_stderr(copy(&slave)?)
        .with_group(Group::Terminal);
    // Without noflsh the terminal throws away what the handler prints at once.
    let script = "stty noflsh; test -t 0 && tty -s && tty > /dev/null && : < /dev/tty && echo is-terminal; \
                  sh -ic 'sleep 0.05 & fg %1 > /dev/null && echo jobs-done'; \
                  exec perl -e '$|=1; $SIG{WINCH}=sub{print \"size \".`stty size`}; \
                  $SIG{INT}=sub{print \"interrupted\\n\"; exit 9}; print \"ready\\n\"; sleep 1 while 1'";
    let (mut child, _guard) = start(bench, script, options)?;
    drop(slave);
    let mut master = std::fs::File::from(master);
    let ready = wait_for(&mut master, "ready")?;
    tcsetwinsize(&master, Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 }).map_err(failed)?;
    wait_for(&mut master, "size 33 77")?;
    master.write_all(b"\x03").map_err(failed)?;
    wait_for(&mut master, "interrupted")?;
    let code = exit_code(&mut child)?;
    if code == Some(9) && ready.contains("is-terminal") && ready.contains("jobs-done") {
        return Ok(());
    }
    Err(NotPassed::Failed(format!("code {code:?}, {ready:?}")))
}

fn piped() -> SpawnOptions {
    SpawnOptions::default().with_stdout(Stdio::piped()).with_group(Group::Session)
}

/// What is sent to the process that was started arrives at the program.
pub(crate) fn signals_arrive(bench: Bench<'_>, _: Helper) -> Outcome {
    if matches!(bench.sandbox.name(), "bwrap" | "birdcage") {
        return Err(NotPassed::Skipped(
            "this sandbox hands no signals on, and the report says so".to_owned(),
        ));
    }
    for (name, signal) in [("TERM", rustix::process::Signal::TERM), ("USR1", rustix::process::Signal::USR1)] {
        let script =
            format!("exec perl -e '$|=1; $SIG{{{name}}}=sub{{exit 5}}; print \"ready\\n\"; sleep 1 while 1'");
        let (mut child, _guard) = start(bench, &script, piped())?;
        let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        wait_for(&mut stdout, "ready")?;
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.ok_or_else(|| failed("no pid"))?, signal).map_err(failed)?;
        let code = exit_code(&mut child)?;
        if code != Some(5) {
            return Err(NotPassed::Failed(format!("{name}: code {code:?}")));
        }
    }
    Ok(())
}

/// Killing the process that was started ends the program, and so does the program's end all that it left behind.
pub(crate) fn ends_are_ends(bench: Bench<'_>, _: Helper) -> Outcome {
    let namespaces = {
        let policy = SandboxPolicy::builder().build().map_err(failed)?;
        let report = bench.sandbox.explain(&policy).map_err(failed)?;
        report.state("no process outlives the command")
            == Some(watchfire_core::sandbox::ControlState::Enforced)
    };
    if !namespaces {
        return Err(NotPassed::Skipped("this sandbox leaves survivors to the guardian".to_owned()));
    }
    // The pipe closes when the last process that holds it is gone.
    let left_behind = "setsid sleep 600 & setsid sh -c 'trap \"\" TERM HUP INT; sleep 600' & \
         setsid sh -c 'kill -STOP $$' & setsid sh -c 'while :; do (:) & wait; done' & echo ready; exit 4";
    let (mut child, _guard) = start(bench, left_behind, piped())?;
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
    let code = exit_code(&mut child)?;
    // Of ours it has closed when the end is told.
    let mut closed = [PollFd::new(&stdout, PollFlags::empty())];
    let hung_up = poll(&mut closed, Some(&Timespec::default())).map_err(failed)? == 1;
    if bench.sandbox.name() == "landlock" && !hung_up {
        return Err(NotPassed::Failed("something inside was alive after the end".to_owned()));
    }
    stdout.read_to_end(&mut Vec::new()).map_err(failed)?;
    if code != Some(4) {
        return Err(NotPassed::Failed(format!("code {code:?}")));
    }
    let (mut child, _guard) = start(bench, "setsid sleep 600 & echo ready; sleep 600", piped())?;
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
    wait_for(&mut stdout, "ready")?;
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)?;
    stdout.read_to_end(&mut Vec::new()).map_err(failed)?;
    let (mut child, _guard) = start(bench, "kill -9 $$", piped())?;
    match child.wait().map_err(failed)?.code() {
        Some(137) => Ok(()),
        code => Err(NotPassed::Failed(format!("killed by 9: code {code:?}"))),
    }
}

/// It works where the process group lies outside of the process namespace, as below `unshare` or a container's runner.
pub(crate) fn works_in_a_group_that_cannot_be_seen(bench: Bench<'_>, _: Helper) -> Outcome {
    if !crate::places::is_root() {
        return Err(NotPassed::Skipped("not root, who alone may leave a group behind like this".to_owned()));
    }
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").build().map_err(failed)?;
    let command = shell("echo inside").with_cwd(bench.scratch);
    let confined = bench.sandbox.prepare(&policy, command).map_err(failed)?;
    let command = confined.command.wrapped_by("unshare", ["--pid", "--fork", "--"]);
    let options = piped().with_descriptors(confined.descriptors);
    let mut child = spawn(&command, options).map_err(failed)?;
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
    wait_for(&mut stdout, "inside")?;
    match exit_code(&mut child)? {
        Some(0) => Ok(()),
        code => Err(NotPassed::Failed(format!("code {code:?}"))),
    }
}

/// So they do where other programs have taken all watchers that the kernel has for this user.
pub(crate) fn replaced_files_stay_covered_without_watchers(bench: Bench<'_>, _: Helper) -> Outcome {
    if bench.sandbox.name() != "landlock" {
        return Err(NotPassed::Skipped("nobody watches in this sandbox, and the report says so".to_owned()));
    }
    let own = std::env::current_exe().map_err(failed)?;
    let ran = Command::new("unshare")
        .args([
            "-Ur",
            "sh",
            "-c",
            "echo 0 > /proc/sys/user/max_inotify_instances || exit 99; exec \"$@\"",
            "sh",
        ])
        .arg(own)
        .args(["--exact", "landlock::replaced_files_stay_covered", "--test-threads=1"])
        .output()
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&ran.stdout);
    match ran.status.success() {
        true if said.contains("1 passed") => Ok(()),
        true => Err(NotPassed::Skipped(format!("this sandbox does not cover names: {said}"))),
        false if said.is_empty() => {
            let why = String::from_utf8_lossy(&ran.stderr);
            Err(NotPassed::Skipped(format!("no user namespaces: {}", why.trim())))
        }
        false => Err(failed(said.replace("---- ", ""))),
    }
}

/// A covered name that an editor outside replaces by a rename stays covered, and so does a read-only file.
pub(crate) fn replaced_files_stay_covered(bench: Bench<'_>, _: Helper) -> Outcome {
    stay_covered(bench, "", |path, round| {
        let other = path.with_extension("new");
        std::fs::write(&other, format!("round {round}"))?;
        std::fs::rename(&other, path)
    })?;
    match std::fs::read_to_string(bench.scratch.join("w/.env")).map_err(failed)?.as_str() {
        "round 3" => Ok(()),
        other => Err(NotPassed::Failed(format!("the file outside is {other:?}"))),
    }
}

/// So they do while programs inside make events and orphans as fast as they can, in the folder that is watched.
pub(crate) fn replaced_files_stay_covered_in_a_flood(bench: Bench<'_>, _: Helper) -> Outcome {
    const FLOOD: &str = "for n in 1 2 3 4; do perl -e 'while(1){ open(F,q{>},qq{w/f$$}); rename(qq{w/f$$},qq{w/g$$}); \
                         unlink(qq{w/g$$}) }' & done; perl -e 'while(1){ if(!fork){ fork; exit } wait }' & ";
    stay_covered(bench, FLOOD, |path, round| {
        let other = path.with_extension("new");
        std::fs::write(&other, format!("round {round}"))?;
        std::fs::rename(&other, path)
    })
}

/// A folder that takes the place of a covered file is covered too.
pub(crate) fn a_folder_in_place_of_a_file_is_covered(bench: Bench<'_>, _: Helper) -> Outcome {
    stay_covered(bench, "", |path, round| {
        if path.ends_with(".git") {
            return Ok(());
        }
        let (old, new) = (path.with_extension("old"), path.with_extension("new"));
        std::fs::create_dir(&new)?;
        std::fs::write(new.join("x"), format!("round {round}"))?;
        std::fs::rename(path, old.with_extension(round.to_string()))?;
        std::fs::rename(new, path)
    })
}

/// The program moves the folder of a covered name, and somebody outside replaces the file there: it stays covered.
pub(crate) fn a_covered_name_moves_with_its_folder(bench: Bench<'_>, _: Helper) -> Outcome {
    if bench.sandbox.probe().title() != "landlock" {
        return Err(NotPassed::Skipped("nobody watches in this sandbox, and the report says so".to_owned()));
    }
    let at = |name: &str| bench.scratch.join(name);
    std::fs::create_dir_all(at("w/a"))
        .and_then(|()| std::fs::write(at("w/a/.env"), "first"))
        .map_err(failed)?;
    let pattern = watchfire_core::sandbox::NamePattern {
        root: bench.scratch.to_owned(),
        names: vec![".env".to_owned()],
        except: Vec::new(),
        origin: "names".to_owned(),
    };
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").pattern(pattern);
    let script = "mv w/a w/b && exec perl -e '$|=1; for(1..600){ my $r=open(F,q{<},q{w/b/.env})?1:0; print qq{try $r\n}; \
                  select undef,undef,undef,0.02 }'";
    let command = shell(script).with_cwd(bench.scratch);
    let confined = bench.sandbox.prepare(&policy.build().map_err(failed)?, command).map_err(failed)?;
    let options = piped().with_descriptors(confined.descriptors);
    let mut child = spawn(&confined.command, options).map_err(failed)?;
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
    wait_for(&mut stdout, "try 0")?;
    std::fs::write(at("w/b/.env.new"), "second").map_err(failed)?;
    std::fs::rename(at("w/b/.env.new"), at("w/b/.env")).map_err(failed)?;
    // It may see something for a moment, and lines from before may still be in the pipe.
    let lines = std::io::BufReader::new(stdout).lines().take(60);
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    child.kill().and_then(|()| child.wait()).map_err(failed)?;
    match lines.iter().rev().take(20).all(|line| line == "try 0") {
        true => Ok(()),
        false => Err(failed(format!("the new one can be read: {}", lines.join(" ")))),
    }
}

/// Lets `replace` put something else in place of a covered and of a read-only file, three times, while a program inside tries to
/// read the one and to write the other.
fn stay_covered(
    bench: Bench<'_>,
    beside: &str,
    replace: impl Fn(&std::path::Path, u32) -> std::io::Result<()>,
) -> Outcome {
    if matches!(bench.sandbox.name(), "bwrap" | "birdcage") {
        return Err(NotPassed::Skipped("nobody watches in this sandbox, and the report says so".to_owned()));
    }
    let (secret, pointer) = (bench.scratch.join("w/.env"), bench.scratch.join("w/.git"));
    std::fs::create_dir(bench.scratch.join("w")).map_err(failed)?;
    for path in [&secret, &pointer] {
        std::fs::write(path, "first").map_err(failed)?;
    }
    let pattern = watchfire_core::sandbox::NamePattern {
        root: bench.scratch.to_owned(),
        names: vec![".env".to_owned()],
        except: Vec::new(),
        origin: "names".to_owned(),
    };
    let policy =
        SandboxPolicy::builder().write(bench.scratch, "scratch").read(&pointer, "pointer").pattern(pattern);
    let policy = policy.build().map_err(failed)?;
    let open = bench.sandbox.explain(&policy).map_err(failed)?;
    if open.state(watchfire_core::sandbox::Control::READ_ONLY)
        != Some(watchfire_core::sandbox::ControlState::Enforced)
    {
        return Err(NotPassed::Skipped("this sandbox does not cover names in writable folders".to_owned()));
    }
    // Tries for as long as it takes, up to a deadline; each line says how it is.
    let script = "exec perl -e '$|=1; sub try{ open(F,q{<},shift) && defined(<F>) } for(1..600){ \
                  my $r=try(q{w/.env})||try(q{w/.env/x})?1:0; my $w=open(G,q{>>},q{w/.git})?1:0; \
                  print qq{try $r$w\\n}; select undef,undef,undef,0.02 }'";
    let command = shell(&format!("{beside}{script}")).with_cwd(bench.scratch);
    let confined = bench.sandbox.prepare(&policy, command).map_err(failed)?;
    let options = piped().with_descriptors(confined.descriptors);
    let mut child = spawn(&confined.command, options).map_err(failed)?;
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
    wait_for(&mut stdout, "try 00")?;
    let mut lines = std::io::BufReader::new(stdout).lines();
    let outcome = (1..=3).try_for_each(|round| {
        for path in [&secret, &pointer] {
            replace(path, round).map_err(failed)?;
        }
        // Lines from before may still be in the pipe; then it may see something for a moment, and then nothing again.
        let mut covered = 0;
        for (count, line) in lines.by_ref().take(100).enumerate() {
            covered = if line.map_err(failed)? == "try 00" { covered + 1 } else { 0 };
            if count >= 15 && covered >= 5 {
                return Ok(());
            }
        }
        Err(NotPassed::Failed(format!("round {round}: what was replaced stays open")))
    });
    child.kill().and_then(|()| child.wait()).map_err(failed)?;
    outcome
}
