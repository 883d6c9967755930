//! `watchfire version`: prints version and platform, and the version of the daemon that runs.

use serde_json::json;
use watchfire_client::{ApiError, Daemon};

use crate::context::{Context, home_path};
use crate::failure::Exit;
use crate::text;

pub(in crate::commands) async fn run(context: &Context) -> Exit {
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let daemon = of_daemon().await;
    let value = json!({ "version": version, "os": os, "arch": arch, "daemon": daemon.as_ref().ok() });
    context.out.report(value, |_| {
        let daemon = match &daemon {
            Ok(version) => format!("daemon {}\n", text::line(version)),
            Err(error) if error.is_gone() => String::new(),
            Err(error) => format!("daemon: {}\n", text::line(&error.message)),
        };
        format!("watchfire {version} ({os} {arch})\n{daemon}")
    });
    Exit::Good
}

/// Returns the version of the daemon that runs.
async fn of_daemon() -> Result<String, ApiError> {
    let daemon = Daemon::connect(&home_path()?).await?;
    Ok(daemon.service().get_status(()).await?.into_inner().version)
}
