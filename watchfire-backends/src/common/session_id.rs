//! Session ids for vendors that want a UUID.

/// Returns `session` itself if it is a UUID, otherwise a UUID that is always the same for it.
pub(crate) fn uuid(session: &str) -> String {
    if is_uuid(session) {
        return session.to_ascii_lowercase();
    }
    // FNV-1a over the id, twice with different starts: stable, and as unlikely to collide as the ids themselves.
    let hash = |start: u64| {
        session.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9ae1_6a3b_2f90_404f));
    // Version 8, which is for ids of one's own making, and the usual variant.
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_uuids_and_makes_stable_ones() {
        let id = "6f2b1c1e-93a4-4a39-8d0e-7f5e7c1a9b21";
        assert_eq!(uuid(id), id);
        assert!(is_uuid(&uuid("brave-otter")), "{}", uuid("brave-otter"));
        assert_eq!(uuid("a"), uuid("a"));
        assert_ne!(uuid("a"), uuid("b"));
    }
}
