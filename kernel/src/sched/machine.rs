//! The machine of the memory manager: the hardware, and preemption points of the scheduler.

use super::{Thread, Threads, Work, breathe, current, kernel_lock};
use crate::arch::tlb::Hardware;
use crate::base::above::Above;
use crate::base::machine::Hw;
use crate::sched::wait::WaitQueue;
use core::any::Any;
use mm::addr::Pfn;
use mm::arch::{Level, Machine};

/// A change of some address space has ended that others may wait for.
static ENDED_CHANGES: WaitQueue = WaitQueue::new();

impl Machine for Hw {
    type Pte = <Hardware as Machine>::Pte;
    type Mem = <Hardware as Machine>::Mem;
    type Tlb = <Hardware as Machine>::Tlb;
    type Cpu = <Hardware as Machine>::Cpu;

    #[inline]
    fn mem(&self) -> &Self::Mem {
        Hardware.mem()
    }
    #[inline]
    fn tlb(&self) -> &Self::Tlb {
        Hardware.tlb()
    }
    #[inline]
    fn cpu(&self) -> &Self::Cpu {
        Hardware.cpu()
    }
    fn keys(&self) -> u8 {
        Hardware.keys()
    }
    fn largest_leaf(&self) -> Level {
        Hardware.largest_leaf()
    }
    fn prepare_root(&self, root: Pfn) {
        Hardware.prepare_root(root);
    }

    fn breathe(&self) -> bool {
        breathe()
    }
    fn wait(&self, ready: &mut dyn FnMut() -> bool) -> bool {
        let ready = || ready().then_some(());
        ENDED_CHANGES.wait_killable(ready).is_ok()
    }
    fn wake(&self) {
        ENDED_CHANGES.wake_all();
    }
    fn memory_is_tight(&self) {
        if let Some(task) = current() {
            task.entity().add_work(Work::MAKE_ROOM);
        }
    }
    fn space_ends(&self, space: &dyn Any) {
        if let Some(space) = space.downcast_ref() {
            Above::space_ends(space);
        }
    }
    fn unlocked(&self, f: &mut dyn FnMut()) {
        let suspended = kernel_lock::suspend();
        f();
        kernel_lock::resume(suspended);
    }
}
