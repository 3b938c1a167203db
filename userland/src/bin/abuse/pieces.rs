//! Memory in pieces: single pages all over it, a third of them private, a third shared memory, and
//! a third a child's, too. Who asks for huge pages then gets as many as there is memory for, and
//! nobody loses a page.
use super::Outcome;
use core::ops::Range;
use userland::counters::figure;
use userland::sys::mem::{ANON, PAGE, RW, load, madvise, mmap, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, file};

const HUGE: usize = 2 << 20;
const VMSTAT: &str = "/proc/vmstat";

/// Of a part of memory in percent so many pages of each row of so many stay. Then the rest is
/// wanted in huge pages: `pieces [KEPT OF PERCENT]`.
pub fn of_memory(words: &[String]) -> Outcome {
    let number = |n: usize, or: usize| words.get(n).map_or(Ok(or), |word| word.parse());
    let (Ok(kept), Ok(of), Ok(percent)) = (number(0, 1), number(1, 7), number(2, 85)) else {
        return Err("numbers are wanted".to_owned());
    };
    let moved = || ["success", "fail"].map(|how| figure(VMSTAT, &format!("pgmigrate_{how}")));
    match (Row { kept, of }).scatter(percent) {
        Ok((huge, wanted, wrong)) if huge * 100 >= wanted * 99 && wrong == 0 => Ok(format!(
            "{huge} huge pages of {wanted}; pages moved, and in vain: {:?}",
            moved().map(|pages| pages.unwrap_or(0))
        )),
        other => Err(format!("huge pages, wanted, and wrong pages: {other:?}")),
    }
}

/// Pages in a row, and how many of them stay.
#[derive(Clone, Copy)]
struct Row {
    kept: usize,
    of: usize,
}

impl Row {
    /// Of these pages from `at` on, those that do not have their number.
    fn wrong(self, at: usize, pages: Range<usize>) -> u64 {
        let kept = pages.filter(|n| n % self.of < self.kept);
        kept.filter(|n| load(at + n * PAGE) != *n as u64).count() as u64
    }
    /// Drops those that do not stay.
    fn drop_rest(self, at: usize, pages: Range<usize>, advice: i32) -> Result<()> {
        let rest = (self.of - self.kept) * PAGE;
        let mut rows = pages.step_by(self.of).map(|n| at + (n + self.kept) * PAGE);
        rows.try_for_each(|at| madvise(at, rest, advice))
    }

    /// Returns the huge pages that there are, those that were wanted, and the pages that are not as
    /// they were written.
    fn scatter(self, percent: usize) -> Result<(u64, u64, u64)> {
        let free = || figure("/proc/meminfo", "MemFree").unwrap_or(0) as usize;
        // Whole rows.
        let third = free() / 4 * percent / 100 / 3 / self.of * self.of;
        let (pages, shared) = (3 * third, 2 * third..3 * third);
        let (object, len) = (third..2 * third, third * PAGE);
        let at = mmap(0, pages * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
        let fixed = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        mmap(at + len, len, RW, fixed, -1, 0)?;
        madvise(at, pages * PAGE, libc::MADV_NOHUGEPAGE)?;
        (0..pages).for_each(|n| store(at + n * PAGE, n as u64));
        let (is_ready, go) = (file::pipe(0)?, file::pipe(0)?);
        let child = || -> Result<u64> {
            munmap(at, shared.start * PAGE)?;
            self.drop_rest(at, shared.clone(), libc::MADV_DONTNEED)?;
            file::write(is_ready.1, b"1")?;
            file::read(go.0, &mut [0])?;
            Ok(self.wrong(at, shared.clone()))
        };
        let pid = match proc::fork()? {
            Fork::Child => proc::exit_now(i32::from(child() != Ok(0))),
            Fork::Parent(pid) => pid,
        };
        self.drop_rest(at, 0..third, libc::MADV_DONTNEED)?;
        self.drop_rest(at, object, libc::MADV_REMOVE)?;
        self.drop_rest(at, shared.clone(), libc::MADV_DONTNEED)?;
        file::read(is_ready.0, &mut [0])?;
        // What users leave to the kernel, and a half more below which memory is not compacted.
        let kept = std::fs::read_to_string("/proc/sys/vm/min_free_kbytes")?;
        let kept = kept.trim().parse::<usize>().unwrap_or(0) * 3 / 2;
        let wanted = (free() - kept) / (HUGE >> 10) - 1;
        let len = (wanted + 1) * HUGE;
        let large = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
        let first = large.next_multiple_of(HUGE);
        madvise(first, wanted * HUGE, libc::MADV_HUGEPAGE)?;
        let before = huge_pages();
        (0..wanted).for_each(|n| store(first + n * HUGE, n as u64));
        let huge = huge_pages() - before;
        let own = self.wrong(at, 0..pages);
        file::write(go.1, b"1")?;
        let others = u64::from(proc::wait_for(pid)? != Status::Exited(0));
        munmap(large, len)?;
        munmap(at, pages * PAGE)?;
        Ok((huge, wanted as u64, own + others))
    }
}

/// Private memory in huge pages, in huge pages.
fn huge_pages() -> u64 {
    figure("/proc/meminfo", "AnonHugePages").unwrap_or(0) / 2048
}
