//! The lock of readers and a writer under every interleaving: `./run.sh test --filter
//! "host.loom.*"`, or `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_shape --target-dir
//! target/loom`.
#![cfg(loom)]

use locks::mutant::{self, Mutant};
use locks::{Contention, Reader, Shape};
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;

/// A lock, two words that a writer changes together, and the CPUs. The words are not a loom cell:
/// its panic inside a guard would end in a second one, in the guard's drop.
struct World<const RANK: u8 = 10> {
    shape: Shape<[AtomicU32; 2], RANK>,
    readers: [Reader; 2],
}

impl<const RANK: u8> World<RANK> {
    fn shared() -> Arc<Self> {
        let world = Arc::new(World {
            shape: Shape::new([AtomicU32::new(0), AtomicU32::new(0)]),
            readers: [Reader::default(), Reader::default()],
        });
        // They stay where they are from here on.
        let mut words = world.shape.write(|| &world.readers, |_| ());
        words.share(&world.readers);
        drop(words);
        world
    }
    fn write(&self) {
        let words = self.shape.write(|| &self.readers, |_| ());
        words.iter().for_each(|word| word.store(1, Relaxed));
    }
    fn read(&self, cpu: usize) -> [u32; 2] {
        let words = self.shape.read(&self.readers, cpu).expect("it is shared");
        words.each_ref().map(|word| word.load(Relaxed))
    }
}

/// A reader beside a writer.
fn read_and_write() {
    loom::model(|| {
        let world = World::<10>::shared();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read(1))
        };
        world.write();
        let [first, second] = reader.join().unwrap();
        assert!(first == second, "half of a write was seen");
    });
}

#[test]
fn a_reader_beside_a_writer() {
    read_and_write();
}

#[test]
#[should_panic(expected = "half of a write was seen")]
fn a_reader_without_a_fence_is_caught() {
    mutant::set(Mutant::ReadWithoutFence);
    read_and_write();
}

#[test]
#[should_panic(expected = "half of a write was seen")]
fn a_writer_beside_readers_is_caught() {
    mutant::set(Mutant::WriteBesideReaders);
    read_and_write();
}

/// A reader that comes while the lock is shared, by a writer that goes on.
fn a_reader_beside_the_one_that_shares() {
    loom::model(|| {
        let world = Arc::new(World::<10> {
            shape: Shape::new([AtomicU32::new(0), AtomicU32::new(0)]),
            readers: [Reader::default(), Reader::default()],
        });
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let words = world.shape.read(&world.readers, 1);
                words.map(|words| words.each_ref().map(|word| word.load(Relaxed)))
            })
        };
        let mut words = world.shape.write(|| &world.readers, |_| ());
        words[0].store(1, Relaxed);
        words.share(&world.readers);
        words[1].store(1, Relaxed);
        drop(words);
        let seen = reader.join().unwrap();
        assert!(
            seen.is_none_or(|seen| seen == [1, 1]),
            "half of a write was seen"
        );
    });
}

#[test]
fn a_lock_is_shared_beside_a_reader() {
    a_reader_beside_the_one_that_shares();
}

#[test]
#[should_panic(expected = "half of a write was seen")]
fn a_lock_that_is_shared_unordered_is_caught() {
    mutant::set(Mutant::ShareUnordered);
    a_reader_beside_the_one_that_shares();
}

/// A reader that waits has the lock before a writer that asks later. Each caller has a rank of its
/// own: the waits of a rank are counted for all tests together.
fn a_reader_that_waits<const RANK: u8>() {
    loom::model(|| {
        let waits = Contention::of(RANK).waits;
        let world = World::<RANK>::shared();
        let words = world.shape.write(|| &world.readers, |_| ());
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read(1))
        };
        thread::yield_now();
        let is_waiting = Contention::of(RANK).waits > waits;
        // Whatever was seen of the reader, its ticket is.
        fence(SeqCst);
        drop(words);
        world.write();
        let seen = reader.join().unwrap();
        assert!(seen[0] == seen[1], "half of a write was seen");
        assert!(seen == [0, 0] || !is_waiting, "it was passed");
    });
}

#[test]
fn a_reader_is_not_passed_by_writers() {
    a_reader_that_waits::<11>();
}

#[test]
#[should_panic(expected = "it was passed")]
fn a_reader_without_a_ticket_is_caught() {
    mutant::set(Mutant::PassTheLine);
    a_reader_that_waits::<12>();
}

#[test]
#[should_panic(expected = "half of a write was seen")]
fn a_reader_that_says_so_too_late_is_caught() {
    mutant::set(Mutant::MarkTooLate);
    a_reader_that_waits::<13>();
}

/// Readers come while a writer has the lock open, and never while it has it.
#[test]
fn a_writer_that_opens_the_lock() {
    loom::model(|| {
        let world = World::<10>::shared();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.read(1))
        };
        let mut words = world.shape.write(|| &world.readers, |_| ());
        words[0].store(1, Relaxed);
        words[1].store(1, Relaxed);
        let ((), undisturbed) = words.reopen(|| &world.readers, |_| (), || ());
        words[0].store(2, Relaxed);
        words[1].store(2, Relaxed);
        drop(words);
        let [first, second] = other.join().unwrap();
        assert!(first == second && !undisturbed);
    });
}
