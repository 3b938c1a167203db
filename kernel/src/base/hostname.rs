//! The host's name, sethostname(2).

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use mm::sync::Lock;

static HOSTNAME: Lock<([u8; 64], usize), { ranks::PROCESS }> = Lock::new(([0; 64], 0));

/// The host's name; "quire" by default.
pub fn get() -> alloc::vec::Vec<u8> {
    match *HOSTNAME.lock() {
        (_, 0) => b"quire".to_vec(),
        (name, len) => name[..len].to_vec(),
    }
}

/// Sets the host's name: at most 64 bytes.
pub fn set(name: &[u8]) -> Result {
    let mut bytes = [0; 64];
    bytes
        .get_mut(..name.len())
        .ok_or(Errno::EINVAL)?
        .copy_from_slice(name);
    *HOSTNAME.lock() = (bytes, name.len());
    Ok(())
}
