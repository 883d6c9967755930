//! `watchfire version`: prints version and platform.

use serde_json::json;

use crate::context::Context;
use crate::failure::Exit;

pub(in crate::commands) fn run(context: &Context) -> Exit {
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    context.out.report(json!({ "version": version, "os": os, "arch": arch }), |_| {
        format!("watchfire {version} ({os} {arch})\n")
    });
    Exit::Good
}
