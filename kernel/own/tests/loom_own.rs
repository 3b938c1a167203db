//! The account under every interleaving (for some schemes: with up to two preemptions) of map,
//! unmap, fork, pin, the pending flush and the reuse check: `./run.sh test --filter "host.loom.*"`,
//! or `RUSTFLAGS="--cfg loom" cargo test -p own --features mutants --test loom_own --target-dir
//! target/loom`.
//!
//! Whoever is told "exclusive" writes the page, and everybody else who may look does: loom ends the
//! model when a write is not ordered with another access, so it checks the answers and the memory
//! orderings at once.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use own::mutant::{self, Mutant};
use own::{Account, Digits, FirstOwner, MmId, PerPage, Total, TwoSlot, Unified};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "common/book.rs"]
mod book;
#[path = "common/twin.rs"]
mod twin;
#[path = "common/world.rs"]
mod world;

use book::Sheet;
use twin::Twin;
use world::{World, Wrong};

/// What a model runs.
#[derive(Clone, Copy)]
struct Case<A> {
    scheme: A,
    order: u8,
    /// Whether the scheme must know a sole owner, at rest.
    exact: bool,
    /// How many spaces have ids of their own; the others share one.
    unique: u16,
    /// Preemptions in an interleaving; without a bound, all interleavings are met.
    bound: Option<usize>,
    /// The rule that is broken.
    wrong: Wrong,
}

fn case<A>(scheme: A, order: u8, exact: bool) -> Case<A> {
    Case {
        scheme,
        order,
        exact,
        unique: MmId::LAST,
        bound: None,
        wrong: Wrong::Nothing,
    }
}

/// For schemes whose writers or readers wait for one another: without a bound, there is no end of
/// the ways to wait. Every mutant below is caught with two preemptions.
fn bounded<A>(scheme: A, order: u8) -> Case<A> {
    Case {
        bound: Some(2),
        ..case(scheme, order, true)
    }
}

impl<A> Case<A> {
    /// For schemes that may not know a sole owner.
    fn not_exact(self) -> Case<A> {
        Case {
            exact: false,
            ..self
        }
    }
}

