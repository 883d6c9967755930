//! A network of the program's own, from which other machines can be reached and this one cannot.
//!
//! [slirp4netns](https://github.com/rootless-containers/slirp4netns) carries its packets: a program outside, which speaks
//! TCP and UDP to other machines in its own name. So what the namespace must not reach has no route in it, which the
//! program inside lacks the rights to change: link-local addresses, where clouds hand out keys, the addresses of this machine, and the networks of
//! its containers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::linux::config::{Config, Internet, Status};
use crate::linux::inside::landlock;
use crate::linux::inside::sys::{self, Split};

/// The name of its interface.
const TAP: &str = "tap0";

/// The address at which slirp4netns would pass connections on to the machine's loopback, and must not.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// The address at which slirp4netns asks the machine's name servers.
pub(in crate::linux) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

/// Time limit for slirp4netns to bring the network up, and for each connection that must fail.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const REFUSAL: Duration = Duration::from_secs(2);

/// The program that carries packets, and what tells of it.
#[derive(Debug)]
pub(in crate::linux) struct Carrier {
    /// Written once the namespaces are there.
    go: Option<OwnedFd>,
    /// It ends when this end is closed.
    life: Option<OwnedFd>,
    /// Readable once the network is up.
    ready: OwnedFd,
    /// The words of the program.
    said: OwnedFd,
    /// Listens at every address of this machine, for the proof that none can be reached.
    listener: TcpListener,
}

impl Carrier {
    /// Makes the process that becomes the program, while this one is still in the machine's namespaces. It waits until
    /// [`follow`](Self::follow).
    pub(in crate::linux) fn prepare(of: &Internet, landlock: bool) -> Result<Self, String> {
        let failed = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed("making a pipe"));
        let ((wait, go), (ready, tell), (end, life)) = (pipe()?, pipe()?, pipe()?);
        let said = rustix::fs::memfd_create("watchfire-carrier", MemfdFlags::CLOEXEC)
            .map_err(failed("making a file in memory"))?;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
            .map_err(|error| format!("listening on a port: {error}"))?;
        let own = getpid();
        match sys::split().map_err(|error| format!("making a process for slirp4netns: {error}"))? {
            Split::Parent(_) => Ok(Self { go: Some(go), life: Some(life), ready, said, listener }),
            Split::Child => {
                drop((go, life, ready, listener));
                // Whoever waits hears that the pipe was closed.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                let mut byte = [0];
                let entered = rustix::io::read(&wait, &mut byte) == Ok(1) && getppid() == Some(own);
                if entered {
                    let error = become_program(of, landlock, own, [&tell, &end, &said]);
                    let _ = File::from(said).write_all(error.as_bytes());
                }
                std::process::exit(126)
            }
        }
    }

    /// Lets it bring up the network of the namespace that this process has entered.
    pub(in crate::linux) fn follow(&mut self) -> Result<(), String> {
        let Some(go) = self.go.take() else { return Ok(()) };
        rustix::io::write(go, &[1]).map(drop).map_err(|error| format!("starting slirp4netns: {error}"))
    }

    /// In the process outside: keeps what the carrier lives by.
    pub(in crate::linux) fn into_life(self) -> Option<OwnedFd> {
        self.life
    }

    /// In the process inside: lets only the one outside decide how long it lives.
    pub(in crate::linux) fn stay_inside(&mut self) {
        self.life = None;
    }

    /// In the first process inside: waits until the network is up, and closes the ways to this machine.
    pub(in crate::linux) fn finish(self, of: &Internet) -> Result<(), String> {
        // Interrupted: signals are blocked here.
        let answered = poll(&mut [PollFd::new(&self.ready.as_fd(), PollFlags::IN)], Some(&PATIENCE));
        let mut byte = [0];
        if answered != Ok(1) || rustix::io::read(&self.ready, &mut byte) != Ok(1) {
            let mut said = String::new();
            let mut file = File::from(self.said);
            let _ = std::io::Seek::rewind(&mut file).and_then(|()| file.read_to_string(&mut said));
            let last =
                said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
            return Err(format!("slirp4netns did not bring the network up: {last}"));
        }
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| format!("making a socket: {error}"))?;
        let link_local = (Ipv4Addr::new(169, 254, 0, 0), Ipv4Addr::new(255, 255, 0, 0));
        let own = of.addresses.iter().map(|address| (*address, Ipv4Addr::BROADCAST));
        for (address, mask) in own.chain(of.networks.iter().copied()).chain([link_local]) {
            sys::close_route(socket.as_fd(), address, mask)
                .map_err(|error| format!("closing the way to {address}: {error}"))?;
        }
        let port = self.listener.local_addr().map_err(|error| format!("asking for a port: {error}"))?.port();
        let of_machine = of.addresses.iter().copied().chain([Ipv4Addr::LOCALHOST, GATEWAY]);
        for address in of_machine {
            if TcpStream::connect_timeout(&SocketAddr::from((address, port)), REFUSAL).is_ok() {
                return Err(format!("this machine can still be reached at {address}"));
            }
        }
        Ok(())
    }
}

/// Becomes the program, for the namespaces that `inside` has entered. Returns only an error.
fn become_program(of: &Internet, landlock: bool, inside: Pid, [ready, end, said]: [&OwnedFd; 3]) -> String {
    let mut command = Command::new(of.program.as_path());
    command.args(["--configure", "--mtu=65520", "--disable-host-loopback", "--netns-type=path"]);
    let space = |process: &str, kind: &str| format!("/proc/{process}/ns/{kind}");
    let inside = inside.as_raw_nonzero().to_string();
    // Taken hold of here: under Landlock it may not look at other processes.
    let (Ok(network), Ok(user)) = (File::open(space(&inside, "net")), File::open(space(&inside, "user")))
    else {
        return "the namespaces cannot be seen".to_owned();
    };
    let (network, user) = (OwnedFd::from(network), OwnedFd::from(user));
    if [ready, end, &network, &user].iter().any(|fd| rustix::io::fcntl_setfd(fd, FdFlags::empty()).is_err()) {
        return "a descriptor cannot be handed on".to_owned();
    }
    // Nobody can enter the namespace that one is in.
    if std::fs::read_link(space("self", "user")).ok() != std::fs::read_link(space(&inside, "user")).ok() {
        command.arg(format!("--userns-path=/proc/self/fd/{}", user.as_raw_fd()));
    }
    // It reads what an agent sends. Its own sandbox works for root alone, and under Landlock no mounts can be made.
    if rustix::process::geteuid().is_root() {
        command.arg("--enable-sandbox");
    } else if landlock {
        let config = Config { rules: of.shown.clone(), ..Config::default() };
        if let Err(error) = landlock::restrict(&config, &mut Status::default()) {
            return format!("confining slirp4netns: {error}");
        }
    }
    let words = || said.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
    let error = command
        .args([format!("--ready-fd={}", ready.as_raw_fd()), format!("--exit-fd={}", end.as_raw_fd())])
        .args([format!("/proc/self/fd/{}", network.as_raw_fd()).as_str(), TAP])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(words())
        .stderr(words())
        .exec();
    format!("starting slirp4netns: {error}")
}
