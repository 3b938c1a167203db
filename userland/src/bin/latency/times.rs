//! How long one event takes, again and again.
use userland::measuring::wrong;
use userland::sys::proc::rusage;
use userland::sys::{Result, time};

/// Statistics of the samples of one kind of event, in nanoseconds of the monotonic clock, reading
/// it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub smallest: u64,
    pub median: u64,
    /// What 99 in 100 do not exceed.
    pub late: u64,
    pub largest: u64,
    /// All of them together.
    pub total: u64,
    pub samples: usize,
    /// Page faults of this process meanwhile.
    pub faults: u64,
}

/// The samples of one kind of event. They are kept where no page fault comes in between: the memory
/// is written before.
pub struct Times {
    times: Vec<u64>,
    taken: usize,
    faults: u64,
}

impl Times {
    /// Room for so many.
    pub fn new(samples: usize) -> Times {
        Times {
            times: vec![1; samples],
            taken: 0,
            faults: 0,
        }
    }

    /// Whether there are as many as were wanted.
    pub fn full(&self) -> bool {
        self.taken == self.times.len()
    }

    /// Does something and says how long it took; nothing is kept of it.
    #[inline]
    pub fn of<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let start = time::now();
        let done = work();
        (done, time::now() - start)
    }

    /// Does something and keeps how long it took. In a process that began meanwhile the figures are
    /// of no use.
    #[inline]
    pub fn take<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        let before = faults()?;
        let (done, time) = Times::of(work);
        self.faults += faults()?.saturating_sub(before);
        self.keep(time)?;
        Ok(done)
    }

    /// Keeps a time that was taken elsewhere.
    pub fn keep(&mut self, time: u64) -> Result<()> {
        let Some(place) = self.times.get_mut(self.taken) else {
            return Err(wrong("more samples than were wanted"));
        };
        *place = time;
        self.taken += 1;
        Ok(())
    }

    /// After a fork the pages that this program needs for a sample are shared, and the first write
    /// to each is a fault of its own: they are written before anything is measured.
    pub fn warm(&mut self) -> Result<()> {
        for time in &mut self.times {
            *std::hint::black_box(time) += 0;
        }
        for _ in 0..2 {
            faults()?;
            Times::of(|| ());
        }
        Ok(())
    }

    /// The statistics; there must be at least one sample.
    pub fn summary(mut self) -> Result<Summary> {
        self.times.truncate(self.taken);
        self.times.sort_unstable();
        let (Some(&smallest), Some(&largest)) = (self.times.first(), self.times.last()) else {
            return Err(wrong("no samples were taken"));
        };
        Ok(Summary {
            smallest,
            median: self.times[self.times.len() / 2],
            late: self.times[(self.times.len() * 99).div_ceil(100) - 1],
            largest,
            total: self.times.iter().sum(),
            samples: self.times.len(),
            faults: self.faults,
        })
    }
}

/// Page faults of this process so far.
pub fn faults() -> Result<u64> {
    Ok(rusage(libc::RUSAGE_SELF)?.minor_faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_median_and_largest() {
        let mut times = Times::new(4);
        for time in [7, 100, 3] {
            times.keep(time).expect("room");
        }
        assert!(!times.full());
        let summary = times.summary().expect("samples");
        assert_eq!(
            (
                summary.smallest,
                summary.median,
                summary.late,
                summary.largest
            ),
            (3, 7, 100, 100)
        );
        assert_eq!(
            (summary.total, summary.samples, summary.faults),
            (110, 3, 0)
        );
        assert!(Times::new(4).summary().is_err());
        assert!(Times::new(0).keep(1).is_err());
    }

    /// What is counted when a fresh page is written twice.
    fn two_stores() -> Summary {
        let page = userland::sys::mem::anon(1).expect("a page");
        let mut times = Times::new(2);
        times.warm().expect("warm");
        for _ in 0..2 {
            times
                .take(|| userland::sys::mem::store(page, 1))
                .expect("a sample");
        }
        times.summary().expect("samples")
    }

    /// One fault, unless other threads of the process have some meanwhile: they count, too.
    #[test]
    fn a_fault_is_counted() {
        let least = (0..100).map(|_| two_stores()).min_by_key(|s| s.faults);
        let least = least.expect("a hundred");
        assert_eq!(least.faults, 1);
        assert!(least.largest > 0);
    }
}
