//! Where a file has data, and where holes (lseek(2)'s SEEK_DATA and SEEK_HOLE).

use super::{Object, STEP};
use crate::arch::Machine;
use core::ops::ControlFlow;

impl<M: Machine> Object<M> {
    /// The first byte from `offset` on whose page is there, or has failed; `None`: there is none
    /// before the end.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let inner = self.inner.lock();
        let index = offset >> self.shift();
        let there = inner.pages.range(index..).next().map(|(index, _)| *index);
        let failed = match self.huge {
            Some(_) => None,
            None => inner.hwpoison.range(index..).next().copied(),
        };
        let first = there.into_iter().chain(failed).min()?;
        let at = (first << self.shift()).max(offset);
        (at < inner.len).then_some(at)
    }

    /// The first byte from `offset` on that lies in a hole, of which one begins at the end; `None`:
    /// `offset` lies past that. In steps: the caller holds no lock.
    pub fn next_hole(&self, offset: u64) -> Option<u64> {
        let mut index = offset >> self.shift();
        loop {
            if let ControlFlow::Break(hole) = self.hole_step(offset, &mut index) {
                return hole;
            }
            if self.mm.machine().breathe() {
                // The thread is to end.
                return None;
            }
        }
    }
    /// Looks at some pages from `index` on, which goes on.
    fn hole_step(&self, offset: u64, index: &mut u64) -> ControlFlow<Option<u64>> {
        let inner = self.inner.lock();
        for _ in 0..STEP {
            let at = (*index << self.shift()).max(offset);
            if at >= inner.len {
                return ControlFlow::Break((offset < inner.len).then_some(inner.len));
            }
            let failed = self.huge.is_none() && inner.hwpoison.contains(index);
            if !failed && !inner.pages.contains_key(index) {
                return ControlFlow::Break(Some(at));
            }
            *index += 1;
        }
        ControlFlow::Continue(())
    }
}
