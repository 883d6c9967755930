//! Advice for machines that give no namespaces.

use std::fs;
use std::path::Path;

/// Returns how to get namespaces on this machine, and how to do without.
pub(super) fn for_namespaces() -> String {
    let setting = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let is = |path: &str, value: &str| setting(path).as_deref() == Some(value);
    let container = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists());
    let way = if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "allow them: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns,` \
         for this program"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "allow them: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "allow them: sudo sysctl -w user.max_user_namespaces=10000"
    } else if container {
        "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, and \
         --cap-add SYS_ADMIN if you are root in it"
    } else {
        "install bwrap, or allow user namespaces on this machine"
    };
    format!("{way}; or accept less with `sandbox: {{step_down: allow}}` in settings.yaml")
}
