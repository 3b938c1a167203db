//! The seam to the machine, tried from above: the clock, user mode as a call, copies that fault.

use crate::arch::boot::DIRECT_MAP;
use crate::arch::trap::{Irq, Trap, UserContext};
use crate::arch::{cpu, timer, uaccess};
use crate::base::machine::{Space, kernel_space, mm};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::{Attrs, Level};
use mm::fault::Access;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};

const CODE: VirtAddr = VirtAddr(0x10_0000);
const DATA: VirtAddr = VirtAddr(0x20_0000);
const NUMBER: u64 = 39;

/// A system call with number [`NUMBER`] and first argument 7; then a read of address 16; then an
/// undefined instruction.
#[cfg(target_arch = "x86_64")]
const PROGRAM: &[u8] = &[
    0xb8, 39, 0, 0, 0, // mov eax, 39
    0xbf, 7, 0, 0, 0, // mov edi, 7
    0x0f, 0x05, // syscall
    0x8a, 0x04, 0x25, 16, 0, 0, 0, // mov al, [16]
    0x0f, 0x0b, // ud2
    0xeb, 0xfe, // jmp .
];
#[cfg(target_arch = "x86_64")]
const AFTER_READ: u64 = CODE.0 + 19;
#[cfg(target_arch = "x86_64")]
const LOOP: u64 = CODE.0 + 21;

/// The same.
#[cfg(target_arch = "aarch64")]
const PROGRAM: &[u8] = &[
    0xe8, 0x04, 0x80, 0xd2, // mov x8, #39
    0xe0, 0x00, 0x80, 0xd2, // mov x0, #7
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0x01, 0x02, 0x80, 0xd2, // mov x1, #16
    0x21, 0x00, 0x40, 0xf9, // ldr x1, [x1]
    0x00, 0x00, 0x00, 0x00, // udf #0
    0x00, 0x00, 0x00, 0x14, // b .
];
#[cfg(target_arch = "aarch64")]
const AFTER_READ: u64 = CODE.0 + 20;
#[cfg(target_arch = "aarch64")]
const LOOP: u64 = CODE.0 + 24;

/// An address space with the program and one page of data, active on this CPU.
struct Machine(Space);

