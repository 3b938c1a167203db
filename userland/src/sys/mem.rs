//! Memory: the calls on mappings, with addresses as numbers.
use super::{Result, call};
use std::sync::atomic::Ordering::{Acquire, Release};

/// The page size of both machines.
pub const PAGE: usize = 4096;

/// Readable and writable.
pub const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Private anonymous memory.
pub const ANON: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// An advice of madvise(2) that the C library of both machines does not name: folios of 2 MiB now.
pub const MADV_COLLAPSE: i32 = 25;

/// Advice that the C library does not name: accesses fault, until the advice after it.
pub const MADV_GUARD_INSTALL: i32 = 102;
/// Takes that back.
pub const MADV_GUARD_REMOVE: i32 = 103;

/// mmap(2): the address. Arguments are not checked here: that is the kernel's task.
pub fn mmap(
    addr: usize,
    len: usize,
    prot: i32,
    flags: i32,
    fd: i32,
    offset: usize,
) -> Result<usize> {
    call(
        libc::SYS_mmap,
        [
            addr,
            len,
            prot as usize,
            flags as usize,
            fd as isize as usize,
            offset,
        ],
    )
}

/// Private anonymous readable and writable memory of `pages` pages, anywhere, in small pages only.
pub fn anon(pages: usize) -> Result<usize> {
    let at = mmap(0, pages * PAGE, RW, ANON, -1, 0)?;
    // A Linux with huge pages would otherwise fault whole blocks; a kernel without them refuses,
    // and that is as good.
    let _ = madvise(at, pages * PAGE, libc::MADV_NOHUGEPAGE);
    Ok(at)
}

/// A page of zeros that processes share, at any address.
pub fn shared_page() -> Result<usize> {
    mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
}

/// munmap(2).
pub fn munmap(addr: usize, len: usize) -> Result<()> {
    call(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]).map(|_| ())
}

/// mprotect(2).
pub fn mprotect(addr: usize, len: usize, prot: i32) -> Result<()> {
    call(libc::SYS_mprotect, [addr, len, prot as usize, 0, 0, 0]).map(|_| ())
}

/// mremap(2): the new address.
pub fn mremap(old: usize, old_len: usize, new_len: usize, flags: i32, new: usize) -> Result<usize> {
    call(
        libc::SYS_mremap,
        [old, old_len, new_len, flags as usize, new, 0],
    )
}

/// madvise(2).
pub fn madvise(addr: usize, len: usize, advice: i32) -> Result<()> {
    call(libc::SYS_madvise, [addr, len, advice as usize, 0, 0, 0]).map(|_| ())
}

/// msync(2).
pub fn msync(addr: usize, len: usize, flags: i32) -> Result<()> {
    call(libc::SYS_msync, [addr, len, flags as usize, 0, 0, 0]).map(|_| ())
}

/// mincore(2): one byte a page, bit 0 says resident.
pub fn mincore(addr: usize, pages: usize) -> Result<Vec<u8>> {
    let mut out = vec![0u8; pages];
    call(
        libc::SYS_mincore,
        [addr, pages * PAGE, out.as_mut_ptr() as usize, 0, 0, 0],
    )?;
    Ok(out)
}

/// mlock(2).
pub fn mlock(addr: usize, len: usize) -> Result<()> {
    call(libc::SYS_mlock, [addr, len, 0, 0, 0, 0]).map(|_| ())
}

/// munlock(2).
pub fn munlock(addr: usize, len: usize) -> Result<()> {
    call(libc::SYS_munlock, [addr, len, 0, 0, 0, 0]).map(|_| ())
}

/// mseal(2).
pub fn mseal(addr: usize, len: usize, flags: usize) -> Result<()> {
    call(libc::SYS_mseal, [addr, len, flags, 0, 0, 0]).map(|_| ())
}

/// The bare brk(2): the break after the call, which is the old one when it refused.
pub fn brk(to: usize) -> usize {
    super::call_bare(libc::SYS_brk as usize, [to, 0, 0, 0, 0, 0]) as usize
}

/// The pagemap entries (8 bytes a page) of `pages` pages from `addr`.
pub fn pagemap(addr: usize, pages: usize) -> Result<Vec<u64>> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open("/proc/self/pagemap")?;
    let mut bytes = vec![0u8; pages * 8];
    file.read_exact_at(&mut bytes, (addr / PAGE * 8) as u64)?;
    Ok(bytes
        .chunks_exact(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()))
        .collect())
}

/// A 64-bit word at `at`, which the caller has mapped: for memory shared between processes.
pub fn load(at: usize) -> u64 {
    // SAFETY: the caller mapped the word; 8-byte aligned by the mask; atomics allow other
    // processes.
    unsafe { std::sync::atomic::AtomicU64::from_ptr((at & !7) as *mut u64) }.load(Acquire)
}

/// Stores a 64-bit word at `at`, as [`load`] reads it. One plain store, and so one fault at most:
/// an exchange may read first.
pub fn store(at: usize, value: u64) {
    // SAFETY: as in `load`.
    unsafe { std::sync::atomic::AtomicU64::from_ptr((at & !7) as *mut u64) }.store(value, Release);
}

