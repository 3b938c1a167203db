//! The queue of deferred splits against the last reference, under every interleaving: `./run.sh
//! test --filter "host.loom.*"`, or `RUSTFLAGS="--cfg loom" cargo test -p mm --test loom_deferred
//! --target-dir target/loom`.
#![cfg(loom)]

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use mm::FrameMeta;
use mm::addr::Order;
use mm::frame::Kind;

/// Four pages.
const ORDER: Order = Order(2);
const PAGES: u64 = 4;

/// How a CPU that drops references puts the folio on the queue.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    /// As `Mm::defer_split` does.
    Marked,
    /// The mutant: it looks whether the folio is in use, and marks it then.
    Looked,
    /// The mutant: it is decided before the references go.
    Before,
}

/// A folio of which 5 pages are mapped, by two spaces; and whether the queue has it.
struct World {
    meta: FrameMeta,
    references: AtomicU64,
    queue: Mutex<bool>,
}

impl World {
    fn defer(&self, join: Join, references: u64) {
        if references == 0 || references >= PAGES {
            return;
        }
        let in_use = self.meta.kind() == Kind::Anon;
        let mut queue = self.queue.lock().unwrap();
        *queue |= match join {
            Join::Looked => in_use,
            _ => self.meta.defer(ORDER),
        };
    }

    /// One space unmaps `n` pages.
    fn unmap(&self, join: Join, n: u64) {
        let before = self.references.load(Ordering::Relaxed) - n;
        if join == Join::Before {
            self.defer(join, before);
        }
        if self.references.fetch_sub(n, Ordering::AcqRel) == n {
            // As `Mm::free`.
            if self.meta.end(ORDER) {
                *self.queue.lock().unwrap() = false;
            }
            self.meta.set_cached(ORDER);
        } else if join != Join::Before {
            self.defer(join, self.references.load(Ordering::Acquire));
        }
    }
}

/// Two spaces unmap so many pages each; the queue has the folio afterwards if some are left.
fn both(join: Join, first: u64, second: u64) {
    loom::model(move || {
        let world = Arc::new(World {
            meta: FrameMeta::default(),
            references: AtomicU64::new(5),
            queue: Mutex::new(false),
        });
        world.meta.set(Kind::Anon, ORDER);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.unmap(join, second))
        };
        world.unmap(join, first);
        other.join().unwrap();
        let left = world.references.load(Ordering::Relaxed);
        let queued = *world.queue.lock().unwrap();
        assert_eq!(queued, left != 0, "{left} references are left");
        assert_eq!(queued, world.meta.deferred());
    });
}

/// One space drops its page while the other one, then the only owner, splits the folio: into
/// parts of two pages first, of which the first is split once more. `ended`: those are ended, too.
fn unmap_beside_a_split(ended: bool) {
    loom::model(move || {
        let world = Arc::new(World {
            meta: FrameMeta::default(),
            references: AtomicU64::new(4),
            queue: Mutex::new(false),
        });
        world.meta.set(Kind::Anon, ORDER);
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                world.references.fetch_sub(1, Ordering::AcqRel);
                // As `Mm::defer_split`: what it finds may be a part by now.
                let order = world.meta.order();
                let mut queue = world.queue.lock().unwrap();
                *queue |= order != Order(0) && world.meta.defer(order);
            })
        };
        if world.references.load(Ordering::Acquire) == 3 {
            if world.meta.end(ORDER) {
                *world.queue.lock().unwrap() = false;
            }
            let mark = |order| match ended {
                true => world.meta.set_ended(order),
                false => world.meta.set(Kind::Anon, order),
            };
            mark(Order(1));
            mark(Order(0));
            world.meta.set(Kind::Anon, Order(0));
        }
        other.join().unwrap();
        let queued = *world.queue.lock().unwrap();
        assert_eq!(queued, world.meta.deferred(), "the queue has a lost folio");
    });
}

#[test]
fn a_part_that_is_split_once_more_is_not_on_the_queue() {
    unmap_beside_a_split(true);
}

#[test]
#[should_panic(expected = "the queue has a lost folio")]
fn a_part_that_joins_before_it_is_split_is_caught() {
    unmap_beside_a_split(false);
}

#[test]
fn a_freed_folio_is_not_on_the_queue() {
    both(Join::Marked, 3, 2);
}

#[test]
fn a_folio_of_which_a_part_is_left_is_on_the_queue() {
    both(Join::Marked, 1, 1);
}

#[test]
#[should_panic(expected = "0 references are left")]
fn a_look_before_the_mark_is_caught() {
    both(Join::Looked, 3, 2);
}

#[test]
#[should_panic(expected = "3 references are left")]
fn a_decision_before_the_references_go_is_caught() {
    both(Join::Before, 1, 1);
}
