//! What programs say that meet a sandbox without naming a file, and what a person can do about it.

use super::{Refusal, Refused};
use crate::sandbox::{Control, ControlState, Network, PolicyReport, SandboxPolicy};

/// Programs' own words for one thing that a sandbox keeps from them.
struct Usual {
    /// Beginnings of lines. A star stands for any text.
    said: &'static [&'static str],
    /// Returns true if the sandbox can be the cause.
    because: fn(&SandboxPolicy, &PolicyReport) -> bool,
    advice: &'static str,
}

const USUAL: &[Usual] = &[
    Usual {
        said: &[
            "Cannot connect to the Docker daemon",
            "docker: Cannot connect to the Docker daemon",
            "docker: permission denied while trying to connect",
            "docker: failed to connect to the docker API",
            "permission denied while trying to connect to the Docker daemon socket",
            "Got permission denied while trying to connect to the Docker daemon socket",
            "permission denied while trying to connect to the docker API",
            "failed to connect to the docker API",
        ],
        because: hides,
        advice: "no agent reaches docker, because who does is root on this machine; to allow it, in settings.yaml: \
                 sandbox: {write: [\"/var/run/docker.sock\"]}",
    },
    Usual {
        said: &[
            "fatal: could not read Username for ",
            "fatal: could not read Password for ",
            "fatal: Authentication failed for ",
            "remote: Support for password authentication was removed",
        ],
        because: hides,
        advice: "agents have none of your git's logins: commits are merged here, and you push them",
    },
    Usual {
        said: &[
            "*@*: Permission denied (publickey",
            "Host key verification failed",
            "Could not open a connection to your authentication agent",
            "Error connecting to agent: ",
        ],
        because: hides,
        advice: "agents have neither your ssh keys nor your ssh agent: what needs them is yours to do",
    },
    Usual {
        said: &[
            "To get started with GitHub CLI, please run:",
            "You are not logged into any GitHub hosts",
            "gh: To use GitHub CLI in ",
        ],
        because: hides,
        advice: "agents have no login of gh; to give them yours, in settings.yaml: sandbox: {pass_env: [GH_TOKEN]}",
    },
    Usual {
        said: &[
            "*:FATAL:*No usable sandbox!",
            "*:ERROR:*Running as root without --no-sandbox is not supported",
            "bwrap: No permissions to create",
            "bwrap: Creating new namespace failed",
            "bwrap: setting up uid map",
            "unshare: unshare failed: Operation not permitted",
        ],
        because: hides,
        advice: "a program cannot make a sandbox of its own inside of this one: turn its own off (chromium: --no-sandbox), \
                 this one holds",
    },
    Usual {
        said: &[
            "sudo: The \"no new privileges\" flag is set",
            "sudo: effective uid is not 0",
            "sudo: a password is required",
            "sudo: a terminal is required",
        ],
        because: hides,
        advice: "nothing inside gets more rights: install what the project needs outside, or in setup: of project.yaml",
    },
    Usual {
        said: &[
            "*Could not resolve host",
            "*Temporary failure in name resolution",
            "*getaddrinfo EAI_AGAIN",
            "*Network is unreachable",
        ],
        because: |policy, _| policy.network == Network::Closed,
        advice: "the network is closed: sandbox: {network: open} in settings.yaml, if the project does not close it",
    },
    Usual {
        said: &[
            "*Connection refused*127.0.0.1",
            "*Connection refused*localhost",
            "*127.0.0.1*Connection refused",
            "*localhost*Connection refused",
            "*ECONNREFUSED 127.0.0.1",
            "*ECONNREFUSED ::1",
            "*Failed to connect to 127.0.0.1",
            "*Failed to connect to localhost",
        ],
        because: |policy, _| matches!(policy.network, Network::Internet { .. }),
        advice: "of this machine only what it starts itself can be reached: sandbox: {network: open} in settings.yaml, \
                 if the project does not close it",
    },
];

fn hides(_: &SandboxPolicy, report: &PolicyReport) -> bool {
    report.state(Control::HIDDEN).is_some_and(|state| state != ControlState::Open)
}

/// Longest line that is examined, in bytes.
const LONGEST: usize = 4096;

/// Finds the usual refusals in the output of a failed program, each one once.
pub(super) fn find(output: &str, policy: &SandboxPolicy, report: &PolicyReport) -> Vec<Refusal> {
    let likely: Vec<_> = USUAL.iter().filter(|usual| (usual.because)(policy, report)).collect();
    let mut found: Vec<Refusal> = Vec::new();
    for line in output.lines().map(str::trim_end).filter(|line| line.len() <= LONGEST) {
        let Some(usual) = likely.iter().find(|usual| usual.said.iter().any(|said| begins(line, said))) else {
            continue;
        };
        let what = Refused::Usual { advice: usual.advice.to_owned() };
        if found.iter().all(|old| old.what != what) {
            found.push(Refusal::new(line, what));
        }
    }
    found
}

/// Returns true if `line` begins with `said`, in which a star stands for any text.
fn begins(line: &str, said: &str) -> bool {
    let mut parts = said.split('*');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    parts.all(|part| {
        let found = rest.split_once(part).map(|(_, after)| rest = after);
        found.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(output: &str, network: Network) -> Vec<String> {
        let policy = SandboxPolicy::builder().read("/", "all").network(network).build().unwrap();
        let report = PolicyReport::new("a sandbox", Default::default())
            .with_control(Control::new(Control::HIDDEN, ControlState::Enforced));
        find(output, &policy, &report).into_iter().map(|refusal| refusal.to_string()).collect()
    }

    #[test]
    fn programs_are_understood() {
        for (said, word) in [
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "docker",
            ),
            (
                "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct",
                "docker",
            ),
            (
                "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
                "you push",
            ),
            (
                "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                "ssh",
            ),
            ("Host key verification failed.", "ssh"),
            ("To get started with GitHub CLI, please run:  gh auth login", "GH_TOKEN"),
            (
                "[12:12:1126/010203.4:FATAL:content/browser/zygote_host/zygote_host_impl_linux.cc(127)] No usable sandbox! If",
                "--no-sandbox",
            ),
            ("bwrap: No permissions to create new namespace, likely because", "--no-sandbox"),
            (
                "sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.",
                "rights",
            ),
        ] {
            let told = advice(said, Network::Open);
            assert!(matches!(&told[..], [one] if one.contains(word)), "{said}: {told:?}");
        }
    }

    #[test]
    fn only_a_closed_network_explains_names() {
        let said = "curl: (6) Could not resolve host: example.com";
        assert_eq!(advice(said, Network::Open), [""; 0]);
        assert!(advice(said, Network::Closed)[0].contains("network"));
        let said = "curl: (7) Failed to connect to localhost port 5432 after 0 ms: Connection refused";
        assert_eq!(advice(said, Network::Open), [""; 0]);
        assert!(advice(said, Network::internet(Vec::new()))[0].contains("of this machine"));
    }

    #[test]
    fn talk_is_no_complaint() {
        for said in [
            "The test prints: Cannot connect to the Docker daemon",
            "+fatal: could not read Username for 'x'",
            "# Host key verification failed",
            "permission denied",
            "",
        ] {
            assert_eq!(advice(said, Network::Open), [""; 0], "{said}");
        }
    }
}