/// The aligned 32-bit word at `at`, which the caller has mapped for as long as the program runs: a
/// futex, maybe of several processes.
pub fn word32(at: usize) -> &'static std::sync::atomic::AtomicU32 {
    // SAFETY: the caller mapped the word and keeps it; aligned by the mask; atomics allow other
    // processes.
    unsafe { std::sync::atomic::AtomicU32::from_ptr((at & !3) as *mut u32) }
}

/// Copies `bytes` to `at`, which the caller has mapped writable.
pub fn copy_to(at: usize, bytes: &[u8]) {
    // SAFETY: the caller mapped `bytes.len()` writable bytes at `at`, outside any Rust object.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
}

/// Copies `len` bytes from one place to another, which do not overlap and which the caller has
/// mapped.
pub fn copy(from: usize, to: usize, len: usize) {
    // SAFETY: the caller mapped both, outside any Rust object.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
}

/// Makes code written at `at` (one cache line of at least 16 bytes) visible to instruction fetches.
pub fn sync_code(at: usize) {
    // SAFETY: cache maintenance changes no values; the caller has mapped `at`.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("dc cvau, {a}", "dsb ish", "ic ivau, {a}", "dsb ish", "isb", a = in(reg) at);
    }
    // x86_64 keeps its caches in step by itself.
    let _ = at;
}

/// The byte at `at`, which the caller has mapped.
pub fn byte(at: usize) -> u8 {
    (load(at) >> (at % 8 * 8)) as u8
}

/// Stores each page's own address in its first word: four instructions a page. The caller has
/// mapped `at..end` writable.
#[inline(never)]
pub fn store_addresses(at: usize, end: usize) {
    for page in (at..end).step_by(PAGE) {
        // SAFETY: the caller mapped the page writable, outside any Rust object.
        unsafe { (page as *mut usize).write_volatile(page) };
    }
}

/// Stores `value` in the first byte of each page: four instructions a page. The caller has mapped
/// `at..end` writable.
#[inline(never)]
pub fn store_bytes(at: usize, end: usize, value: u8) {
    for page in (at..end).step_by(PAGE) {
        // SAFETY: as in `store_addresses`.
        unsafe { (page as *mut u8).write_volatile(value) };
    }
}

/// Fills the page at `at` with `byte` in 32-byte stores where the machine has them: 128 stores and
/// about 100 instructions around them, like the memset of most C libraries.
#[inline]
pub fn fill_page(at: usize, byte: u8) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2; the caller mapped the page writable; the registers are named.
        unsafe {
            std::arch::asm!(
                "vmovd xmm0, {b:e}", "vpbroadcastb ymm0, xmm0",
                "2:", "vmovdqu [{p}], ymm0", "vmovdqu [{p} + 32], ymm0",
                "vmovdqu [{p} + 64], ymm0", "vmovdqu [{p} + 96], ymm0",
                "add {p}, 128", "cmp {p}, {end}", "jne 2b", "vzeroupper",
                b = in(reg) byte as u32, p = inout(reg) at => _, end = in(reg) at + PAGE,
                out("xmm0") _, options(nostack),
            );
        }
        return;
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the caller mapped the page writable; the registers are named.
        unsafe {
            std::arch::asm!(
                "dup v0.16b, {b:w}",
                "2:", "stp q0, q0, [{p}, 32]", "stp q0, q0, [{p}], 64", "cmp {p}, {end}", "b.ne 2b",
                b = in(reg) byte as u32, p = inout(reg) at => _, end = in(reg) at + PAGE,
                out("v0") _, options(nostack),
            );
        }
    }
    #[cfg(not(target_arch = "aarch64"))]
    // SAFETY: the caller mapped the page writable, outside any Rust object.
    unsafe {
        std::ptr::write_bytes(at as *mut u8, byte, PAGE)
    };
}

/// Whether the page at `at`, which the caller has mapped readable, has `first` in its first 64-bit
/// word and `rest` in all others.
pub fn page_is(at: usize, first: u64, rest: u64) -> bool {
    // SAFETY: the caller mapped the page, outside any Rust object, and nothing changes it
    // meanwhile.
    let words = unsafe { std::slice::from_raw_parts(at as *const u64, PAGE / 8) };
    words[0] == first && words[1..].iter().fold(0, |odd, word| odd | (word ^ rest)) == 0
}

/// What the header of a swap area ends with.
pub const SWAP_MAGIC: &[u8; 10] = b"SWAPSPACE2";

/// The first page of a swap area, as mkswap(8) writes it: from byte 1024 on the version, the last
/// page and how many pages are bad, at the end what it is.
pub fn swap_header(words: [u32; 3], magic: &[u8; 10]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    for (n, word) in words.into_iter().enumerate() {
        page[1024 + 4 * n..][..4].copy_from_slice(&word.to_ne_bytes());
    }
    page[PAGE - 10..].copy_from_slice(magic);
    page
}
