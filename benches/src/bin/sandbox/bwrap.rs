//! bubblewrap by itself, as one would call it for the same policy.

use std::path::{Path, PathBuf};

use watchfire_core::process::{CommandSpec, resolve_program};
use watchfire_core::sandbox::{RuleAccess, SandboxPolicy};

use crate::world::real;

/// A call up to where the command goes, with what of the policy is there. None without bubblewrap.
pub(crate) fn around(policy: &SandboxPolicy, names: &[PathBuf]) -> Option<CommandSpec> {
    let mut spec = CommandSpec::new(resolve_program(Path::new("bwrap")).ok()?)
        .with_args(["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--ro-bind", "/", "/"])
        .with_args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]);
    if !rustix::process::geteuid().is_root() {
        spec = spec.with_arg("--unshare-user");
    }
    for rule in &policy.rules {
        let Some(path) = real(&rule.path) else { continue };
        spec = match (rule.access, path.is_dir()) {
            (RuleAccess::Write, _) => spec.with_args([Path::new("--bind"), &path, &path]),
            (RuleAccess::Read, _) => spec.with_args([Path::new("--ro-bind"), &path, &path]),
            (RuleAccess::Deny, true) => spec.with_args([Path::new("--tmpfs"), &path]),
            (RuleAccess::Deny, false) => {
                spec.with_args([Path::new("--ro-bind"), Path::new("/dev/null"), &path])
            }
        };
    }
    let null = Path::new("/dev/null");
    Some(names.iter().fold(spec, |spec, name| spec.with_args([Path::new("--ro-bind"), null, name])))
}
