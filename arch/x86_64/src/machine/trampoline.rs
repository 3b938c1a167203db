//! The first instructions of a CPU that the boot CPU starts (SDM Vol 3, 9.4): from real mode in a
//! page below 1 MiB, by tables of its own, to the kernel's text on a stack of the kernel's.
//!
//! Four pages: code with a [`Launch`] behind it, and three tables. They map the first 2 MiB where
//! they are, executable, and the kernel half as the kernel has it; a CPU leaves them with its first
//! Rust instructions.

use super::{direct_map, root as kernel};
use arch_boot::BootInfo;
use arch_boot::cpus::Claim;
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::addr::{PAGE_SIZE, Pfn, PhysAddr, PhysRange};

const PAGES: u64 = 4;
/// Below: real-mode vectors and what firmware writes there. Above: memory of firmware and screen.
const LOW_PAGES: core::ops::Range<u64> = (64 << 10) / PAGE_SIZE..(640 << 10) / PAGE_SIZE;
/// Where the [`Launch`] lies in the first page.
const LAUNCH: usize = 2048;

/// What the CPU that starts is given.
#[repr(C)]
struct Launch {
    gdt: [u64; 3],
    pad: [u16; 3],
    gdt_limit: u16,
    gdt_base: u32,
    long_mode: u32,
    long_mode_segment: u16,
    pad2: u16,
    /// Physical address of the trampoline's root table.
    root: u32,
    /// The only CPU that may go on, by its APIC ID.
    id: u32,
    claim: Claim,
    stack: u64,
    block: u64,
    entry: u64,
}

/// What one CPU starts with.
pub(super) struct Start {
    /// Its APIC ID.
    pub(super) id: u32,
    /// Top of its stack.
    pub(super) stack: u64,
    /// The argument of `entry`.
    pub(super) block: u64,
    /// The first Rust function.
    pub(super) entry: extern "C" fn(block: u64) -> !,
}

global_asm!(
    r#"
    .pushsection .rodata.trampoline, "a"
    .balign 16
    .globl trampoline_start, trampoline_long_mode, trampoline_end
    .code16
trampoline_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movzwl %ax, %ebp
    shll $4, %ebp                   // where the page is
    lgdtl ({launch} + {gdt_limit})
    movl $0x20, %eax                // CR4.PAE
    movl %eax, %cr4
    movl ({launch} + {root}), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          // EFER: LME, NXE
    rdmsr
    orl $0x900, %eax
    wrmsr
    movl $0x80010033, %eax          // CR0: PG WP NE ET MP PE
    movl %eax, %cr0
    ljmpl *({launch} + {long_mode})

    .code64
trampoline_long_mode:
    xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %eax, %fs
    movl %eax, %gs
    // This CPU's ID: leaf 0xb where it exists, else leaf 1 (SDM Vol 3, 10.9.1).
    cpuid
    cmpl $0xb, %eax
    jb 1f
    movl $0xb, %eax
    xorl %ecx, %ecx
    cpuid
    testl %ebx, %ebx
    jnz 2f
1:  movl $1, %eax
    cpuid
    shrl $24, %ebx
    movl %ebx, %edx
2:  cmpl {launch} + {id}(%rbp), %edx
    jne 3f
    // Its stack, unless the boot CPU has given it up.
    movl ${claim_open}, %eax
    movl ${claim_taken}, %ecx
    lock cmpxchgl %ecx, {launch} + {claim}(%rbp)
    jne 3f
    movq {launch} + {stack}(%rbp), %rsp
    movq {launch} + {block}(%rbp), %rdi
    movq {launch} + {entry}(%rbp), %rax
    xorl %ebp, %ebp                 // the end of every backtrace
    pushq $0
    pushq $0
    callq *%rax
3:  cli
    hlt
    jmp 3b
trampoline_end:
    .popsection
    "#,
    launch = const LAUNCH,
    gdt_limit = const offset_of!(Launch, gdt_limit),
    root = const offset_of!(Launch, root),
    long_mode = const offset_of!(Launch, long_mode),
    id = const offset_of!(Launch, id),
    claim = const offset_of!(Launch, claim),
    claim_open = const Claim::OPEN,
    claim_taken = const Claim::TAKEN,
    stack = const offset_of!(Launch, stack),
    block = const offset_of!(Launch, block),
    entry = const offset_of!(Launch, entry),
    options(att_syntax)
);

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_long_mode: u8;
    static trampoline_end: u8;
}

