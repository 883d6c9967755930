//! The first sentence of a report: what a person wants to know of a policy.

use std::collections::BTreeSet;
use std::path::PathBuf;

use watchfire_core::sandbox::{Network, RuleAccess, SandboxPolicy};

use crate::linux::look::listening;
use crate::linux::report::facts::listed;

/// Beginning of the origins of rules for what belongs to the session.
const SESSION: &str = "the session's ";

/// Describes a policy in one sentence. `apart` if other programs of the user are out of reach, `own_network` if it has a network of its
/// own where it should.
pub(in crate::linux) fn of(policy: &SandboxPolicy, apart: bool, own_network: bool) -> String {
    let writes = writable(policy);
    let writes = match writes.is_empty() {
        true => "nothing of yours".to_owned(),
        false => listed(writes.into_iter()),
    };
    let reads = match policy.replaced.is_empty() {
        true => "it can read whatever no rule denies",
        false => {
            "it can read the system, toolchains with their settings, what is opened by name, and nothing else of your home"
        }
    };
    let talks = match &policy.network {
        Network::Closed => "it can talk to nobody".to_owned(),
        Network::Internet { closed_ports, .. } if own_network => {
            let mut talks =
                "it can talk to other machines and to nothing that listens on this one".to_owned();
            talks.push_str(&but_ports(closed_ports));
            talks
        }
        network => {
            let mut talks = "it can talk to any host, to 169.254.169.254 in clouds".to_owned();
            let ports = listening::ports(rustix::process::geteuid().as_raw());
            let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
            if !ports.is_empty() {
                let ports = listed(ports.into_iter());
                talks.push_str(&format!(
                    ", and to programs of yours that listen on this machine now (ports {ports})"
                ));
            }
            if let Network::OpenExceptPorts(closed) | Network::Internet { closed_ports: closed, .. } = network
            {
                talks.push_str(&but_ports(closed));
            }
            talks
        }
    };
    let apart = match apart {
        true => "it cannot reach your other programs that run when it starts in any other way",
        false => "it can reach other programs of yours through their sockets",
    };
    format!("This agent can write {writes}; {reads}; {talks}; {apart}.")
}

fn but_ports(closed: &[u16]) -> String {
    match closed.is_empty() {
        true => String::new(),
        false => format!(", but not by TCP to ports {}", listed(closed.iter().map(ToString::to_string))),
    }
}

/// Returns the folders and files that the command changes for good, without those inside of others. Those of the session itself
/// have long names that say nothing.
fn writable(policy: &SandboxPolicy) -> Vec<String> {
    let granted = || policy.rules.iter().filter(|rule| rule.access == RuleAccess::Write);
    let all: BTreeSet<&PathBuf> = granted().map(|rule| &rule.path).collect();
    let inside = |path: &PathBuf| path.ancestors().skip(1).any(|around| all.contains(&around.to_path_buf()));
    let (own, others): (Vec<_>, Vec<_>) =
        granted().filter(|rule| !inside(&rule.path)).partition(|rule| rule.origin.starts_with(SESSION));
    let others: BTreeSet<_> = others.into_iter().map(|rule| rule.path.display().to_string()).collect();
    let session = (!own.is_empty()).then(|| "the folders of its session".to_owned());
    others.into_iter().chain(session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_says_what_matters() {
        let policy = SandboxPolicy::builder()
            .deny("/home/u", "home")
            .write("/home/u/p/work", "workspace")
            .write("/home/u/p/work/deep", "inside")
            .write("/home/u/w/sessions/1/home", "the session's home")
            .write("/home/u/w/sessions/1/tmp", "the session's temporary files")
            .replace("/home/u")
            .network(Network::Closed)
            .build()
            .unwrap();
        let said = of(&policy, true, true);
        assert_eq!(
            said,
            "This agent can write /home/u/p/work, the folders of its session; it can read the system, toolchains with their settings, what is opened by \
             name, and nothing else of your home; it can talk to nobody; it cannot reach your other programs that run \
             when it starts in any other way."
        );
        let policy = policy.to_builder().network(Network::internet(vec![25])).build().unwrap();
        let talks = "it can talk to other machines and to nothing that listens on this one, but not by TCP to ports 25;";
        assert!(of(&policy, true, true).contains(talks));
        assert!(of(&policy, true, false).contains("it can talk to any host"));
    }
}
