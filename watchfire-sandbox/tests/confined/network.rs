//! What the policy says about the network.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use watchfire_core::Error;
use watchfire_core::conformance::{NotPassed, Outcome};
use watchfire_core::process::helper::{Helper, RoleArgs};
use watchfire_core::sandbox::conformance::run;
use watchfire_core::sandbox::{Confined, Enforcement, Network, Sandbox, SandboxPolicy};
use watchfire_sandbox::LinuxSandbox;

use crate::Bench;

const DIAL: &str = "test-dial";

watchfire_core::register_helper_role!(DIAL, dial);

/// Connects to a port of this machine or to an address; 0 when it was greeted. `udp` asks for a socket only, `own` for a listener
/// of its own.
fn dial(args: RoleArgs) -> i32 {
    let Some(text) = args.args().first().and_then(|arg| arg.to_str()) else { return 2 };
    if text == "udp" {
        return i32::from(UdpSocket::bind("127.0.0.1:0").is_err());
    }
    if text == "own" {
        return i32::from(!listener().is_ok_and(|port| greets(SocketAddr::from(([127, 0, 0, 1], port)))));
    }
    let address = match text.parse() {
        Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
        Err(_) => text.parse().unwrap(),
    };
    i32::from(!greets(address))
}

fn greets(address: SocketAddr) -> bool {
    let mut greeting = [0; 2];
    TcpStream::connect(address).is_ok_and(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
    })
}

fn failed(error: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(error.to_string())
}

/// A listener that greets everyone, until the test's process ends.
fn listener() -> Result<u16, NotPassed> {
    let listener = TcpListener::bind("0.0.0.0:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut &stream, b"hi");
        }
    });
    Ok(port)
}

fn dials(bench: Bench<'_>, helper: &Helper, network: Network, to: &str) -> Result<bool, NotPassed> {
    ran(dialing(bench.sandbox, helper, network, to).map_err(|error| failed(error.report()))?)
}

fn dialing(sandbox: &dyn Sandbox, helper: &Helper, network: Network, to: &str) -> Result<Confined, Error> {
    let policy = SandboxPolicy::builder().network(network).enforcement(Enforcement::Required).build()?;
    let exe = std::env::current_exe().unwrap();
    sandbox.prepare(&policy, helper.command(DIAL, [to]).with_program(exe).with_cwd("/"))
}

/// Returns whether a command that dials was greeted.
fn ran(confined: Confined) -> Result<bool, NotPassed> {
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

fn internet() -> Network {
    Network::internet(Vec::new())
}

pub(crate) fn the_internet_is_other_machines_alone(bench: Bench<'_>, helper: Helper) -> Outcome {
    let has_carrier = watchfire_core::process::resolve_program("slirp4netns".as_ref()).is_ok();
    if bench.sandbox.probe().title() != "landlock" || !has_carrier {
        let report = dialing(bench.sandbox, &helper, internet(), "own").map(drop).unwrap_err().report();
        let has_namespaces = bench.sandbox.probe().title() == "landlock";
        if !report.contains("this machine could be reached over the network")
            || report.contains("install slirp4netns, or set") != has_namespaces
        {
            return Err(failed(report));
        }
    }
    if bench.sandbox.probe().title() != "landlock" {
        return Ok(());
    }
    if !has_carrier {
        return Err(NotPassed::Skipped("no slirp4netns".to_owned()));
    }
    this_machine_is_out_of_reach(bench, &helper)?;
    other_machines_are_reached(&helper)
}

fn this_machine_is_out_of_reach(bench: Bench<'_>, helper: &Helper) -> Outcome {
    let port = listener()?;
    let own = nix::ifaddrs::getifaddrs().map_err(failed)?;
    let own = own.filter_map(|found| Some(found.address?.as_sockaddr_in()?.ip()));
    // Those of slirp4netns too, which lead to this machine where it lets them.
    let addresses = own.chain([[10, 0, 2, 2].into(), [10, 0, 2, 3].into(), [169, 254, 169, 254].into()]);
    for address in addresses {
        let to = format!("{address}:{port}");
        if dials(bench, helper, internet(), &to)? {
            return Err(failed(format!("{to} was reached")));
        }
    }
    match dials(bench, helper, internet(), "own")? {
        true => Ok(()),
        false => Err(failed("its own loopback does not work")),
    }
}

const ISLAND: &str = "test-island";

watchfire_core::register_helper_role!(ISLAND, island);

/// Runs in a network namespace of its own, where nobody minds what is done to the network: an address that this machine
/// gets after a start is another machine to whoever runs inside.
fn island(_: RoleArgs) -> i32 {
    const OTHER: &str = "203.0.113.5";
    let ip = |args: &str| {
        assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success(), "ip {args}")
    };
    ip("link set lo up");
    let to = format!("{OTHER}:{}", listener().unwrap());
    let helper = Helper::at(std::env::current_exe().unwrap()).unwrap();
    let sandbox = LinuxSandbox::new(helper.clone());
    let prepare = || dialing(&sandbox, &helper, internet(), &to).unwrap();
    let before = prepare();
    ip(&format!("address add {OTHER}/32 dev lo"));
    let reached = [before, prepare()].map(|confined| ran(confined).unwrap_or_else(|why| panic!("{why}")));
    assert_eq!(reached, [true, false], "another machine, and an address of this one");
    0
}

fn other_machines_are_reached(helper: &Helper) -> Outcome {
    let island = helper.command(ISLAND, [""; 0]);
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "--mount", "--"])
        .arg(std::env::current_exe().map_err(failed)?);
    let output = command.args(island.args()).output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(()),
        false if said.starts_with("unshare:") => Err(NotPassed::Skipped(said)),
        false => Err(failed(said)),
    }
}