impl<A: Account + Copy + Send + Sync + 'static> Case<A> {
    /// Runs the first two scripts beside the main thread's, then looks at what is left.
    fn run(self, held: ([u32; 3], u32), others: [fn(&World<A>); 2], asks: fn(&World<A>)) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.bound;
        builder.check(move || {
            let world = World::new(self.scheme, self.order, self.unique, held).wrong(self.wrong);
            let world = Arc::new(world);
            let threads = others.map(|script| {
                let world = world.clone();
                thread::spawn(move || script(&world))
            });
            asks(&world);
            threads.into_iter().for_each(|t| t.join().unwrap());
            world.settle(self.exact);
        });
    }

    /// The space that asks shares its id with the others, or they share one and it does not.
    fn with_the_common_id(self) {
        for unique in [0, 1] {
            Case { unique, ..self }.all();
        }
    }

    fn all(self) {
        self.unmap();
        self.pin();
        self.fork();
        self.pending_flush();
        self.passing();
        self.given();
        self.away_and_back();
        self.both_ask();
    }

    /// 1 unmaps; 0 may then have the folio.
    fn unmap(self) {
        self.run(([2, 2, 0], 0), [|w| _ = w.unmap(1, 2), |_| {}], |w| {
            _ = w.write_fault(0)
        });
    }

    /// 1 pins, unmaps, and looks through its pin.
    fn pin(self) {
        let pins = |w: &World<A>| {
            assert!(w.pin(1));
            w.unmap(1, 1);
            w.unpin();
        };
        self.run(([2, 1, 0], 0), [pins, |_| {}], |w| _ = w.write_fault(0));
    }

    /// 1 forks 2; another CPU of 1 unmaps, and 2 looks and unmaps.
    fn fork(self) {
        let unmaps = |w: &World<A>| {
            w.unmap(1, 1);
            w.read(2);
            w.unmap(2, 1);
        };
        self.run(([1, 1, 0], 0), [|w| w.fork(1, 2), unmaps], |w| {
            _ = w.write_fault(0)
        });
    }

    /// A pinned page is mapped by 1 while the flush of a page of 0's ends: at each moment there is
    /// one reference too many for 0.
    fn pending_flush(self) {
        let maps = |w: &World<A>| {
            w.map_pinned(1);
            w.read(1);
        };
        let flushes = |w: &World<A>| _ = w.unmap(0, 1);
        self.run(([2, 0, 0], 1), [maps, flushes], |w| {
            assert!(
                !w.write_fault(0),
                "exclusive, and a pin or a mapping is there"
            )
        });
    }

    /// 1 and 2 unmap, each in its own way.
    fn passing(self) {
        self.run(
            ([1, 1, 1], 0),
            [|w| _ = w.unmap_by_passing(1), |w| _ = w.unmap(2, 1)],
            |w| _ = w.write_fault(0),
        );
    }

    /// What was pinned becomes another page of 0's, and then there is nobody else.
    fn given(self) {
        self.run(([1, 0, 0], 1), [|w| w.map_pinned(0), |_| {}], |w| {
            _ = w.write_fault(0)
        });
    }

    /// One page of 0's goes, one of two pins, then whoever has the other pin maps a page for 0: the
    /// number of mappings is the same before and after, the number of references is that number
    /// once between, and a pin is always there.
    fn away_and_back(self) {
        let goes = |w: &World<A>| {
            w.unmap(0, 1);
            w.unpin();
            w.map_more(0);
        };
        let asks = |w: &World<A>| {
            assert!(
                !w.write_fault(0),
                "exclusive, and a pin or a mapping is there"
            )
        };
        self.run(([2, 0, 0], 2), [goes, asks], |_| {});
    }

    /// Two ask and unmap: one may write only when the other is gone, and the last one frees the
    /// folio.
    fn both_ask(self) {
        fn asks<A: Account>(world: &World<A>, space: usize) {
            world.write_fault(space);
            world.unmap(space, 1);
        }
        self.run(([1, 1, 0], 0), [|w| asks(w, 1), |_| {}], |w| asks(w, 0));
    }
}

#[test]
fn unified_narrow() {
    case(Unified, 2, true).all();
}

#[test]
fn unified_wide() {
    case(Unified, 5, true).all();
}

fn digits(order: u8, stored: bool, exclusive: bool, add: bool) {
    let scheme = Digits {
        stored,
        exclusive,
        add,
        pages: false,
    };
    bounded(scheme, order).all();
}

/// One value.
#[test]
fn digits_shared_writers() {
    digits(2, true, false, false);
}

#[test]
fn digits_exclusive_writer_by_cmpxchg() {
    digits(2, true, true, false);
}

#[test]
fn digits_exclusive_writer_by_add() {
    digits(2, true, true, true);
}

/// Two values.
#[test]
fn digits_two_values() {
    digits(3, true, true, true);
}

#[test]
fn two_slot() {
    bounded(TwoSlot, 2).all();
}

/// Without the bound it passes, too, in minutes.
#[test]
fn first_owner() {
    bounded(FirstOwner, 2).not_exact().all();
}

#[test]
fn total() {
    case(Total, 2, false).all();
}

#[test]
fn per_page() {
    bounded(PerPage, 2).not_exact().all();
}

#[test]
fn digits_with_pages() {
    let pages = true;
    let scheme = Digits {
        pages,
        ..Digits::default()
    };
    bounded(scheme, 2).all();
}

#[test]
fn unified_with_the_common_id() {
    case(Unified, 2, true).with_the_common_id();
    case(Unified, 5, true).with_the_common_id();
}

#[test]
fn digits_with_the_common_id() {
    bounded(Digits::default(), 2).with_the_common_id();
}

