//! The means for a network of the command's own: a program that carries packets, and what it must not reach.

use std::path::Path;

use nix::sys::socket::SockaddrStorage;
use watchfire_core::process::resolve_program;

use crate::linux::config::{Internet, RawPath};
use crate::linux::inside::internet::NAMES;
use crate::linux::look::enumerate::{device, reading};
use crate::linux::sandbox::Means;
use crate::resolve::resolve;

/// The settings of name lookup.
const NAME_SETTINGS: &str = "/etc/resolv.conf";

/// The folders of the system that slirp4netns reads.
const SYSTEM: [&str; 6] = ["/usr", "/lib", "/lib64", "/nix/store", "/etc", "/proc"];

/// Returns what a network of its own needs, or the reason why there can be none.
pub(in crate::linux) fn of(means: Means, namespaces: bool) -> Result<Internet, String> {
    if means != Means::Own || !namespaces {
        return Err(format!("{} makes no network of its own", means.name()));
    }
    let program = resolve_program(Path::new("slirp4netns"))
        .map_err(|_| "the program slirp4netns is missing; most distributions have a package of that name")?;
    let (mut addresses, mut networks) = (Vec::new(), Vec::new());
    for found in nix::ifaddrs::getifaddrs().map_err(|error| format!("asking for addresses: {error}"))? {
        let four = |address: Option<SockaddrStorage>| Some(address?.as_sockaddr_in()?.ip());
        let Some(address) = four(found.address).filter(|address| !address.is_loopback()) else { continue };
        addresses.push(address);
        let mask =
            four(found.netmask).filter(|_| joins_inner(Path::new("/sys/class/net"), &found.interface_name));
        networks.extend(mask.map(|mask| (address & mask, mask)));
    }
    let names = resolve(Path::new(NAME_SETTINGS));
    let read = [program.parent(), names.parent()].into_iter().flatten().chain(SYSTEM.map(Path::new));
    let read = read.map(|path| (resolve(path).into(), reading().bits()));
    let devices = ["/dev/net/tun", "/dev/null"];
    let devices = devices.map(|path| (Path::new(path).into(), (reading() | device()).bits()));
    Ok(Internet {
        program: RawPath(program.clone()),
        shown: read.chain(devices).collect(),
        addresses,
        networks,
    })
}

/// Returns true for a bridge without a device: what it joins are containers and virtual machines of this machine.
fn joins_inner(interfaces: &Path, name: &str) -> bool {
    let Ok(joined) = std::fs::read_dir(interfaces.join(name).join("brif")) else { return false };
    joined.flatten().all(|joined| !interfaces.join(joined.file_name()).join("device").exists())
}

/// Returns the settings of name lookup for that network: the file, and its text.
pub(in crate::linux) fn names() -> Option<(RawPath, String)> {
    let path = resolve(Path::new(NAME_SETTINGS));
    let text = std::fs::read_to_string(&path).ok()?;
    Some((RawPath(path), names_from(&text)))
}

fn names_from(text: &str) -> String {
    let other = |line: &&str| ["search", "domain", "options"].iter().any(|word| line.starts_with(word));
    let lines = text.lines().filter(other).map(|line| format!("{line}\n"));
    std::iter::once(format!("nameserver {NAMES}\n")).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_with_a_device_leads_to_other_machines() {
        let interfaces = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(interfaces.path().join(path)).unwrap();
        ["docker0/brif/veth1", "veth1", "br0/brif/veth2", "veth2", "br0/brif/eth0", "eth0/device"]
            .into_iter()
            .for_each(make);
        let inner = ["docker0", "br0", "eth0", "tun0"].map(|name| joins_inner(interfaces.path(), name));
        assert_eq!(inner, [true, false, false, false]);
    }

    #[test]
    fn names_are_asked_of_the_carrier() {
        let text = "# made by a program\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n";
        assert_eq!(names_from(text), "nameserver 10.0.2.3\noptions edns0 trust-ad\nsearch example.org\n");
    }
}
