//! What was done, over all threads and their children's parents.
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a player does.
#[derive(Clone, Copy)]
pub enum Op {
    Map,
    Unmap,
    Touch,
    Check,
    Discard,
    Protect,
    Move,
    Collapse,
    Fork,
    Wild,
    Crowd,
}

const NAMES: [&str; 11] = [
    "maps",
    "unmaps",
    "touches",
    "checks",
    "discards",
    "protects",
    "moves",
    "collapses",
    "forks",
    "wild accesses",
    "crowds",
];

/// Operations that were done, by kind. A refused collapse or move does not count.
#[derive(Default)]
pub struct Counts([AtomicU64; NAMES.len()]);

impl Counts {
    pub fn add(&self, op: Op) {
        self.0[op as usize].fetch_add(1, Relaxed);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (count, name)) in self.0.iter().zip(NAMES).enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{} {name}", count.load(Relaxed))?;
        }
        Ok(())
    }
}
