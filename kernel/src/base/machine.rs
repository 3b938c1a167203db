//! The memory manager on this machine: the types with their parameter filled in, and the one
//! instance.

use alloc::sync::Arc;
use mm::addr::Order;
use mm::arch::Machine;
use mm::hugetlb;
use spin::Once;

/// The machine's number in ELF files.
pub const ELF_MACHINE: u16 = match cfg!(target_arch = "x86_64") {
    true => elf::abi::EM_X86_64,
    false => elf::abi::EM_AARCH64,
};

/// The machine of the memory manager, which `sched/machine.rs` implements.
pub struct Hw;

/// The memory manager.
pub type Mm = mm::Mm<Hw>;
/// A user address space.
pub type AddressSpace = mm::AddressSpace<Hw>;
/// A reference to one: the last to go unmaps it, so that whoever drops it holds no lock.
pub type Space = mm::Handle<Hw>;
/// A reference that does not keep it.
pub type WeakSpace = mm::WeakHandle<Hw>;
/// A memory object: the pages of a file or of shared anonymous memory.
pub type Object = mm::object::Object<Hw>;
/// A virtual memory area.
pub type Vma = mm::vma::Vma<Hw>;
/// The kernel's own half.
pub type KernelSpace = mm::KernelSpace<Hw>;

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

/// The sizes of huge pages, smallest first.
pub fn huge_sizes() -> &'static [Order] {
    hugetlb::sizes::<<Hw as Machine>::Pte>()
}

/// The memory manager, or `None` while it is being made.
pub fn try_mm() -> Option<&'static Arc<Mm>> {
    KERNEL_SPACE.get().map(KernelSpace::mm)
}
