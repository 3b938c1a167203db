//! CPUs: on which ones a thread may run, and on which it does.
use super::{Result, call};

/// Bytes of a mask: what Linux takes at most.
const BYTES: usize = 1024;

/// The CPUs of a mask, by number.
pub fn numbers(mask: &[u8]) -> Vec<usize> {
    let set = |cpu: &usize| mask[cpu / 8] & 1 << (cpu % 8) != 0;
    (0..mask.len() * 8).filter(set).collect()
}

/// The mask of these CPUs.
pub fn mask(cpus: &[usize]) -> [u8; BYTES] {
    let mut mask = [0; BYTES];
    cpus.iter().for_each(|cpu| mask[cpu / 8] |= 1 << (cpu % 8));
    mask
}

/// On which CPUs a thread may run; `tid` 0 is the caller. sched_getaffinity(2).
pub fn allowed(tid: i32) -> Result<Vec<usize>> {
    let mut mask = [0u8; BYTES];
    let arguments = [tid as usize, BYTES, mask.as_mut_ptr() as usize, 0, 0, 0];
    let len = call(libc::SYS_sched_getaffinity, arguments)?;
    Ok(numbers(&mask[..len]))
}

/// Two CPUs on which the caller may run, the same one twice if there is only one.
pub fn two() -> Result<[usize; 2]> {
    let cpus = allowed(0)?;
    Ok([cpus[0], cpus[cpus.len() - 1]])
}

/// Binds a thread to CPUs; `tid` 0 is the caller. sched_setaffinity(2).
pub fn bind(tid: i32, cpus: &[usize]) -> Result<()> {
    let mask = mask(cpus);
    let arguments = [tid as usize, BYTES, mask.as_ptr() as usize, 0, 0, 0];
    call(libc::SYS_sched_setaffinity, arguments).map(|_| ())
}

/// The CPU that runs the caller. getcpu(2).
pub fn current() -> Result<usize> {
    let mut cpu = 0u32;
    let at = &raw mut cpu as usize;
    call(libc::SYS_getcpu, [at, 0, 0, 0, 0, 0])?;
    // Written by the kernel behind the compiler's back.
    Ok(std::hint::black_box(cpu) as usize)
}

/// Binds the caller to the CPU that it runs on, for what has to be exact.
pub fn stay() -> Result<usize> {
    let cpu = current()?;
    bind(0, &[cpu])?;
    Ok(cpu)
}

/// Tells an emulator, and hardware with several threads in a core, that the caller waits awake: one
/// thread of QEMU that plays all CPUs goes on to the next one.
#[inline(always)]
pub fn relax() {
    // SAFETY: a hint; it changes no state.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        // std's hint is ISB there, which is none to QEMU.
        std::arch::asm!("yield", options(nomem, nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "aarch64"))]
    std::hint::spin_loop();
}
