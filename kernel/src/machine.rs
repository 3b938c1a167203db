//! The memory manager on this machine: the types with their parameter filled in, and the one instance.

use crate::arch::tlb::Hardware;
use crate::sched;
use crate::wait::WaitQueue;
use alloc::sync::Arc;
use mm::addr::Pfn;
use mm::arch::{Level, Machine};
use spin::Once;

/// The machine under the memory manager: the hardware, and the scheduler that others get in by
/// between two steps.
pub struct Hw;

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
    fn largest_leaf(&self) -> Level {
        Hardware.largest_leaf()
    }
    fn prepare_root(&self, root: Pfn) {
        Hardware.prepare_root(root);
    }

    fn breathe(&self) -> bool {
        sched::breathe()
    }
    fn wait(&self, ready: &mut dyn FnMut() -> bool) -> bool {
        let ready = || ready().then_some(());
        ENDED_CHANGES.wait_killable(ready).is_ok()
    }
    fn wake(&self) {
        ENDED_CHANGES.wake_all();
    }
}

/// A change of some address space has ended that others may wait for.
static ENDED_CHANGES: WaitQueue = WaitQueue::new();
/// The memory manager.
pub type Mm = mm::manager::Mm<Hw>;
/// A user address space.
pub type AddressSpace = mm::space::AddressSpace<Hw>;
/// A memory object: the pages of a file or of shared anonymous memory.
pub type Object = mm::object::Object<Hw>;
/// A virtual memory area.
pub type Vma = mm::vma::Vma<Hw>;
/// The kernel's own half.
pub type KernelSpace = mm::manager::KernelSpace<Hw>;

static KERNEL_SPACE: Once<KernelSpace> = Once::new();

/// Called once by boot, before the kernel's tables are filled.
pub fn set_kernel_space(space: KernelSpace) -> &'static KernelSpace {
    KERNEL_SPACE.call_once(|| space)
}

/// The kernel's own half.
pub fn kernel_space() -> &'static KernelSpace {
    KERNEL_SPACE
        .get()
        .expect("the kernel space exists since boot")
}

/// The memory manager.
pub fn mm() -> &'static Arc<Mm> {
    kernel_space().mm()
}

/// The memory manager, or `None` while it is being made.
pub fn try_mm() -> Option<&'static Arc<Mm>> {
    KERNEL_SPACE.get().map(KernelSpace::mm)
}
