//! `age EVENTS SEED [POLICY]`: lives a machine's life with each policy of page blocks, or one, and
//! prints what became of memory as CSV, a row for each policy and each 1/96 of it.
#![forbid(unsafe_code)]

mod built;
mod linux;
mod lists;
mod mix;
mod moves;
mod owners;
mod policy;
mod reservations;
mod superblocks;
mod trees;
mod two_regions;

use mix::{Mix, Tries};
use policy::Policy;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, iter, thread};

/// log2 of the frames of a huge page, and of 1 GiB.
const HUGE: u8 = 9;
const GIGABYTE: u8 = 18;
/// Frames of 16 GiB.
const FRAMES: u32 = 1 << 22;
/// Rows for each policy.
const ROWS: u64 = 96;
/// Policies at once.
const AT_ONCE: usize = 2;

type New = fn(u32) -> Box<dyn Policy>;

/// By name; each is given how many frames there are.
const POLICIES: [(&str, New); 7] = [
    ("built", |frames| Box::new(built::Built::new(frames))),
    ("Linux", |frames| Box::new(linux::Linux::new(frames, false))),
    ("defrag_mode", |frames| {
        Box::new(linux::Linux::new(frames, true))
    }),
    ("superpageblocks", |frames| {
        Box::new(superblocks::Superblocks::new(frames))
    }),
    ("two regions", |frames| {
        Box::new(two_regions::TwoRegions::new(frames))
    }),
    ("reservations", |frames| {
        Box::new(reservations::Reservations::new(frames))
    }),
    ("trees", |frames| Box::new(trees::Trees::new(frames))),
];

fn main() {
    let mut words = env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let (events, seed) = (words.next().unwrap_or(1_000_000), words.next().unwrap_or(1));
    println!("policy,event,used,huge,huge_had,mid,mid_had,spoiled,gigabytes,least,moved,in_vain");
    let (next, only) = (AtomicUsize::new(0), env::args().nth(3));
    let live = || {
        // Relaxed: each number is given once.
        let numbers = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let lives = numbers.map_while(|n| Some((n, *POLICIES.get(n)?)));
        let lives = lives.filter(|(_, (name, _))| only.as_ref().is_none_or(|only| only == name));
        Vec::from_iter(lives.map(|(n, (name, new))| (n, rows(name, new, FRAMES, events, seed))))
    };
    let lives = thread::scope(|scope| {
        let threads = [(); AT_ONCE].map(|()| scope.spawn(live));
        let lives = threads.map(|it| it.join().expect("its own panic was printed"));
        BTreeMap::from_iter(lives.into_iter().flatten())
    });
    lives.values().for_each(|rows| print!("{rows}"));
}

/// All rows of a policy.
fn rows(name: &str, new: New, frames: u32, events: u64, seed: u64) -> String {
    let mut policy = new(frames);
    let mut mix = Mix::new(&mut *policy, frames, seed);
    let (mut text, mut before) = (String::new(), Tries::default());
    for row in 1..=ROWS {
        let at = events * row / ROWS;
        mix.until(at, events);
        let since = |order: usize| {
            let (now, before) = (&mix.tries, &before);
            let wanted = now.wanted[order] - before.wanted[order];
            format!("{wanted},{}", now.had[order] - before.had[order])
        };
        let [blocks, gigabytes, least] = mix.owners.spoiled();
        let Mix { owners, .. } = &mix;
        text += &format!(
            "{name},{at},{},{},{},{blocks},{gigabytes},{least},{},{}\n",
            owners.used,
            since(9),
            since(4),
            owners.moved,
            owners.in_vain
        );
        before = mix.tries;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::Mobility;

    /// Who gives a frame to two is found by [`owners::Owners`]; in the end all is free again.
    #[test]
    fn every_policy_lives_and_the_same_seed_is_the_same_life() {
        for (name, new) in POLICIES {
            let live = |seed| rows(name, new, 1 << 19, 500_000, seed);
            let row = live(1);
            assert_eq!(row, live(1), "{name}");
            assert_ne!(row, live(2), "{name}");
            let mut policy = new(1 << 19);
            let mut mix = Mix::new(&mut *policy, 1 << 19, 3);
            mix.until(500_000, 500_000);
            mix.end_all();
            assert_eq!(mix.owners.used, 0, "{name}");
            for _ in 0..1 << 9 {
                assert!(
                    mix.begin(HUGE, Mobility::Movable).is_some(),
                    "{name} lost memory"
                );
            }
        }
    }
}
