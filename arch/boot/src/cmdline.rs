//! The command line, copied out of memory that the kernel will reuse.

use core::cell::UnsafeCell;

/// Longest command line that is kept, in bytes; what is behind is cut off.
pub const LONGEST: usize = 8192;

struct Copy(UnsafeCell<[u8; LONGEST]>);
// SAFETY: written by the one call of `keep`, read-only afterwards.
unsafe impl Sync for Copy {}
// Not in .bss: on aarch64, Limine's words are kept before that is emptied.
#[cfg_attr(target_os = "none", unsafe(link_section = ".data.cmdline"))]
static COPY: Copy = Copy(UnsafeCell::new([0; LONGEST]));

/// Keeps `bytes` up to the first NUL; those that are not ASCII become '?'.
///
/// # Safety
/// Called once.
pub unsafe fn keep(bytes: impl Iterator<Item = u8>) -> &'static str {
    // SAFETY: the only reference to the copy, per the caller.
    let copy = unsafe { &mut *COPY.0.get() };
    let mut len = 0;
    for (slot, byte) in copy.iter_mut().zip(bytes.take_while(|byte| *byte != 0)) {
        *slot = if byte.is_ascii() { byte } else { b'?' };
        len += 1;
    }
    core::str::from_utf8(&copy[..len]).unwrap_or("")
}

#[cfg(test)]
mod tests {
    #[test]
    fn kept_up_to_the_end() {
        let long = core::iter::repeat_n(b'x', 3 * super::LONGEST);
        let words = b"a=1 \xff b".iter().copied();
        // SAFETY: the only call in this process.
        let kept = unsafe { super::keep(words.chain(long)) };
        assert_eq!(&kept[..8], "a=1 ? bx");
        assert_eq!(kept.len(), super::LONGEST);
    }
}
