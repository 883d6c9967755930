//! What a command may use up.

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::model::ResourceLimits;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::conformance::{run, shell};
use watchfire_core::sandbox::{Control, ControlState, SandboxPolicy};

use crate::Bench;

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// Limits hold, cannot be raised inside, and where processes are not counted the report says so.
pub(crate) fn limits_hold(bench: Bench<'_>, _: Helper) -> Outcome {
    let mut limits = ResourceLimits::default();
    limits.processes = Some(12);
    limits.open_files = Some(32);
    limits.file_size_mb = Some(1);
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").limits(limits).note("a remark");
    let policy = policy.build().map_err(failed)?;
    let script = "ulimit -n; ulimit -n 64 2>/dev/null && echo raised; \
                  (trap '' XFSZ; head -c 3000000 /dev/zero > big) 2>/dev/null; wc -c < big; \
                  perl -e 'for(1..16){my $p=fork; if(!defined $p){$f=1;last} if(!$p){sleep 20;exit} push @p,$p} \
                  kill 9,@p; print $f?q{refused}:q{free}'";
    let command = shell(script).with_cwd(bench.scratch);
    let ran = run(bench.sandbox.prepare(&policy, command).map_err(|error| failed(error.report()))?);
    let ran = ran.map_err(failed)?;
    let counted = ran.report.state(Control::LIMITS) == Some(ControlState::Enforced);
    let expected = "32\n1048576\n";
    let refused = ran.stdout.ends_with("refused");
    let noted = ran.report.notes.iter().any(|note| note == "a remark");
    match ran.stdout.starts_with(expected) && refused == counted && noted {
        true => Ok(()),
        false => Err(NotPassed::Failed(format!("{counted}: {}{}{}", ran.stdout, ran.stderr, ran.report))),
    }
}

/// A fork bomb meets an end inside, also that of root, whose processes the limit of the kernel does not count. With the
/// control run outside, which makes all of its processes.
pub(crate) fn a_fork_bomb_ends(bench: Bench<'_>, _: Helper) -> Outcome {
    const BOMB: &str = "perl -e 'for(1..900){my $p=fork; if(!defined $p){$f=1;last} if(!$p){sleep 60;exit} push @p,$p} \
                        kill 9,@p; print $f?q{refused}:q{free}'";
    let outside = std::process::Command::new("sh").args(["-c", BOMB]).output().map_err(failed)?;
    if outside.stdout != b"free" {
        return Err(NotPassed::Skipped(
            "making 900 processes does not work without a sandbox either".to_owned(),
        ));
    }
    let mut limits = ResourceLimits::default();
    limits.processes = Some(400);
    let policy = SandboxPolicy::builder().write(bench.scratch, "scratch").limits(limits);
    let policy = policy.build().map_err(failed)?;
    let command = shell(BOMB).with_cwd(bench.scratch);
    let ran = run(bench.sandbox.prepare(&policy, command).map_err(|error| failed(error.report()))?);
    let ran = ran.map_err(failed)?;
    let counted = ran.report.state(Control::LIMITS) == Some(ControlState::Enforced)
        || ran.report.notes.iter().any(|note| note.ends_with("process numbers"));
    match (ran.stdout.as_str(), counted) {
        ("refused", true) => Ok(()),
        ("free", false) => Err(NotPassed::Skipped("the report says so".to_owned())),
        _ => Err(NotPassed::Failed(format!("{counted}: {}{}{}", ran.stdout, ran.stderr, ran.report))),
    }
}
