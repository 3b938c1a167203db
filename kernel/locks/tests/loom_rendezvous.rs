//! The rendezvous under every interleaving: `./run.sh test --filter "host.loom.*"`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_rendezvous --target-dir target/loom`.
#![cfg(loom)]

use locks::Rendezvous;
use locks::mutant::{self, Mutant};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, mpsc};
use loom::thread;

/// The place, and a value for each CPU but the caller.
struct World {
    place: Rendezvous,
    values: Vec<UnsafeCell<u32>>,
}

impl World {
    fn new(others: usize) -> Arc<World> {
        Arc::new(World {
            place: Rendezvous::new(),
            values: (0..others).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    /// loom panics when two accesses are not ordered.
    fn add(&self, cpu: usize) {
        #[allow(unsafe_code)]
        // SAFETY: what the model checks.
        self.values[cpu].with_mut(|n| unsafe { *n += 1 });
    }

    /// One of the others: changes its value before, between and after so many rendezvous.
    fn other(&self, cpu: usize, meetings: usize, interrupts: &Interrupts) {
        for _ in 0..meetings {
            self.add(cpu);
            interrupts.asked.recv().unwrap();
            self.place.attend(|| match &interrupts.over {
                Some(over) => over.recv().unwrap(),
                None => thread::yield_now(),
            });
        }
        self.add(cpu);
    }

    /// The caller changes the values of all at a rendezvous.
    fn meet(&self, others: &[Lines]) {
        let ask = || {
            others.iter().for_each(|other| other.ask.send(()).unwrap());
            others.len()
        };
        self.place.meet(ask, thread::yield_now, || {
            (0..self.values.len()).for_each(|cpu| self.add(cpu));
        });
        let ends = others.iter().filter_map(|other| other.end.as_ref());
        // It may have gone on, and ended.
        ends.for_each(|end| {
            let _ = end.send(());
        });
    }
}

/// Where a CPU is asked, and where it is told that a rendezvous is over: loom starves one of three
/// threads that all look again and again. Else it looks.
struct Interrupts {
    asked: mpsc::Receiver<()>,
    over: Option<mpsc::Receiver<()>>,
}

/// The other ends.
struct Lines {
    ask: mpsc::Sender<()>,
    end: Option<mpsc::Sender<()>>,
}

fn meet(others: usize, meetings: usize) {
    loom::model(move || {
        let world = World::new(others);
        let (lines, threads): (Vec<_>, Vec<_>) = (0..others)
            .map(|cpu| {
                let (ask, asked) = mpsc::channel();
                let (end, over) = (others > 1).then(mpsc::channel).unzip();
                let world = world.clone();
                let interrupts = Interrupts { asked, over };
                let other = move || world.other(cpu, meetings, &interrupts);
                (Lines { ask, end }, thread::spawn(other))
            })
            .unzip();
        (0..meetings).for_each(|_| world.meet(&lines));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        for value in &world.values {
            #[allow(unsafe_code)]
            // SAFETY: all have ended.
            value.with(|n| assert_eq!(unsafe { *n }, 2 * meetings as u32 + 1));
        }
    });
}

#[test]
fn the_caller_is_alone() {
    meet(2, 1);
}

#[test]
fn one_rendezvous_after_another() {
    meet(1, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_arrival_without_order_is_caught() {
    mutant::set(Mutant::ArriveUnordered);
    meet(1, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn one_that_does_not_wait_is_caught() {
    mutant::set(Mutant::AttendWithoutWait);
    meet(1, 1);
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn an_arrival_that_is_forgotten_is_caught() {
    mutant::set(Mutant::CountAfterRequest);
    meet(1, 1);
}
