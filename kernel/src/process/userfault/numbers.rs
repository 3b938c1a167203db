//! The numbers by which VMAs name their monitors.

use super::Monitor;
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::sync::Lock;

/// The monitors, each at its number less 1.
static MONITORS: Lock<Vec<Option<Arc<Monitor>>>, { ranks::USERFAULTS }> = Lock::new(Vec::new());

/// Enters the monitor that `make` makes for a free number. ENFILE, ENOMEM.
pub fn enter(make: impl FnOnce(u16) -> Monitor) -> Result<Arc<Monitor>> {
    let mut monitors = MONITORS.lock();
    let free = monitors.iter().position(Option::is_none);
    let at = match free {
        Some(at) => at,
        None => {
            fallible::push(&mut *monitors, None)?;
            monitors.len() - 1
        }
    };
    let number = u16::try_from(at + 1).map_err(|_| {
        monitors.pop();
        Errno::ENFILE
    })?;
    let monitor = Arc::new(make(number));
    monitors[at] = Some(monitor.clone());
    Ok(monitor)
}

/// The monitor with a number.
pub fn find(number: u16) -> Option<Arc<Monitor>> {
    let at = usize::from(number).checked_sub(1)?;
    MONITORS.lock().get(at)?.clone()
}

/// No VMA has this number any more.
pub fn give_back(number: u16) {
    let monitor = MONITORS.lock()[usize::from(number) - 1].take();
    drop(monitor);
}
