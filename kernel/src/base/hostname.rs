//! The host's name, sethostname(2).

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use arrayvec::ArrayVec;
use mm::sync::Lock;

/// At most 64 bytes.
pub type Name = ArrayVec<u8, 64>;

static HOSTNAME: Lock<Name, { ranks::PROCESS }> = Lock::new(Name::new_const());

/// The host's name; "quire" by default.
pub fn get() -> Name {
    let mut name = HOSTNAME.lock().clone();
    if name.is_empty() {
        name.extend(*b"quire");
    }
    name
}

/// Sets the host's name: at most 64 bytes.
pub fn set(name: &[u8]) -> Result {
    *HOSTNAME.lock() = name.try_into().map_err(|_| Errno::EINVAL)?;
    Ok(())
}
