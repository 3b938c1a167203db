//! Time in which threads wait for memory, as /proc/pressure/memory tells it: in which some do, and
//! in which all that have something to do ("full"). Averages over 10, 60 and 300 s are of what each
//! period of 2 s had, decayed by e^(-2/10) and so on with each; periods that ended since are
//! made up for when a wait begins or ends, and when the figures are read, so that no timer runs.

/// Nanoseconds of a period.
const PERIOD: u64 = 2_000_000_000;
/// Of a period nothing is left after so many in any average.
const FORGOTTEN: u64 = 4096;
/// An average of 1, and e^(-2/10), e^(-2/60) and e^(-2/300), in these units.
const ONE: u64 = 1 << 24;
const DECAYS: [u64; 3] = [13_736_023, 16_227_193, 16_665_740];

/// The figures of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// Nanoseconds in all.
    total: u64,
    of_period: u64,
    averages: [u64; 3],
}

impl Line {
    const NONE: Line = Line {
        total: 0,
        of_period: 0,
        averages: [0; 3],
    };
    /// Microseconds in all.
    pub fn total(&self) -> u64 {
        self.total / 1000
    }
    /// The averages over 10, 60 and 300 s, in hundredths of a percent.
    pub fn averages(&self) -> [u64; 3] {
        self.averages
            .map(|average| (average * 10_000 + ONE / 2) / ONE)
    }
    fn add(&mut self, ns: u64) {
        self.total += ns;
        self.of_period += ns;
    }
    fn end_period(&mut self) {
        let sample = core::mem::take(&mut self.of_period) * ONE / PERIOD;
        for (average, decay) in self.averages.iter_mut().zip(DECAYS) {
            *average = (*average * decay + sample * (ONE - decay)) / ONE;
        }
    }
}

/// Who waits, and for how long some have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    waiting: u64,
    /// No thread did anything else, when a wait began or ended last.
    is_full: bool,
    /// Until when all is counted, in ns since boot.
    until: u64,
    some: Line,
    full: Line,
}

impl Stalls {
    /// None so far.
    pub const NONE: Stalls = Stalls {
        waiting: 0,
        is_full: false,
        until: 0,
        some: Line::NONE,
        full: Line::NONE,
    };

    /// A wait begins at `now`, or ends; if others are `busy`, not all wait from now on.
    pub fn change(&mut self, now: u64, begins: bool, busy: bool) {
        self.count(now);
        match begins {
            true => self.waiting += 1,
            false => self.waiting -= 1,
        }
        self.is_full = self.waiting > 0 && !busy;
    }

    /// The lines "some" and "full" at `now`, in ns since boot.
    pub fn lines(&mut self, now: u64) -> [Line; 2] {
        self.count(now);
        [self.some, self.full]
    }

    fn count(&mut self, now: u64) {
        // Clocks of two CPUs may differ.
        let now = now.max(self.until);
        // What these had is forgotten by the averages.
        let skipped = ((now - self.until) / PERIOD).saturating_sub(FORGOTTEN) * PERIOD;
        let [some, full] =
            [self.waiting > 0, self.is_full].map(|counts| skipped * u64::from(counts));
        self.some.total += some;
        self.full.total += full;
        self.until += skipped;
        while self.until < now {
            let end = (self.until / PERIOD + 1) * PERIOD;
            self.add(now.min(end) - self.until);
            if self.until == end {
                self.some.end_period();
                self.full.end_period();
            }
        }
    }
    fn add(&mut self, ns: u64) {
        self.until += ns;
        if self.waiting > 0 {
            self.some.add(ns);
        }
        if self.is_full {
            self.full.add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wait_is_counted_while_it_lasts() {
        let mut stalls = Stalls::NONE;
        stalls.change(500 * MS, true, true);
        stalls.change(700 * MS, true, false);
        stalls.change(1000 * MS, false, true);
        stalls.change(1250 * MS, false, true);
        let [some, full] = stalls.lines(3000 * MS);
        assert_eq!((some.total(), full.total()), (750_000, 300_000));
        // 0.375 of the first period.
        assert_eq!(some.averages(), [680, 123, 25]);
    }

    #[test]
    fn averages_rise_and_decay() {
        let mut stalls = Stalls::NONE;
        stalls.change(0, true, false);
        // 1 - e^-1, after as long as the average is over.
        assert_eq!(stalls.lines(10_000 * MS)[0].averages()[0], 6321);
        assert_eq!(stalls.lines(60_000 * MS)[1].averages()[1], 6321);
        assert_eq!(
            stalls.lines(300_000 * MS)[1].averages(),
            [10_000, 9933, 6321]
        );
        stalls.change(300_000 * MS, false, true);
        assert_eq!(stalls.lines(310_000 * MS)[0].averages()[0], 3679);
        // However long nobody has asked.
        let [some, full] = stalls.lines(u64::MAX / 2);
        assert_eq!((some.total(), some.averages()), (300_000_000, [0; 3]));
        assert_eq!(full.total(), some.total());
        stalls.change(u64::MAX / 2, true, true);
        let hours = 3_600_000 * 100 * MS;
        assert_eq!(
            stalls.lines(u64::MAX / 2 + hours)[0].averages(),
            [10_000; 3]
        );
    }
}
