//! STUB of proc.
pub fn start() -> ! {
    crate::arch::cpu::exit(0)
}
