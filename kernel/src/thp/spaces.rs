//! Long walks over all address spaces. They hold weak references: a process that ends meanwhile
//! frees its memory.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Vma, WeakSpace};
use crate::process::task;
use crate::sched;
use alloc::collections::BTreeMap;
use mm::addr::VirtAddr;
use mm::{Smaps, SmapsWalk, SpaceKey};

/// Each address space once, whoever shares it, by its key. ENOMEM.
pub fn all() -> Result<BTreeMap<SpaceKey, WeakSpace>> {
    let mut spaces = BTreeMap::new();
    for process in task::processes() {
        let space = process.space.with(|space| (space.key(), space.downgrade()));
        if let Some((key, space)) = space {
            fallible::check()?;
            spaces.insert(key, space);
        }
    }
    Ok(spaces)
}

/// Adds up the smaps figures of an area in `walk`; `None` when its space has gone. EINTR when this
/// thread is to end.
pub fn figures<'a>(
    space: &WeakSpace,
    vma: &Vma,
    walk: &'a mut SmapsWalk,
) -> Result<Option<&'a Smaps>> {
    walk.begin(vma.range);
    loop {
        let Some(found) = space.upgrade() else {
            return Ok(None);
        };
        let done = found.smaps_step(walk);
        drop(found);
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
        if done {
            return Ok(Some(walk.finish(vma.flags)));
        }
    }
}

/// Calls `f` with the figures of each area of a space, as long as the space is there. EINTR when
/// this thread is to end.
pub fn each_area(space: &WeakSpace, mut f: impl FnMut(&Vma, &Smaps)) -> Result {
    let (mut at, mut walk) = (VirtAddr(0), SmapsWalk::default());
    while let Some(vma) = space.upgrade().and_then(|space| space.vma_from(at)) {
        at = vma.range.end;
        let Some(figures) = figures(space, &vma, &mut walk)? else {
            break;
        };
        f(&vma, figures);
    }
    Ok(())
}
