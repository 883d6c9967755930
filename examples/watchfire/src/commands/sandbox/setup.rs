//! `watchfire sandbox setup`: shows the commands that let the sandbox work on this machine.

use clap::Args;
use serde_json::json;
use watchfire_core::{Error, ErrorKind};

use crate::commands::doctor;
use crate::compose;
use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
The sandbox needs namespaces, which some systems forbid: Ubuntu to programs without an AppArmor profile, docker to containers.
It changes nothing; the commands that it prints do.

Examples:
  watchfire sandbox setup
  watchfire sandbox setup --profile

Exit codes: 0 nothing is to be done, 3 something is.")]
pub(crate) struct SetupArgs {
    /// Print the AppArmor profile for this program and nothing else
    #[arg(long)]
    profile: bool,
}

pub(super) async fn run(context: &Context, args: SetupArgs) -> Result<Exit> {
    // An AppArmor profile is for one path, and links do not count for it.
    let program = std::env::current_exe().and_then(|path| path.canonicalize());
    let program = program.map_err(|error| Error::io("looking for this program", error))?;
    #[cfg(target_os = "linux")]
    let (profile, ways) =
        (watchfire_sandbox::apparmor_profile(&program), watchfire_sandbox::ways_to_namespaces());
    #[cfg(not(target_os = "linux"))]
    // Namespaces and AppArmor exist on Linux only.
    let (profile, ways) = (String::new(), Vec::<String>::new());
    if args.profile {
        context.out.report(json!({ "program": program, "profile": profile }), |_| profile.clone());
        return Ok(Exit::Good);
    }
    let sandboxes = compose::sandboxes()?;
    let trying = tokio::task::spawn_blocking(move || {
        sandboxes.iter().any(|sandbox| doctor::is_whole(&sandbox.probe()))
    });
    let works = trying.await;
    let works =
        works.map_err(|e| Error::new(ErrorKind::Internal, "looking at this machine").with_source(e))?;
    let value = json!({ "namespaces": works, "program": program, "profile": profile, "ways": ways });
    context.out.report(value, |out| {
        if works {
            return "the sandbox has what it needs here: nothing is to be done\n".to_owned();
        }
        let mut text = "the sandbox needs namespaces, which this machine does not give. One of:\n".to_owned();
        #[cfg(target_os = "linux")]
        for way in &ways {
            text.push_str(&format!("\n  {}\n    {}\n", out.style.bold(&way.title), way.command));
        }
        // Unused on systems without these ways.
        let _ = out;
        text.push_str("\nor accept a weaker sandbox, in settings.yaml:\n    sandbox: {step_down: allow}\n");
        #[cfg(target_os = "linux")]
        if ways.iter().any(|way| way.command.contains("--profile")) {
            text.push_str(&format!("\nThe profile:\n\n{profile}"));
        }
        text
    });
    Ok(if works { Exit::Good } else { Exit::NeedsPerson })
}
