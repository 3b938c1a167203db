//! Binary files of one 64-bit word for each page or frame.
use std::fs::File;
use std::os::unix::fs::FileExt;
use userland::sys::Result;

/// Words that are read at once.
const BATCH: usize = 8192;

/// All words of a file; it is read in whole words only.
pub fn all(path: &str) -> Result<Vec<u64>> {
    let file = File::open(path)?;
    let mut words = Vec::new();
    loop {
        let more = some(&file, words.len(), BATCH)?;
        if more.is_empty() {
            return Ok(words);
        }
        words.extend(more);
    }
}

/// Up to `n` words from number `first` on; none at the end of the file.
pub fn some(file: &File, first: usize, n: usize) -> Result<Vec<u64>> {
    let mut bytes = vec![0; n * 8];
    let length = file.read_at(&mut bytes, first as u64 * 8)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Ok(bytes[..length].chunks_exact(8).map(word).collect())
}
