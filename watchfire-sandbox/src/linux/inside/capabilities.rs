//! What is left of root.

use rustix::io::{Errno, Result};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// The capabilities that file work needs as root. The others would let the program look around or break the sandbox.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Gives up capabilities for good: every one, or as root every one that file work does not need.
pub(in crate::linux) fn drop(keep_for_root: bool) -> Result<()> {
    let kept = if keep_for_root { KEPT } else { CapabilitySet::empty() };
    let had = rustix::thread::capabilities(None)?;
    if had.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..64 {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if kept.contains(one) {
                continue;
            }
            match rustix::thread::remove_capability_from_bounding_set(one) {
                Ok(()) => {}
                // The kernel has no more.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(error),
            }
        }
    }
    match rustix::thread::clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    let left = kept & had.permitted;
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}
