//! Calls to the kernel that no safe crate offers.

#![expect(unsafe_code, reason = "the kernel's interface")]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::mount::MountAttrFlags;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Marks every descriptor from 3 up to be closed when a program is started.
pub(in crate::linux) fn close_others_on_exec() -> io::Result<()> {
    // SAFETY: takes three numbers and changes a flag of descriptors; none is closed here.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves this process, which has one thread, to new namespaces.
pub(in crate::linux) fn enter_namespaces(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the flags never contain FILES (see the callers), the one that could surprise other owners of
    // descriptors.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }
}

/// Which of two processes one is after [`split`].
pub(in crate::linux) enum Split {
    /// The old one, with the new one's number.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Makes a second process of this one, which must have one thread.
pub(in crate::linux) fn split() -> io::Result<Split> {
    // SAFETY: there is one thread (the helper role runs first in main), so the child finds no lock held by another,
    // and may run any code.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Split::Child),
        number => {
            Pid::from_raw(number).map(Split::Parent).ok_or_else(|| io::Error::other("fork gave no child"))
        }
    }
}

/// Which mounts a change is for.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::linux) enum Reach {
    /// This one.
    Alone,
    /// And those in it.
    Whole,
}

/// Changes what may be done through a mount.
pub(in crate::linux) fn restrict_mount(
    mount: BorrowedFd<'_>,
    attributes: MountAttrFlags,
    reach: Reach,
) -> io::Result<()> {
    let change = libc::mount_attr {
        attr_set: u64::from(attributes.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if reach == Reach::Whole { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the path is an empty C string, and the structure lives through the call and is
    // as long as said.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the way to a network from the network namespace of `socket`: to connect there fails at once.
pub(in crate::linux) fn close_route(
    socket: BorrowedFd<'_>,
    network: Ipv4Addr,
    mask: Ipv4Addr,
) -> io::Result<()> {
    const RTF_REJECT: libc::c_ushort = 0x0200;
    let address = |address: Ipv4Addr| {
        let inet = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
            sin_zero: [0; 8],
        };
        // SAFETY: both have the same size, and every byte of the one is initialised and means something in the other.
        unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet) }
    };
    // SAFETY: the structure consists of numbers and of one pointer, all of which may be zero.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = address(network);
    route.rt_genmask = address(mask);
    route.rt_flags = libc::RTF_UP | RTF_REJECT;
    // SAFETY: the descriptor is open, and the structure lives through the call; the kernel only reads it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &raw const route) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
