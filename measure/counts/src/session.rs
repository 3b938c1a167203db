//! The measurement that is open, and what was counted in it.
use crate::counts::{Counter, Counts, Mode};
use crate::marks::{Mark, Marks};

/// All measurements of one run; one is open at a time, of whatever CPU.
#[derive(Debug, Default)]
pub struct Session {
    marks: Marks,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    name: String,
    before: Vec<Counts>,
}

/// What a store to the page of marks brought about.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing that concerns others.
    Nothing,
    /// A measurement is open from now on.
    Begun,
    /// None is open any more.
    Ended {
        /// Its name.
        name: String,
        /// What each CPU did in it.
        counts: Vec<Counts>,
    },
    /// None is open any more, and nothing is known of it.
    Forgotten,
    /// The program marks what cannot be; the text says what.
    Mistaken(String),
}

impl Session {
    /// A store of 8 bytes to the page, on `cpu`, which its counters include already. `read` reads
    /// the counters of all CPUs.
    pub fn store(
        &mut self,
        cpu: usize,
        offset: u64,
        value: u64,
        read: impl FnOnce() -> Vec<Counts>,
    ) -> Event {
        match (self.marks.store(offset, value), self.open.take()) {
            (None, open) => {
                self.open = open;
                Event::Nothing
            }
            (Some(Mark::Begin(name)), None) => {
                let before = read();
                self.open = Some(Open { name, before });
                Event::Begun
            }
            (Some(Mark::Begin(name)), Some(open)) => Event::Mistaken(format!(
                "measurement {name:?} begins inside {:?}: both are dropped",
                open.name
            )),
            (Some(Mark::End), Some(open)) => Event::Ended {
                counts: open.until(cpu, read()),
                name: open.name,
            },
            (Some(Mark::End), None) => {
                Event::Mistaken("a measurement ends, but none is open".to_owned())
            }
            (Some(Mark::Forget), _) => Event::Forgotten,
        }
    }
}

impl Open {
    /// What was counted since the beginning, without the store on `cpu` that ends it.
    fn until(&self, cpu: usize, now: Vec<Counts>) -> Vec<Counts> {
        let mut counts: Vec<Counts> = (now.into_iter().zip(&self.before))
            .map(|(now, before)| now - *before)
            .collect();
        if let Some(counts) = counts.get_mut(cpu) {
            *counts.of_mut(Mode::User, Counter::Instructions) -= 1;
            *counts.of_mut(Mode::User, Counter::Stores) -= 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters of two CPUs that did so much.
    fn counters(first: u64, second: u64) -> Vec<Counts> {
        let of = |count| {
            let mut counts = Counts::default();
            *counts.of_mut(Mode::User, Counter::Instructions) = count;
            *counts.of_mut(Mode::User, Counter::Stores) = count / 2;
            *counts.of_mut(Mode::Kernel, Counter::Loads) = count / 4;
            counts
        };
        vec![of(first), of(second)]
    }

    #[test]
    fn counts_lie_between_the_two_stores() {
        let mut session = Session::default();
        assert_eq!(session.store(0, 8, 0x6b72_6f66, Vec::new), Event::Nothing);
        assert_eq!(session.store(0, 0, 1, || counters(100, 40)), Event::Begun);
        // A task may end on another CPU than it began on.
        let Event::Ended { name, counts } = session.store(1, 0, 2, || counters(300, 80)) else {
            panic!("it has not ended");
        };
        assert_eq!(name, "fork");
        let count = |cpu: usize, mode, counter| counts[cpu].of(mode, counter);
        assert_eq!(count(0, Mode::User, Counter::Instructions), 200);
        assert_eq!(count(1, Mode::User, Counter::Instructions), 39);
        assert_eq!(count(1, Mode::User, Counter::Stores), 19);
        assert_eq!(count(1, Mode::Kernel, Counter::Loads), 10);
    }

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let mut session = Session::default();
        session.store(0, 0, 1, || counters(1, 1));
        assert_eq!(session.store(0, 0, 3, Vec::new), Event::Forgotten);
        let end = session.store(0, 0, 2, Vec::new);
        assert!(matches!(end, Event::Mistaken(_)), "{end:?}");
    }

    #[test]
    fn no_measurement_inside_another_one() {
        let mut session = Session::default();
        session.store(0, 0, 1, || counters(1, 1));
        let second = session.store(0, 0, 1, || counters(2, 2));
        assert!(matches!(second, Event::Mistaken(_)), "{second:?}");
        let end = session.store(0, 0, 2, || counters(3, 3));
        assert!(matches!(end, Event::Mistaken(_)), "{end:?}");
    }
}
