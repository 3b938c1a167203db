//! The lock that is a bit of a word, and its turns, under every interleaving.
#![cfg(loom)]

use locks::mutant::{self, Mutant};
use locks::{BitGuard, Turns};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use loom::thread;

const BIT: u32 = 1 << 31;
/// The bits below are the holder's.
const ONE: u64 = 1 << 17;

#[derive(Default)]
struct Table {
    count: AtomicU32,
    note: AtomicU64,
    /// What the lock covers.
    entry: AtomicU32,
}

impl Table {
    fn turns(&self) -> Turns<'_> {
        Turns::new(&self.note, ONE)
    }
    fn lock(&self) -> BitGuard<'_, 10> {
        BitGuard::lock(&self.count, BIT, self.turns())
    }
    /// Adds one to each word.
    fn add(&self) {
        let guard = self.lock();
        self.entry.store(self.entry.load(Relaxed) + 1, Relaxed);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        self.note.store(self.note.load(Relaxed) + 1, Relaxed);
        drop(guard);
    }
    /// Looks without the lock; the lock says whether what was seen is still so.
    fn look(&self) {
        let turn = self.turns().now();
        let seen = self.entry.load(Relaxed);
        let guard = self.lock();
        if guard.is_turn(turn) {
            assert!(self.entry.load(Relaxed) == seen, "the entry has changed");
        }
    }
}

/// Each thread runs its function beside the other.
fn both(one: fn(&Table), other: fn(&Table)) -> Arc<Table> {
    let table = Arc::new(Table::default());
    let thread = {
        let table = table.clone();
        thread::spawn(move || other(&table))
    };
    one(&table);
    thread.join().unwrap();
    table
}

/// The other bits of both words are the holder's.
#[test]
fn a_bit_of_a_word() {
    loom::model(|| {
        let table = both(Table::add, Table::add);
        let words = (table.entry.load(Relaxed), table.count.load(Relaxed));
        assert_eq!(words, (2, 2));
        assert_eq!(table.note.load(Relaxed), 2 * ONE + 2);
    });
}

fn look_beside_a_change() {
    loom::model(|| {
        both(Table::look, Table::add);
    });
}

#[test]
fn a_look_without_the_lock() {
    look_beside_a_change();
}

#[test]
#[should_panic(expected = "the entry has changed")]
fn a_turn_that_is_not_counted_is_caught() {
    mutant::set(Mutant::TurnNotCounted);
    look_beside_a_change();
}
