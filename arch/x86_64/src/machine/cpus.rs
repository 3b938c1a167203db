//! The other CPUs: started by INIT and SIPI (SDM Vol 3, 9.4.4), reached by interrupts from one to
//! another.

use super::percpu::{self, PerCpu};
use super::{apic, descriptors, features, fp, pkru, root, segments, trampoline, trap};
use alloc::boxed::Box;
use arch_boot::cpus::{Cpu, NR_CPUS, Stacks, Start, Unfit};
use arch_boot::{online, secondary_main};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use x86_64::registers::control::{Cr0, Cr4, Cr4Flags, Efer};
use x86_64::registers::model_specific::LStar;
use x86_64::registers::xcontrol::XCr0;

/// How long a CPU takes to get from INIT to the state in which it waits for a SIPI (SDM Vol 3,
/// 9.4.4.1), in ns.
pub const SETTLE: Option<u64> = Some(10_000_000);

/// APIC IDs of the CPUs that have come, by number.
static IDS: [AtomicU32; NR_CPUS] = [const { AtomicU32::new(0) }; NR_CPUS];

/// The number of the running CPU.
#[inline]
pub fn current() -> usize {
    percpu::number()
}

/// The ID of the running CPU, as lists of CPUs have it.
pub fn own_id() -> u64 {
    let id = raw_cpuid::CpuId::new();
    let x2apic = id.get_extended_topology_info().and_then(|mut levels| {
        let first = levels.next()?;
        (first.processors() != 0).then(|| first.x2apic_id())
    });
    let legacy = || {
        id.get_feature_info()
            .map_or(0, |f| f.initial_local_apic_id().into())
    };
    x2apic.unwrap_or_else(legacy).into()
}

/// Prepares the others for [`start`], which may follow after [`SETTLE`]. An error is why none can
/// be started.
pub fn prepare(others: &[Cpu]) -> Result<(), &'static str> {
    if trampoline::page().is_none() {
        return Err("there is no free memory below 1 MiB");
    }
    trampoline::write();
    IDS[0].store(own_id() as u32, Relaxed);
    for cpu in others {
        if let Ok(id) = reach(cpu) {
            apic::send(id, apic::INIT);
        }
    }
    Ok(())
}

/// The CPU's APIC ID, if interrupts reach it.
fn reach(cpu: &Cpu) -> Result<u32, &'static str> {
    if cpu.start != Start::Sipi {
        return Err("it cannot be started by SIPI");
    }
    let id = u32::try_from(cpu.id).map_err(|_| "its APIC ID has more than 32 bits")?;
    if id > apic::highest_id() {
        return Err("its APIC ID has more than 8 bits, and the APIC is not an x2APIC");
    }
    Ok(id)
}

/// Starts a CPU, which calls `secondary_main` with its number. One at a time: the next one after it
/// has said that it is there or was given up.
pub fn start(cpu: &Cpu, number: usize, stacks: &Stacks) -> Result<(), &'static str> {
    let id = reach(cpu)?;
    let page = trampoline::page().ok_or("there is no free memory below 1 MiB")?;
    let block = Box::leak(Box::new(PerCpu::new(number as u64)));
    block.this = &raw mut *block;
    // The kernel's own guarded stacks are for what overflows; these two never nest.
    let small: &'static mut [MaybeUninit<SmallStack>] = Box::leak(Box::new_uninit_slice(2));
    let top = |i: usize| (&raw const small[i]).addr() as u64 + size_of::<SmallStack>() as u64;
    let [double_fault, nmi] = stacks.emergency;
    block.emergency = [double_fault, nmi, top(0), top(1)];
    let start = trampoline::Start {
        id,
        stack: stacks.own,
        block: (&raw mut *block).addr() as u64,
        entry: secondary,
    };
    // SAFETY: no other CPU is being started, says the caller; stacks and block are new.
    unsafe { trampoline::open(start) };
    IDS[number].store(id, Relaxed);
    apic::send(id, apic::STARTUP | u32::from(page));
    Ok(())
}

#[repr(C, align(16))]
struct SmallStack([u8; 8 << 10]);

/// Asks a second time: the first SIPI may be lost (SDM Vol 3, 9.4.4.1).
pub fn start_again(number: usize) {
    if let Some(page) = trampoline::page() {
        apic::send(IDS[number].load(Relaxed), apic::STARTUP | u32::from(page));
    }
}

/// Gives up the CPU that was started last. False: it has come, and uses its stacks.
pub fn give_up() -> bool {
    trampoline::close()
}

/// The first Rust function of another CPU, on its own stack and the trampoline's tables.
extern "C" fn secondary(block: u64) -> ! {
    let block = core::ptr::with_exposed_provenance_mut::<PerCpu>(block as usize);
    // SAFETY: once on this CPU, with interrupts off; the block is this CPU's from here on, and the
    // kernel's root maps all that is in use.
    unsafe {
        root::write_cr3(root::kernel_root());
        segments::init();
        percpu::load(block);
        descriptors::load((*block).emergency);
    }
    if !features::arrive(current()) {
        secondary_main(current(), Err(Unfit::Lacking));
    }
    // The rest waits for `set_up`: by then it is known what all have.
    apic::init_secondary();
    secondary_main(current(), Ok(()))
}

/// From now on the features in use are those that all CPUs have; whether these are fewer than the
/// boot CPU has. Called on the boot CPU while the others stand still, before there are threads;
/// each CPU calls [`set_up`] afterwards.
pub fn level() -> bool {
    // SAFETY: as said above: nobody has saved state, or a window to user memory.
    unsafe { features::level(online::others(current())) }
}

/// Sets up the running CPU by the features in use.
pub fn set_up() {
    features::protect();
    trap::init_machine_check();
    trap::init_syscalls();
    fp::init();
    pkru::init();
}

/// The registers by which this CPU is like any other: what is on, what is saved, and where system
/// calls go.
pub fn controls() -> [u64; 4] {
    let saved = match features::get().xsave && Cr4::read().contains(Cr4Flags::OSXSAVE) {
        true => XCr0::read_raw(),
        false => 0,
    };
    [
        Cr0::read_raw(),
        Cr4::read_raw() | saved << 32,
        Efer::read_raw(),
        LStar::read().as_u64(),
    ]
}

/// Interrupts a CPU: `Irq::Ipi`.
pub fn interrupt(number: usize) {
    online::count_interrupt(current(), number);
    apic::send(IDS[number].load(Relaxed), u32::from(apic::IPI_VECTOR));
}

/// Interrupts another CPU even if its interrupts are off, so that it stops if all are to.
pub fn interrupt_to_stop(number: usize) {
    apic::send(IDS[number].load(Relaxed), apic::NMI);
}

/// Lets others run where CPUs share one of the host.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Stops the running CPU for good.
pub fn halt() -> ! {
    super::power::halt()
}
