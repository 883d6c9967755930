//! What the policy says about the network.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::sandbox::conformance::run;
use watchfire_core::sandbox::{Network, SandboxPolicy};

use crate::Bench;

const DIAL: &str = "test-dial";

watchfire_core::register_helper_role!(DIAL, dial);

/// Connects to a port of this machine; 0 when it was greeted. `udp` asks for a socket only.
fn dial(args: RoleArgs) -> i32 {
    let Some(text) = args.args().first().and_then(|arg| arg.to_str()) else { return 2 };
    if text == "udp" {
        return i32::from(UdpSocket::bind("127.0.0.1:0").is_err());
    }
    let mut greeting = [0; 2];
    let connected = text.parse().ok().and_then(|port: u16| TcpStream::connect(("127.0.0.1", port)).ok());
    let greeted = connected.is_some_and(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
    });
    i32::from(!greeted)
}

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// A listener that greets everyone, until the test's process ends.
fn listener() -> Result<u16, NotPassed> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut &stream, b"hi");
        }
    });
    Ok(port)
}

fn dials(bench: Bench<'_>, helper: &Helper, network: Network, to: &str) -> Result<bool, NotPassed> {
    let policy = SandboxPolicy::builder().network(network).build().map_err(failed)?;
    let exe = std::env::current_exe().map_err(failed)?;
    let command = helper.command(DIAL, [to]).with_program(exe).with_cwd("/");
    let confined = bench.sandbox.prepare(&policy, command).map_err(|error| failed(error.report()))?;
    let ran = run(confined).map_err(failed)?;
    match ran.code {
        0 => Ok(true),
        1 => Ok(false),
        code => Err(NotPassed::Failed(format!("code {code}: {}\n{}", ran.stderr, ran.report))),
    }
}

pub(crate) fn the_network_is_what_was_asked(bench: Bench<'_>, helper: Helper) -> Outcome {
    let (one, two) = (listener()?, listener()?);
    let ports = Network::OpenExceptPorts(vec![one]);
    let expected = [
        (Network::Open, one.to_string(), true),
        (Network::Open, "udp".to_owned(), true),
        (ports.clone(), one.to_string(), false),
        (ports, two.to_string(), true),
        (Network::Closed, two.to_string(), false),
        (Network::Closed, "udp".to_owned(), false),
    ];
    for (network, to, works) in expected {
        let did = dials(bench, &helper, network.clone(), &to)?;
        if did != works {
            return Err(NotPassed::Failed(format!("{network:?}, {to} of {one} and {two}: {did}")));
        }
    }
    Ok(())
}