impl Machine {
    fn new() -> Option<Self> {
        let space = Space::new(mm()).ok()?;
        for (at, prot) in [
            (CODE, Prot::READ | Prot::EXEC),
            (DATA, Prot::READ | Prot::WRITE),
        ] {
            let request = MapRequest {
                place: Place::Fixed(at),
                len: PAGE_SIZE,
                prot,
                flags: VmaFlags::empty(),
                backing: Backing::Anon,
                populate: false,
            };
            space.map(request).ok()?;
        }
        (space.write(CODE, PROGRAM, true) == PROGRAM.len()).then_some(())?;
        (space.write(DATA, &[0; PAGE_SIZE as usize], false) == PAGE_SIZE as usize).then_some(())?;
        space.activate();
        Some(Machine(space))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Runs until something other than an interrupt comes back.
fn run(user: &mut UserContext) -> Trap {
    loop {
        match user.run() {
            Trap::Interrupt(_) => {}
            trap => return trap,
        }
    }
}

ktest::ktest! {
    /// The clock goes forward, and a deadline comes when it is due and not before.
    fn clock_and_deadline(ctx) {
        for _ in 0..1000 {
            let (first, second) = (timer::now(), timer::now());
            ktest::check!(ctx, first <= second, "{first} before {second}");
        }
        for delay in [0, 1_000, 300_000, 2_000_000] {
            let due = timer::now() + delay;
            timer::set_deadline(Some(due));
            while cpu::wait_for_interrupt() != Irq::Timer {}
            let now = timer::now();
            ktest::check!(ctx, now >= due, "{} ns early", due - now);
        }
    }
}

/// Whether the CPU knows leaves of 1 GiB. QEMU takes them from any CPU, silicon does not.
fn has_gigabyte_leaves() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = core::arch::x86_64::__cpuid(0x8000_0001).edx & 1 << 26 != 0;
    #[cfg(not(target_arch = "x86_64"))]
    let has = true;
    has
}

ktest::ktest! {
    /// The direct map has no leaf that is larger than the CPU knows, and the largest that it knows.
    fn largest_leaf_of_the_direct_map(ctx) {
        let mut largest = Level::Pte;
        for gib in 0..64 {
            // Not at its beginning: a PC's firmware has the first 64 KiB, so that single pages map
            // what is around them.
            let va = VirtAddr(DIRECT_MAP + (gib << 30) + (64 << 20));
            if let Some((_, attrs, level)) = kernel_space().lookup(va) && !attrs.contains(Attrs::DEVICE) {
                largest = largest.max(level);
            }
        }
        let most = if has_gigabyte_leaves() && mm().counts().total >= 4 << 18 { Level::Pud } else { Level::Pmd };
        ktest::check_eq!(ctx, largest, most);
    }
}

ktest::ktest! {
    /// A deadline that was taken back does not come.
    fn deadline_taken_back(ctx) {
        timer::set_deadline(Some(timer::now() + 100_000));
        timer::set_deadline(None);
        let end = timer::now() + 1_000_000;
        while timer::now() < end {
            let irq = cpu::poll_interrupt();
            ktest::check!(ctx, irq != Some(Irq::Timer));
        }
    }
}

ktest::ktest! {
    /// User mode is a call: a system call, a page fault, an undefined instruction and an interrupt
    /// come back as what they are.
    fn user_mode_comes_back(ctx) {
        let Some(_machine) = Machine::new() else { return Err(ktest::Failure::Skipped("no memory")) };
        let mut user = UserContext::new(CODE.0, DATA.0 + PAGE_SIZE);
        ktest::check_eq!(ctx, run(&mut user), Trap::Syscall);
        ktest::check_eq!(ctx, user.syscall_number(), NUMBER);
        ktest::check_eq!(ctx, user.syscall_args()[0], 7);
        user.restart_syscall();
        ktest::check_eq!(ctx, run(&mut user), Trap::Syscall);
        ktest::check_eq!(ctx, (user.syscall_number(), user.syscall_args()[0]), (NUMBER, 7));
        user.set_return(0);
        let fault = Trap::PageFault { addr: VirtAddr(16), access: Access::Read, present: false };
        ktest::check_eq!(ctx, run(&mut user), fault);
        user.set_pc(AFTER_READ);
        ktest::check_eq!(ctx, run(&mut user), Trap::IllegalInstruction);
        user.set_pc(LOOP);
        timer::set_deadline(Some(timer::now() + 100_000));
        while user.run() != Trap::Interrupt(Irq::Timer) {}
        ktest::check_eq!(ctx, user.pc(), LOOP);
    }
}

ktest::ktest! {
    /// Copies to and from user memory tell how many bytes are missing; what is not there is an
    /// error and no more.
    fn user_copies_stop_at_the_hole(ctx) {
        let Some(_machine) = Machine::new() else { return Err(ktest::Failure::Skipped("no memory")) };
        let (start, end) = (DATA.0, DATA.0 + PAGE_SIZE);
        let mut bytes = [0xa5; 64];
        for inside in [0u64, 1, 7, 8, 9, 33, 63] {
            let missing = Err(64 - inside as usize);
            ktest::check_eq!(ctx, uaccess::copy_to_user(end - inside, &bytes), missing);
            ktest::check_eq!(ctx, uaccess::copy_from_user(&mut bytes, end - inside), missing);
            ktest::check_eq!(ctx, uaccess::clear_user(end - inside, 64), missing);
        }
        ktest::check_eq!(ctx, uaccess::copy_to_user(start + 3, &bytes), Ok(()));
        let mut back = [0; 64];
        ktest::check_eq!(ctx, uaccess::copy_from_user(&mut back, start + 3), Ok(()));
        ktest::check_eq!(ctx, back, bytes);
        ktest::check_eq!(ctx, uaccess::copy_to_user(CODE.0, &bytes), Err(64));
        ktest::check_eq!(ctx, uaccess::load_u32(end), Err(()));
        ktest::check_eq!(ctx, uaccess::compare_exchange_u32(end, 0, 1), Err(()));
        ktest::check_eq!(ctx, uaccess::clear_user(start, 4), Ok(()));
        ktest::check_eq!(ctx, uaccess::compare_exchange_u32(start, 0, 5), Ok(0));
        ktest::check_eq!(ctx, uaccess::compare_exchange_u32(start, 0, 6), Ok(5));
        ktest::check_eq!(ctx, uaccess::load_u32(start), Ok(5));
    }
}

ktest::ktest! {
    /// A context that goes nowhere sensible comes back with a fault, never with a fault in the
    /// kernel.
    fn wild_program_counters(ctx) {
        let Some(_machine) = Machine::new() else { return Err(ktest::Failure::Skipped("no memory")) };
        for pc in [0, 0x7fff_ffff_f000, 1 << 47, 1 << 63, 0xffff_8000_0000_0000, 0xffff_ffff_8020_0000, u64::MAX - 3] {
            let mut user = UserContext::new(pc, 0);
            let trap = run(&mut user);
            let fault = matches!(trap, Trap::PageFault { access: Access::Exec, .. } | Trap::GeneralProtection | Trap::Alignment { .. });
            ktest::check!(ctx, fault, "pc {pc:#x}: {trap:?}");
        }
    }
}

ktest::ktest! {
    /// memcpy, memmove and memset write what they are to and nothing beside it, whatever the length
    /// and wherever both ends stand, in one array or two.
    fn copies_of_all_lengths(ctx) {
        const MOST: usize = 100;
        let from: [u8; MOST + 16] = core::array::from_fn(|i| i as u8 + 1);
        for len in 0..=MOST {
            for place in 0..16 * 16 {
                let (at, to_at) = (place % 16, place / 16);
                let mut to = [0; MOST + 32];
                let source = core::hint::black_box(&from[at..at + len]);
                to[to_at..to_at + len].copy_from_slice(source);
                let sound = core::hint::black_box(&to).iter().enumerate().all(|(i, byte)| {
                    let copied = (to_at..to_at + len).contains(&i);
                    *byte == if copied { from[at + i - to_at] } else { 0 }
                });
                ktest::check!(ctx, sound, "{len} bytes from {at} to {to_at}: {to:?}");
                let mut moved: [u8; MOST + 32] = core::array::from_fn(|i| i as u8 + 1);
                core::hint::black_box(&mut moved).copy_within(at..at + len, to_at);
                let sound = core::hint::black_box(&moved).iter().enumerate().all(|(i, byte)| {
                    let copied = (to_at..to_at + len).contains(&i);
                    usize::from(*byte) == if copied { at + i - to_at } else { i } + 1
                });
                ktest::check!(ctx, sound, "{len} bytes moved from {at} to {to_at}: {moved:?}");
                let (mut set, byte) = ([0; MOST + 32], core::hint::black_box(place as u8));
                core::hint::black_box(&mut set)[to_at..to_at + len].fill(byte);
                let sound = core::hint::black_box(&set).iter().enumerate().all(|(i, it)| {
                    *it == if (to_at..to_at + len).contains(&i) { byte } else { 0 }
                });
                ktest::check!(ctx, sound, "{len} bytes of {byte} at {to_at}: {set:?}");
            }
        }
    }
}
