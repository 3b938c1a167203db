//! The lock of readers and a writer under every interleaving: `./run.sh test --filter
//! "host.loom.*"`, or `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_shape --target-dir
//! target/loom`.
#![cfg(loom)]

use locks::mutant::{self, Mutant};
use locks::{BitGuard, Reader, Shape};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// A lock, two words that a writer changes together, and the CPUs. The words are not a loom cell:
/// its panic inside a guard would end in a second one, in the guard's drop.
struct World {
    shape: Shape<[AtomicU32; 2], 10>,
    readers: [Reader; 2],
}

impl World {
    fn shared() -> Arc<World> {
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
        let world = World::shared();
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

/// Readers come while a writer has the lock open, and never while it has it.
#[test]
fn a_writer_that_opens_the_lock() {
    loom::model(|| {
        let world = World::shared();
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

/// The other bits of the word are the holder's.
#[test]
fn a_bit_of_a_word() {
    const BIT: u32 = 1 << 31;
    loom::model(|| {
        let word = Arc::new(AtomicU32::new(0));
        let add = |word: &AtomicU32| {
            let guard = BitGuard::<10>::lock(word, BIT);
            let old = word.load(Relaxed);
            word.store(old + 1, Relaxed);
            drop(guard);
        };
        let other = {
            let word = word.clone();
            thread::spawn(move || add(&word))
        };
        add(&word);
        other.join().unwrap();
        assert_eq!(word.load(Relaxed), 2);
    });
}
