//! Advice for machines that give no namespaces.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// A way to let a program make namespaces on this machine.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Way {
    /// The change, in words.
    pub title: String,
    /// The command that does it.
    pub command: String,
}

/// Folder of AppArmor's profiles.
const PROFILES: &str = "/etc/apparmor.d";

/// Returns an AppArmor profile that lets `program` make user namespaces and holds it in no other way.
///
/// Ubuntu forbids them to programs without such a profile.
#[must_use]
pub fn apparmor_profile(program: &Path) -> String {
    let mut path = String::new();
    for c in program.to_string_lossy().chars() {
        // Characters that mean something in the names of profiles.
        if r#"*?[]{}^"\"#.contains(c) {
            path.push('\\');
        }
        path.push(c);
    }
    format!(
        "abi <abi/4.0>,\ninclude <tunables/global>\n\nprofile watchfire \"{path}\" flags=(unconfined) {{\n  userns,\n  \
         include if exists <local/watchfire>\n}}\n"
    )
}

/// Returns the ways to let programs make namespaces on this machine, best first.
#[must_use]
pub fn ways_to_namespaces() -> Vec<Way> {
    Obstacles::here().ways()
}

/// Returns how to get namespaces on this machine, and how to do without, unless less is `accepted` already.
pub(in crate::linux) fn for_namespaces(accepted: bool) -> String {
    let ways = ways_to_namespaces();
    let way = ways.first().map_or_else(String::new, |way| format!("{}: {}; ", way.title, way.command));
    let less =
        if accepted { "" } else { "; or accept less with `sandbox: {step_down: allow}` in settings.yaml" };
    format!("{way}`watchfire sandbox setup` shows each way{less}")
}

/// Reasons why namespaces may be refused.
#[derive(Clone, Copy, Debug, Default)]
struct Obstacles {
    apparmor: bool,
    no_clone: bool,
    none_left: bool,
    container: bool,
}

impl Obstacles {
    fn here() -> Self {
        let setting = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let is = |path: &str, value: &str| setting(path).as_deref() == Some(value);
        Self {
            apparmor: is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            no_clone: is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
            none_left: is("/proc/sys/user/max_user_namespaces", "0"),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists()),
        }
    }

    fn ways(self) -> Vec<Way> {
        let way = |title: &str, command: &str| Way { title: title.to_owned(), command: command.to_owned() };
        let mut ways = Vec::new();
        // A container has the settings of its host, which it cannot change.
        if self.container {
            ways.push(way(
                "start the container with namespaces",
                "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined … (and --cap-add SYS_ADMIN \
                 if you are root in it)",
            ));
        }
        if self.apparmor {
            let file = format!("{PROFILES}/watchfire");
            ways.push(way(
                "allow them to this program alone, by an AppArmor profile",
                &format!(
                    "watchfire sandbox setup --profile | sudo tee {file} > /dev/null && sudo apparmor_parser -r {file}"
                ),
            ));
            ways.push(way(
                "allow them to every program, until the next start",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ));
        }
        if self.no_clone {
            ways.push(way("allow them", "sudo sysctl -w kernel.unprivileged_userns_clone=1"));
        }
        if self.none_left {
            ways.push(way("allow some", "sudo sysctl -w user.max_user_namespaces=10000"));
        }
        if ways.is_empty() {
            ways.push(way(
                "install bubblewrap, which some systems let make them",
                "sudo apt-get install bubblewrap",
            ));
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_has_a_way() {
        let none = Obstacles::default();
        for (obstacles, first) in [
            (Obstacles { apparmor: true, ..none }, "setup --profile | sudo tee /etc/apparmor.d/watchfire "),
            (Obstacles { no_clone: true, ..none }, "kernel.unprivileged_userns_clone=1"),
            (Obstacles { none_left: true, ..none }, "user.max_user_namespaces="),
            (Obstacles { container: true, apparmor: true, ..none }, "--security-opt apparmor=unconfined"),
            (none, "bubblewrap"),
        ] {
            let ways = obstacles.ways();
            assert!(ways[0].command.contains(first), "{obstacles:?}: {ways:?}");
        }
        assert_eq!(Obstacles { apparmor: true, ..none }.ways().len(), 2, "the setting is the second way");
    }

    #[test]
    fn a_profile_is_for_exactly_one_program() {
        let profile = apparmor_profile(Path::new(r#"/home/u/my tools/[a]*"b/watchfire"#));
        assert!(
            profile.contains(r#"profile watchfire "/home/u/my tools/\[a\]\*\"b/watchfire" flags"#),
            "{profile}"
        );
        assert!(profile.contains("userns,") && profile.starts_with("abi <abi/4.0>"), "{profile}");
    }
}
