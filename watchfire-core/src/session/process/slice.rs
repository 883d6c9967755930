//! The length of the turns that the kernel's scheduler gives a process.

#![expect(unsafe_code, reason = "no safe crate offers these calls")]

use std::io;
use std::time::Duration;

use nix::libc;

/// Asks for turns of this length for the calling thread. Whoever asks for short turns gets the next one sooner, and no more of
/// the machine (`sched_setattr(2)`). Before Linux 6.12 this changes nothing.
pub(super) fn ask(length: Duration) -> io::Result<()> {
    // The call sets policy and priority too, so that those it has are read first.
    let mut attributes = read()?;
    attributes.sched_runtime = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel only reads the structure, which says how long it is and lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn read() -> io::Result<libc::sched_attr> {
    // SAFETY: the structure consists of numbers, all of which may be zero.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most as many bytes as it is told, and the structure lives through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            size_of::<libc::sched_attr>() as libc::c_uint,
            0,
        )
    };
    if done == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_become_shorter_and_nothing_else_changes() {
        // In a thread of its own, because it stays so.
        let thread = std::thread::spawn(|| {
            let before = read().unwrap();
            let wanted = Duration::from_micros(200);
            ask(wanted).unwrap();
            let after = read().unwrap();
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            // Zero is what kernels say that know no such wish.
            assert!([0, 200_000].contains(&after.sched_runtime), "{}", after.sched_runtime);
            assert_eq!(before.sched_runtime == 0, after.sched_runtime == 0);
        });
        thread.join().unwrap();
    }
}
