//! CRC-32 (ISO-HDLC, as in gzip): finds every flipped bit, and nearly every other damage.

use crc32fast::Hasher;

/// CRC-32 of some pieces of bytes, one after the other.
pub fn crc32(pieces: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_crc_32() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }
}
