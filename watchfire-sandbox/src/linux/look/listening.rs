//! The ports on which programs of a user listen.
//!
//! The kernel is asked for listening sockets alone (`sock_diag(7)`). Its tables in `/proc/net` walk every connection of the machine,
//! which costs milliseconds at each start; they serve where the kernel does not answer.

use std::collections::BTreeSet;
use std::fs;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Returns the ports on which programs of a user listen, by TCP.
pub(in crate::linux) fn ports(user: u32) -> BTreeSet<u16> {
    let asked = [libc::AF_INET, libc::AF_INET6].map(|family| ask(family, user));
    match asked {
        [Some(four), Some(six)] => &four | &six,
        _ => of_tables(&tables(), user),
    }
}

/// Type of the request and of its answers.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `TCP_LISTEN`, as a bit.
const LISTENING: u32 = 1 << 10;
/// Length of the header of each message.
const HEADER: usize = 16;

/// Asks the kernel. Returns `None` where it does not answer as expected.
fn ask(family: i32, user: u32) -> Option<BTreeSet<u16>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG)).ok()?;
    send(&socket, &request(u8::try_from(family).ok()?), SendFlags::empty()).ok()?;
    let mut ports = BTreeSet::new();
    // The kernel writes the answers while they are read, so they are there, and the end too.
    let mut buffer = vec![0; 32 << 10];
    loop {
        let (count, _) = recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
        let mut rest = buffer.get(..count).filter(|rest| !rest.is_empty())?;
        while !rest.is_empty() {
            let length = usize::try_from(number(rest, 0)?).ok().filter(|length| *length >= HEADER)?;
            let message = rest.get(..length)?;
            match u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?) {
                SOCK_DIAG_BY_FAMILY => ports.extend(port_of(message.get(HEADER..)?, user)),
                kind if i32::from(kind) == libc::NLMSG_DONE => return Some(ports),
                _ => return None,
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Returns `struct nlmsghdr` and `struct inet_diag_req_v2`, for all sockets of a family that listen.
fn request(family: u8) -> Vec<u8> {
    const LENGTH: u32 = 72;
    let mut bytes = LENGTH.to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).unwrap_or_default().to_ne_bytes());
    // Sequence and sender: there is one request.
    bytes.extend([0; 8]);
    bytes.extend([family, u8::try_from(libc::IPPROTO_TCP).unwrap_or_default(), 0, 0]);
    bytes.extend(LISTENING.to_ne_bytes());
    bytes.resize(72, 0);
    bytes
}

/// Returns the port of a `struct inet_diag_msg`, if its socket belongs to `user`.
fn port_of(answer: &[u8], user: u32) -> Option<u16> {
    let owner = number(answer, 64)?;
    let port = u16::from_be_bytes(answer.get(4..6)?.try_into().ok()?);
    (owner == user).then_some(port)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn tables() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    format!("{}\n{}", read("/proc/net/tcp"), read("/proc/net/tcp6"))
}

fn of_tables(tables: &str, user: u32) -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    let port = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (address, state) = (fields.next()?, fields.nth(1)?);
        let owner: u32 = fields.nth(3)?.parse().ok()?;
        let (_, port) = address.rsplit_once(':').filter(|_| state == LISTEN && owner == user)?;
        u16::from_str_radix(port, 16).ok()
    };
    tables.lines().filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_are_those_of_the_user_that_listen() {
        let tables = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n\
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1\n\
   2: 0100007F:9C40 0100007F:1538 01 00000000:00000000 00:00000000 00000000  1000        0 3 1\n";
        assert_eq!(of_tables(tables, 1000), BTreeSet::from([5432]));
    }

    #[test]
    fn the_kernel_says_what_its_tables_say() {
        let user = rustix::process::geteuid().as_raw();
        let open = |address: &str| TcpListener::bind(address).ok();
        let listeners: Vec<_> = ["127.0.0.1:0", "[::1]:0"].into_iter().filter_map(open).collect();
        let own: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap()).collect();
        let connected = TcpStream::connect(own[0]).unwrap();
        // Other programs begin and end to listen meanwhile.
        let (asked, told) = (ports(user), of_tables(&tables(), user));
        for address in &own {
            assert!(asked.contains(&address.port()) && told.contains(&address.port()), "{asked:?} {told:?}");
        }
        assert!(!asked.contains(&connected.local_addr().unwrap().port()));
        assert!(!ports(user + 1).contains(&own[0].port()));
        let Some(asked) = ask(libc::AF_INET, user) else {
            return println!("SKIPPED: the kernel tells nobody of its sockets: not available here");
        };
        assert!(asked.contains(&own[0].port()), "{asked:?}");
    }
}
