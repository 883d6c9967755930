//! Revisions of files.

use crate::store::Revision;

/// Returns the revision of a file with this content.
pub(in crate::store) fn revision(bytes: &[u8]) -> Revision {
    // Like FNV-1a, with 16 bytes per step: the same in every process. It need not withstand an attacker.
    // The length is mixed in, because the last chunk is padded with zeros.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128 ^ bytes.len() as u128;
    for chunk in bytes.chunks(16) {
        let mut word = [0; 16];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        hash =
            (hash ^ u128::from_le_bytes(word)).wrapping_mul(0x0100_0000_0000_0000_0000_013b).rotate_left(61);
    }
    Revision::new(format!("{hash:032x}"))
}
