//! x86_64's segment registers. Other machines have none.

/// DS, ES and GS: registers that this program does not use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selectors {
    /// DS.
    pub ds: u16,
    /// ES.
    pub es: u16,
    /// GS.
    pub gs: u16,
}

/// The data segment of user mode in Linux's descriptor table.
pub const USER_DATA: u16 = 0x2b;
/// The same, asked for with another privilege.
pub const USER_DATA_0: u16 = 0x28;

/// The selectors of this thread.
#[cfg(target_arch = "x86_64")]
pub fn selectors() -> Option<Selectors> {
    let (ds, es, gs): (u16, u16, u16);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("mov {0:x}, ds", "mov {1:x}, es", "mov {2:x}, gs",
            out(reg) ds, out(reg) es, out(reg) gs, options(nomem, nostack, preserves_flags))
    };
    Some(Selectors { ds, es, gs })
}

#[cfg(target_arch = "x86_64")]
fn is_loadable(selector: u16) -> bool {
    [0, USER_DATA, USER_DATA_0].contains(&selector)
}

/// Loads them: 0 or a user's data segment. (1 to 3 are null, too, but an interrupt makes them 0:
/// SDM Vol 2, "IRET".)
#[cfg(target_arch = "x86_64")]
pub fn load(selectors: Selectors) {
    let Selectors { ds, es, gs } = selectors;
    assert!([ds, es, gs].into_iter().all(is_loadable));
    // SAFETY: 64-bit code ignores what DS and ES select, and nothing here uses GS.
    unsafe {
        std::arch::asm!("mov ds, {0:x}", "mov es, {1:x}", "mov gs, {2:x}",
            in(reg) ds, in(reg) es, in(reg) gs, options(nomem, nostack, preserves_flags))
    };
}

/// Loads FS, calls sched_yield(2), and gives FS its base back by arch_prctl(2): the selector before
/// and after that.
#[cfg(target_arch = "x86_64")]
pub fn fs_across_yield(selector: u16) -> (u16, u16) {
    const ARCH_SET_FS: usize = 0x1002;
    const ARCH_GET_FS: usize = 0x1003;
    assert!(is_loadable(selector));
    let mut base = 0usize;
    let at = &raw mut base as usize;
    super::call(libc::SYS_arch_prctl, [ARCH_GET_FS, at, 0, 0, 0, 0]).expect("the base of FS");
    let (loaded, after): (u16, u16);
    // SAFETY: nothing uses thread-local memory before the base is back; system calls keep all
    // registers but those named.
    unsafe {
        std::arch::asm!(
            "mov fs, {selector:x}", "syscall", "mov {loaded:x}, fs",
            "mov eax, {prctl}", "mov edi, {set}", "syscall", "mov {after:x}, fs",
            selector = in(reg) selector, loaded = out(reg) loaded, after = out(reg) after,
            prctl = const libc::SYS_arch_prctl, set = const ARCH_SET_FS,
            inout("rax") libc::SYS_sched_yield => _, out("rdi") _, in("rsi") base, out("rcx") _, out("r11") _,
        )
    };
    (loaded, after)
}

/// Sets the nested-task flag, writes `at`, which may fault, and clears the flag: whether it was
/// still there.
#[cfg(target_arch = "x86_64")]
pub fn nested_flag_across_write(at: usize) -> bool {
    const NESTED: u64 = 1 << 14;
    let flags: u64;
    // SAFETY: the write is the caller's; the flag means something to IRET only.
    unsafe {
        std::arch::asm!(
            "pushfq", "or qword ptr [rsp], {nested}", "popfq",
            "mov byte ptr [{at}], 1",
            "pushfq", "mov {flags}, [rsp]", "and qword ptr [rsp], {kept}", "popfq",
            nested = const NESTED, kept = const !NESTED as i64, at = in(reg) at, flags = out(reg) flags,
        )
    };
    flags & NESTED != 0
}

/// None on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn selectors() -> Option<Selectors> {
    None
}

/// Nothing on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn load(_: Selectors) {}

/// Nothing on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn fs_across_yield(selector: u16) -> (u16, u16) {
    (selector, 0)
}

/// Nothing on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn nested_flag_across_write(_: usize) -> bool {
    true
}
