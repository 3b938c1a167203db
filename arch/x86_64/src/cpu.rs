//! SKELETON: the CPU: context switch, idle, power.
/// A kernel thread that is not running: its stack pointer; the rest is on its stack.
pub struct KernelContext { sp: u64 }
impl KernelContext {
    /// A context that calls `entry(argument)` on a new stack whose top is `stack_top`. `entry` never returns.
    pub fn new(stack_top: u64, entry: extern "C" fn(usize) -> !, argument: usize) -> Self { let _ = (stack_top, entry, argument); todo!() }
    /// The context of the thread that runs now, to be filled by the first switch.
    pub const fn running() -> Self { Self { sp: 0 } }
}
/// Saves the running thread into `from`, goes on with `to`, whose kernel stack's top is `to_stack_top` (for traps from user mode).
/// SAFETY contract: `to` was made by `new` or saved by `switch`, and both outlive the switch.
#[allow(clippy::missing_safety_doc)]
pub unsafe fn switch(from: *mut KernelContext, to: *const KernelContext, to_stack_top: u64) { let _ = (from, to, to_stack_top, 0); todo!() }
/// Sleeps until an interrupt comes and returns what it was; interrupts are off before and after.
pub fn wait_for_interrupt() -> super::trap::Irq { todo!() }
/// Takes an interrupt that is already pending, without waiting.
pub fn poll_interrupt() -> Option<super::trap::Irq> { todo!() }
/// Ends the machine with a status that `run.sh` turns into its exit status (QEMU exit device or semihosting), else powers off, else halts.
pub fn exit(status: u8) -> ! { let _ = status; todo!() }
/// Restarts the machine.
pub fn reboot() -> ! { todo!() }
/// 64 bits from the CPU's generator, if it has one.
pub fn random() -> Option<u64> { None }
/// Seconds since 1970 by the machine's clock at this moment, 0 if there is none.
pub fn wall_clock() -> u64 { 0 }
/// Calls `f` with each return address from the running frame outwards (frame pointers, bounded, never faults).
pub fn backtrace(from: Option<(u64, u64)>, f: &mut dyn FnMut(u64)) { let _ = (from, f); todo!() }
/// The lines of /proc/cpuinfo for one CPU, in Linux's format for this architecture.
pub fn describe(out: &mut dyn core::fmt::Write) -> core::fmt::Result { let _ = out; Ok(()) }
/// Turns on what the boot line says: a short list of features in use ("nx smep smap umip xsave pcid").
pub fn features(out: &mut dyn core::fmt::Write) -> core::fmt::Result { let _ = out; Ok(()) }
/// AT_HWCAP, AT_HWCAP2.
pub fn hwcap() -> (u64, u64) { (0, 0) }
/// uname -m and AT_PLATFORM.
pub const NAME: &str = "x86_64";
