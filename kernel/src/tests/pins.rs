//! Long-term pins: the test is the device, which writes, too.

use crate::base::machine::{AddressSpace, Space, mm};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::fault::Access;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};

const AT: VirtAddr = VirtAddr(0x4000_0000);
const PAGES: u64 = 32;
const RW: Prot = Prot::READ.union(Prot::WRITE);

/// An address space with a few written pages.
fn space() -> Option<Space> {
    let space = Space::new(mm()).ok()?;
    let request = MapRequest {
        place: Place::Fixed(AT),
        len: PAGES * PAGE_SIZE,
        prot: RW,
        flags: VmaFlags::empty(),
        backing: Backing::Anon,
        populate: true,
    };
    space.map(request).ok()?;
    (space.write(AT, &[5], false) == 1).then_some(space)
}

fn byte(space: &AddressSpace) -> u8 {
    let mut one = [0];
    space.read(AT, &mut one, false);
    one[0]
}

ktest::ktest! {
    /// Process and device see one page over fork and mprotect; the child has a copy.
    fn long_term_pins(ctx) {
        let Some(parent) = space() else { return Err(ktest::Failure::Skipped("no memory")) };
        let Ok(pin) = parent.pin_long_term(AT, Access::Write) else { return Err(ktest::Failure::Skipped("no memory")) };
        let Ok(child) = parent.fork() else { return Err(ktest::Failure::Skipped("no memory")) };
        for prot in [Prot::READ, RW] {
            ktest::check!(ctx, parent.protect(AT, PAGES * PAGE_SIZE, prot).is_ok());
        }
        ktest::check_eq!(ctx, parent.write(AT, &[6], false), 1);
        let mut seen = [0];
        pin.read(0, &mut seen);
        ktest::check_eq!(ctx, seen[0], 6);
        pin.write(0, &[7]);
        ktest::check_eq!(ctx, (byte(&parent), byte(&child)), (7, 5));
        drop(parent);
        pin.read(0, &mut seen);
        ktest::check_eq!(ctx, seen[0], 7);
    }
}
