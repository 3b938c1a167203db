//! The header of the payload that the image tool puts behind the kernel
//! (`tools/src/machine/image.rs` has the layout), as far as boot reads it: not every loader reports
//! the end of the payload.

/// The magic number at the start of the header.
pub const MAGIC: [u8; 8] = *b"QUIREPAY";
/// Its words, little-endian: magic, version, four offsets and lengths, the length of all in bytes.
pub const WORDS: usize = 7;

/// Bytes of the payload that begins with this header; 0 where none does.
pub const fn bytes(header: [u64; WORDS]) -> u64 {
    if header[0] == u64::from_le_bytes(MAGIC) {
        header[WORDS - 1]
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_its_magic_only() {
        let mut header = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(bytes(header), 0);
        header[0] = u64::from_le_bytes(MAGIC);
        assert_eq!(bytes(header), 7);
    }
}