#[test]
fn two_slot_with_the_common_id() {
    bounded(TwoSlot, 2).with_the_common_id();
}

#[test]
fn first_owner_with_the_common_id() {
    bounded(FirstOwner, 2).not_exact().with_the_common_id();
}

#[test]
fn total_with_the_common_id() {
    case(Total, 2, false).with_the_common_id();
}

#[test]
fn per_page_with_the_common_id() {
    bounded(PerPage, 2).not_exact().with_the_common_id();
}

/// Whether loom ends the model, and with which words.
fn caught(run: impl FnOnce()) -> Option<String> {
    let end = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = end.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| end.downcast_ref::<&str>().unwrap_or(&"").to_string()))
}

/// References outside of the word: the model finds an interleaving that answers wrongly.
#[test]
fn the_racy_twin_is_caught() {
    // Alone it is right.
    let twin = case(Twin, 2, true);
    twin.both_ask();
    let why = caught(|| twin.pending_flush()).expect("the twin passes");
    assert!(why.contains("a pin or a mapping is there"), "{why}");
}

/// The words of the model's own assertion.
fn is_caught(mutant: Mutant, run: impl Fn()) {
    is_caught_by("a pin or a mapping is there", mutant, run);
}

fn is_caught_by(words: &str, mutant: Mutant, run: impl Fn()) {
    run();
    mutant::set(Some(mutant));
    let why = caught(run);
    mutant::set(None);
    let why = why.unwrap_or_else(|| panic!("{mutant:?} passes"));
    assert!(why.contains(words), "{why}");
}

#[test]
fn a_torn_read_is_caught() {
    is_caught(Mutant::TornRead, || case(Unified, 5, true).pending_flush());
}

#[test]
fn a_seqcount_that_is_looked_at_once_is_caught() {
    is_caught(Mutant::OneLook, || {
        bounded(Digits::default(), 2).away_and_back()
    });
}

/// Two spaces share an id and a folio; both ask.
#[test]
fn a_common_id_that_is_taken_for_one_space_is_caught() {
    let case = Case {
        unique: 0,
        ..case(Unified, 2, true)
    };
    case.both_ask();
    mutant::set(Some(Mutant::CommonIsOne));
    let why = caught(|| case.both_ask());
    mutant::set(None);
    let why = why.expect("the mutant passes");
    assert!(why.contains("Causality violation"), "{why}");
}

#[test]
fn others_that_are_not_counted_are_caught() {
    is_caught_by("pages mapped", Mutant::OthersUncounted, || {
        bounded(FirstOwner, 2).not_exact().pending_flush()
    });
}

#[test]
fn a_mapping_that_is_not_noted_is_caught() {
    is_caught_by("wrongly exclusive at rest", Mutant::NoNote, || {
        bounded(PerPage, 2).not_exact().pending_flush()
    });
}

/// Every scheme that says "exclusive" at all needs the caller's rules.
fn broken(wrong: Wrong, words: &str, run: impl Fn(Case<Unified>)) {
    let case = case(Unified, 2, true);
    run(case);
    let why = caught(|| run(Case { wrong, ..case }));
    let why = why.unwrap_or_else(|| panic!("{wrong:?} passes"));
    assert!(why.contains(words), "{why}");
}

#[test]
fn a_late_add_is_caught() {
    broken(Wrong::AddLate, "are dropped and there were", |case| {
        case.fork()
    });
}

#[test]
fn an_early_subtraction_is_caught() {
    broken(Wrong::SubEarly, "Causality violation", |case| case.unmap());
}

/// 1 ends while a new space takes an id, is forked from 0, and asks once 0 is gone.
#[test]
fn an_id_that_goes_back_early_is_caught() {
    broken(Wrong::IdEarly, "Causality violation", |case| {
        case.run(([1, 1, 0], 0), [|w| w.exit(1), |_| {}], |w| {
            w.is_new(2);
            w.fork(0, 2);
            w.unmap(0, 1);
            w.write_fault(2);
        })
    });
}
