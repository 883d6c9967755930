//! Which sandboxes there are, best first.

use std::path::Path;
use std::sync::Arc;

use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{Sandbox, SandboxSet};

use crate::base_policy;

/// Returns the sandboxes of this platform, in the order in which `auto` tries them, over the [`base_policy()`].
///
/// On Linux: our own namespaces with Landlock and seccomp; then the same with namespaces made by `bwrap`, where that is
/// installed; then Landlock and seccomp without namespaces, a step that goes by the name `landlock` too; then birdcage,
/// where its helper is installed. On macOS: Seatbelt.
///
/// Their commands start as `helper`: this very program ([`Helper::current`]) or another one.
#[must_use]
pub fn sandboxes(helper: Helper) -> SandboxSet {
    ladder(helper, None)
}

/// Returns the same sandboxes, which remember in `folder` which mechanisms work, until the machine starts again. No
/// agent may be able to write there.
#[must_use]
pub fn sandboxes_remembering(helper: Helper, folder: &Path) -> SandboxSet {
    ladder(helper, Some(folder))
}

/// The names of the sandboxes of other platforms.
const ELSEWHERE: &[&str] = match cfg!(target_os = "linux") {
    true => &["seatbelt"],
    false => &["landlock", "bwrap", "birdcage"],
};

fn ladder(helper: Helper, folder: Option<&Path>) -> SandboxSet {
    #[cfg(target_os = "linux")]
    let ladder: Vec<Arc<dyn Sandbox>> = {
        use crate::linux::LinuxSandbox;
        let step = |sandbox: LinuxSandbox| match folder {
            Some(folder) => sandbox.remembering(folder),
            None => sandbox,
        };
        let best = step(LinuxSandbox::new(helper.clone()));
        vec![
            Arc::new(best.clone()),
            Arc::new(step(LinuxSandbox::bwrap(helper.clone())).below(&best)),
            Arc::new(best.clone().without_namespaces()),
            Arc::new(step(LinuxSandbox::birdcage(helper)).below(&best)),
        ]
    };
    #[cfg(not(target_os = "linux"))]
    let ladder: Vec<Arc<dyn Sandbox>> = {
        let _ = (helper, folder);
        if cfg!(target_os = "macos") { vec![Arc::new(crate::Seatbelt::new())] } else { Vec::new() }
    };
    SandboxSet::new(ladder, base_policy).with_elsewhere(ELSEWHERE.iter().copied())
}