/// Physical address of the pages; 0 for none.
static PLACE: AtomicU64 = AtomicU64::new(0);

/// Takes the pages from RAM, if there are CPUs to start.
pub(super) fn reserve(info: &mut BootInfo) {
    if info.cpus.len() < 2 {
        return;
    }
    for page in LOW_PAGES.start..=LOW_PAGES.end - PAGES {
        let at = PhysAddr(page * PAGE_SIZE);
        let range = PhysRange::new(at, at + PAGES * PAGE_SIZE);
        if info.has(range) && !info.reserved.iter().any(|used| used.overlaps(&range)) {
            info.reserve(range);
            return PLACE.store(at.0, Relaxed);
        }
    }
}

/// The number of the page at which a CPU starts; `None` when there was no room for one.
pub(super) fn page() -> Option<u8> {
    let at = PLACE.load(Relaxed);
    (at != 0).then_some((at / PAGE_SIZE) as u8)
}

fn launch() -> *mut Launch {
    direct_map::pointer(PLACE.load(Relaxed) + LAUNCH as u64)
}

/// Writes code and tables. The kernel half is copied: stacks that it does not map yet must lie
/// below root entries that it has.
pub(super) fn write() {
    let place = PLACE.load(Relaxed);
    let [root, pdpt, pd] = [1, 2, 3].map(|page| place + page * PAGE_SIZE);
    let start = &raw const trampoline_start;
    let length = (&raw const trampoline_end).addr() - start.addr();
    let long_mode = (&raw const trampoline_long_mode).addr() - start.addr();
    assert!(length <= LAUNCH, "the trampoline's code has {length} bytes");
    for table in [root, pdpt, pd] {
        // SAFETY: the trampoline's own page, which no CPU uses yet.
        unsafe { direct_map::pointer::<[u64; 512]>(table).write([0; 512]) };
    }
    kernel::prepare(Pfn(root / PAGE_SIZE));
    // SAFETY: as above; the code lies in the image, and fits. Present, writable; large.
    unsafe {
        direct_map::pointer::<u8>(place).copy_from_nonoverlapping(start, length);
        direct_map::pointer::<u64>(root).write(pdpt | 3);
        direct_map::pointer::<u64>(pdpt).write(pd | 3);
        direct_map::pointer::<u64>(pd).write(0x83);
        launch().write(Launch {
            gdt: [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff],
            pad: [0; 3],
            gdt_limit: size_of::<[u64; 3]>() as u16 - 1,
            gdt_base: place as u32 + LAUNCH as u32,
            long_mode: (place as usize + long_mode) as u32,
            long_mode_segment: 0x08,
            pad2: 0,
            root: root as u32,
            id: 0,
            claim: Claim::closed(),
            stack: 0,
            block: 0,
            entry: 0,
        });
    }
}

fn claim() -> &'static Claim {
    // SAFETY: in pages that are never given back; only used as an atomic.
    unsafe { &(*launch()).claim }
}

/// Lets one CPU come.
///
/// # Safety
/// No CPU is being started. The stack is mapped and not in use; `entry` may use `block`.
pub(super) unsafe fn open(start: Start) {
    let launch = launch();
    // SAFETY: the claim is closed, so no other CPU reads these.
    unsafe {
        (*launch).id = start.id;
        (*launch).stack = start.stack;
        (*launch).block = start.block;
        (*launch).entry = start.entry as usize as u64;
    }
    claim().open();
}

/// Gives up the CPU that [`open`] was for. False: it has come.
pub(super) fn close() -> bool {
    claim().close()
}
