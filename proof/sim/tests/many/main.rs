//! The memory manager on CPUs that run at once, each a thread of the host: random verbs and
//! accesses in address spaces that they share. Every byte says what may have been written to it
//! ([`bench::Bench`]); from time to time all CPUs meet, and everything is checked.
//!
//! Threads of the host are not deterministic: a seed repeats the steps of each CPU, not their
//! order. `SEED_SECONDS=60 cargo test -p arch-sim --test many` looks longer.

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod meeting;
mod steps;

use arch_sim::{Options, World};
use bench::Bench;
use common::{seeds, sizes};
use mm::arch::PteFormat;
use mm::switch::Switch;

/// One play.
#[derive(Clone, Copy)]
struct Play {
    cpus: usize,
    /// Times that all meet.
    rounds: u32,
    /// Steps of each CPU from one meeting to the next.
    steps: u32,
    /// Switches, `NAME=WORD`.
    words: &'static str,
}

/// Sets switches at boot.
fn set<F: PteFormat>(world: &World<F>, words: &str) {
    for word in words.split_whitespace() {
        let (name, word) = word.split_once('=').expect("a switch and its word");
        let switch = Switch::by_name(name).expect("a switch");
        let number = switch.number(word).expect("one of its words");
        world.mm.switches().set(switch, number);
    }
}

impl Play {
    fn run<F: PteFormat>(self, seed: u64) {
        let world = World::<F>::new(Options {
            frames: 6144,
            cpus: self.cpus,
            asids: [1, 3, 64][seed as usize % 3],
            hardware_ad: seed & 8 == 0,
            prefetch: 8,
            seed,
            ..Options::default()
        });
        set(&world, self.words);
        let orders: [&[u8]; 4] = [&[], &[2, 4], &[9], &[2, 3, 4, 9]];
        sizes(&world, orders[(seed >> 4) as usize % 4]);
        let before = world.mm.counts();
        let bench = Bench::new(world.clone());
        world.sim.together(self.cpus, |cpu| {
            let mut player = bench.player(cpu, seed);
            for _ in 0..self.rounds {
                (0..self.steps).for_each(|_| player.step());
                bench.meet(cpu);
            }
            drop(player);
            world.mm.idle();
            bench.meeting.join(&world, || ());
        });
        bench.end();
        assert_eq!(before, world.mm.counts(), "frames are left");
        world.check(&[], &[]);
    }

    fn on_both(self) {
        let seed = self.cpus as u64;
        seeds::each(seed, |seed| {
            self.run::<arch_x86_64::pte::Format>(seed);
            self.run::<arch_aarch64::pte::Format>(seed);
        });
    }
}

const PLAY: Play = Play {
    cpus: 2,
    rounds: 6,
    steps: 300,
    words: "",
};

macro_rules! plays {
    ($($name:ident: $cpus:literal, $words:literal;)*) => {$(
        #[test]
        fn $name() {
            Play { cpus: $cpus, words: $words, ..PLAY }.on_both();
        }
    )*};
}

plays! {
    two: 2, "";
    four: 4, "";
    eight: 8, "";
    copied_tables: 4, "fork=batch";
    copied_tables_one_id: 4, "fork=batch ids=1";
    one_id: 4, "ids=1";
    digits: 4, "account=digits";
    digits_shared_writer: 4, "account=digits subids=lookup writer=shared seq=cmpxchg";
    two_slot: 4, "account=two-slot";
    owner: 4, "account=owner";
    total: 4, "account=total";
    per_page: 4, "account=per-page";
    unified_page_counts: 4, "account=unified mapcounts=atomic";
    digits_page_counts: 4, "account=digits mapcounts=seqcount";
    digits_copied_tables: 4, "account=digits fork=batch";
}

#[test]
fn sixty_four() {
    let (rounds, steps) = (2, 40);
    Play {
        cpus: 64,
        rounds,
        steps,
        ..PLAY
    }
    .on_both();
}
