//! The machine behind `mm::arch::Machine`: TLB maintenance of this CPU and, by shootdown, of the
//! others; CR3; its memory is in `physmem`.

use super::pkru;
use super::root::{self, write_cr3};
use super::{cpus, features};
use crate::pte::Format;
use crate::shootdown::{Flush, Loaded, Requests};
use arch_boot::cpus::NR_CPUS;
use arch_boot::online;
use arch_boot::trap::kernel_wait;
use arrayvec::ArrayVec;
use core::arch::asm;
use mm::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::{Asid, Cpu, Key, Level, Machine, PteFormat, Refused, Tlb};
use x86_64::instructions::tlb::flush as invlpg;
use x86_64::registers::control::{Cr4, Cr4Flags};

/// This machine. A unit value: the state is in hardware.
pub struct Hardware;

/// Tags of spaces: a process-context identifier has 12 bits. They say which CPUs have a space
/// loaded; the TLB does not know them.
const ASIDS: usize = 1 << 12;

/// What a CPU and those who change entries say to each other, on a cache line of its own.
#[repr(align(64))]
struct Side {
    /// The space that it has loaded; the idle root's tag is 0.
    loaded: Loaded,
    /// What others ask it to drop.
    requests: Requests,
}

static SIDES: [Side; NR_CPUS] = [const {
    Side {
        loaded: Loaded::new(),
        requests: Requests::new(),
    }
}; NR_CPUS];

fn reload_cr3() {
    // SAFETY: writes back what is there.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags)) }
}

impl Machine for Hardware {
    type Pte = Format;
    type Mem = Self;
    type Tlb = Self;
    type Cpu = Self;

    #[inline]
    fn mem(&self) -> &Self {
        self
    }
    #[inline]
    fn tlb(&self) -> &Self {
        self
    }
    #[inline]
    fn cpu(&self) -> &Self {
        self
    }
    fn keys(&self) -> u8 {
        match features::get().pku {
            true => Format::KEYS,
            false => 1,
        }
    }
    fn largest_leaf(&self) -> Level {
        // Without the feature PS is reserved in a PDPTE, and each use of it faults (SDM Vol 3,
        // 4.5.4).
        if features::get().pages_1g {
            Level::Pud
        } else {
            Level::Pmd
        }
    }
    fn prepare_root(&self, root: Pfn) {
        root::prepare(root);
    }
}

/// Drops this CPU's entries.
#[inline]
fn flush(what: Flush) {
    let page = |at| invlpg(x86_64::VirtAddr::new_truncate(at));
    match what {
        Flush::Range { range, stride } if Flush::pages(range, stride, page) => {}
        Flush::Range { .. } | Flush::User => reload_cr3(),
        // Clearing CR4.PGE drops everything, global entries too.
        // SAFETY: only the bit that says whether entries may be global.
        Flush::All => unsafe {
            Cr4::update(|f| f.remove(Cr4Flags::PAGE_GLOBAL));
            Cr4::update(|f| f.insert(Cr4Flags::PAGE_GLOBAL));
        },
    }
}

/// Does what other CPUs ask this one to drop.
#[inline]
pub fn answer() {
    let requests = &SIDES[cpus::current()].requests;
    if requests.is_open() {
        requests.serve(flush);
    }
}

/// Has the other CPUs drop entries that have been changed: those that have the space of `asid`
/// loaded; all, if it is `None`. Returns when they have.
#[cold]
fn shoot(asid: Option<Asid>, what: Flush) {
    Loaded::entries_are_written();
    let mut asked = ArrayVec::<(usize, u64), NR_CPUS>::new();
    let own = cpus::current();
    for number in online::others(own) {
        let side = &SIDES[number];
        if side.loaded.may_have(asid.map(|asid| asid.0)) {
            asked.push((number, side.requests.ask(what)));
            online::count_flush(own);
            cpus::interrupt(number);
        }
    }
    for (number, request) in asked {
        let what = format_args!("CPU {number}, which is to drop {what:x?}");
        kernel_wait(&what, &mut || {
            answer();
            SIDES[number].requests.is_done(request)
        });
    }
}

impl Tlb for Hardware {
    // PCIDs are not in use: a space is flushed whenever it is switched to, so only what is loaded
    // now can be stale. INVLPG and a CR3 write both drop all cached pointers to tables (SDM Vol 3,
    // 4.10.4.1), so `tables` needs nothing more.
    #[inline]
    fn flush_range(&self, asid: Asid, range: VirtRange, stride: Level, _tables: bool) {
        let stride = stride.bytes();
        let what = Flush::Range { range, stride };
        flush(what);
        if online::several() {
            shoot(Some(asid), what);
        }
    }
    #[inline]
    fn widened(&self, _asid: Asid, _range: VirtRange, _stride: Level) -> bool {
        // A page fault itself drops the CPU's entries for its address (SDM Vol 3A, 4.10.4.1), so
        // one that is spurious comes at most once for each page and CPU (4.10.4.3 "Optional
        // Invalidation": R/W from 0 to 1, XD from 1 to 0).
        false
    }
    #[inline]
    fn flush_page(&self, asid: Asid, va: VirtAddr) {
        invlpg(x86_64::VirtAddr::new_truncate(va.0));
        if online::several() {
            let range = VirtRange::new(va, va + PAGE_SIZE);
            let stride = PAGE_SIZE;
            shoot(Some(asid), Flush::Range { range, stride });
        }
    }
    fn flush_asid(&self, asid: Asid) {
        flush(Flush::User);
        if online::several() {
            shoot(Some(asid), Flush::User);
        }
    }
    fn flush_kernel(&self, range: VirtRange) {
        let page = |at| invlpg(x86_64::VirtAddr::new_truncate(at));
        if !Flush::pages(range, PAGE_SIZE, page) {
            flush(Flush::All);
        }
        if online::several() {
            shoot(None, Flush::All);
        }
    }
}

impl Cpu for Hardware {
    #[inline]
    fn id(&self) -> usize {
        cpus::current()
    }
    #[inline]
    fn count(&self) -> usize {
        online::count()
    }
    #[inline]
    fn asids(&self) -> usize {
        ASIDS
    }
    fn interrupt(&self, number: usize) {
        cpus::interrupt(number);
    }
    fn wait(&self, done: &mut dyn FnMut() -> bool) {
        kernel_wait(&"another CPU", &mut || {
            answer();
            done()
        });
    }
    fn refuses_key(&self, key: Key, write: bool) -> bool {
        pkru::refuses(key, write)
    }
    fn set_key(&self, key: Key, refused: Refused) {
        pkru::set(key, refused);
    }
    fn reset_keys(&self) {
        pkru::write(pkru::INITIAL);
    }
    #[inline]
    fn activate(&self, root: Pfn, asid: Asid) {
        let loaded = &SIDES[cpus::current()].loaded;
        // SAFETY: `prepare_root` gave the root the kernel half.
        loaded.load(asid.0, || unsafe { write_cr3(root) });
    }
}
