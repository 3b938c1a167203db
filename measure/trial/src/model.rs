//! Policies as independent switches, by the page: what they would be in the memory manager, without
//! its folios, slots and locks. All see what it sees: accessed bits, when they look.
use counts::pages::Stream;
use std::collections::VecDeque;
use std::mem::take;

/// How many pages are asked for at once: the step of the kernel's thread.
pub const WANT: u64 = 32;
/// How far around a page that was used the others are looked at.
const AROUND: usize = 32;

/// What a page is that comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refault {
    /// Young, as a new one.
    Young,
    /// The next to go, if it is not used again.
    Old,
    /// Kept for one more round if fewer pages have gone since than memory has, else old.
    Distance,
}

/// A policy.
#[derive(Clone, Copy, PartialEq)]
pub struct Policy {
    /// Pages wait in lists by age, of which the oldest is looked through. Where one begins, all
    /// pages are looked at, and those that were used go to it. Else they wait in the order of
    /// addresses (a clock).
    pub generations: bool,
    /// How many lists; or after how many looks a page goes, 2 or more.
    pub many: u64,
    /// Pages beside one that was used are looked at with it (generations).
    pub around: bool,
    /// What a page is that comes back.
    pub refault: Refault,
    /// It ends exactly when what was wanted is free; else with the table of 512 pages, or the list.
    pub exact: bool,
}

impl Policy {
    /// In words.
    pub fn name(&self) -> String {
        let kind = ["looks", "generations"][usize::from(self.generations)];
        let around = ["", " around"][usize::from(self.around)];
        let exact = [" inexact", ""][usize::from(self.exact)];
        let refault = format!(" refault {:?}", self.refault).to_lowercase();
        let refault = refault.trim_end_matches(" refault young");
        format!("model: {} {kind}{around}{refault}{exact}", self.many)
    }
    /// Every combination with up to four looks or generations; or those that differ from two by at
    /// most one switch. The first is what is built (`kernel/mm/src/verbs/age.rs`).
    pub fn all(few: bool) -> Vec<Policy> {
        let mut all = Vec::new();
        for (generations, around) in [(false, false), (true, false), (true, true)] {
            for many in 2..=4 {
                for refault in [Refault::Young, Refault::Old, Refault::Distance] {
                    all.extend([true, false].map(|exact| Policy {
                        generations,
                        many,
                        around,
                        refault,
                        exact,
                    }));
                }
            }
        }
        let differ = |it: &Policy| {
            [
                it.many != 2,
                it.around,
                it.refault != Refault::Young,
                !it.exact,
            ]
        };
        let differ = |it: &Policy| differ(it).into_iter().filter(|differs| *differs).count();
        all.retain(|policy| !few || differ(policy) <= 1);
        all
    }
}

/// What a policy does with a stream, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Those that were used after they had gone.
    pub again: u64,
    /// Those that were brought back.
    pub brought: u64,
    /// Faults; `None`: one for each page, and for each time that it comes back.
    pub faults: Option<u64>,
    /// Those that have gone.
    pub gone: u64,
    /// Looks at pages, or at entries of tables.
    pub looked: u64,
    /// The most that a call freed beyond what was wanted.
    pub overshoot: u64,
    /// The longest stretch without a pause, in looks; of a model, which has no pauses, a call.
    pub longest: u64,
}

impl Figures {
    /// Of one that brings nothing back but these pages.
    pub fn by_page(again: u64) -> Figures {
        let brought = again;
        Figures {
            again,
            brought,
            ..Figures::default()
        }
    }
}

#[derive(Clone, Default)]
struct Page {
    here: bool,
    used: bool,
    /// Looks that it outlives unused, or the number of its list.
    age: u64,
    /// How many pages had gone when it went.
    gone: Option<u64>,
}

struct Model<'a> {
    policy: Policy,
    stream: &'a Stream,
    pages: Vec<Page>,
    hand: usize,
    /// The oldest first, and its number.
    lists: VecDeque<VecDeque<usize>>,
    oldest: u64,
    figures: Figures,
}

/// Plays a stream with `memory` pages, more than [`WANT`].
pub fn run(policy: Policy, stream: &Stream, memory: u64) -> Figures {
    let mut model = Model {
        policy,
        stream,
        pages: vec![Page::default(); stream.pages.len()],
        hand: 0,
        lists: vec![VecDeque::new(); policy.many as usize].into(),
        oldest: 0,
        figures: Figures::default(),
    };
    let mut here = 0;
    for &(at, _) in &stream.accesses {
        if model.pages[at].here {
            model.pages[at].used = true;
            continue;
        }
        if here == memory {
            here -= model.reclaim();
        }
        here += 1;
        model.comes(at, memory);
    }
    model.figures.brought = model.figures.again;
    model.figures
}

impl Model<'_> {
    fn comes(&mut self, at: usize, memory: u64) {
        let gone = self.pages[at].gone;
        self.figures.again += u64::from(gone.is_some());
        let is_near = gone.is_some_and(|gone| self.figures.gone - gone <= memory);
        let held = is_near && self.policy.refault == Refault::Distance;
        let young = gone.is_none() || held || self.policy.refault == Refault::Young;
        self.pages[at].here = true;
        if self.policy.generations {
            self.pages[at].used = held;
            self.enlist(at, if young { self.lists.len() - 1 } else { 0 });
        } else {
            self.pages[at].used = young;
            self.pages[at].age = u64::from(held) * self.policy.many;
        }
    }
    fn enlist(&mut self, at: usize, list: usize) {
        self.pages[at].age = self.oldest + list as u64;
        self.lists[list].push_back(at);
    }

    /// Frees what is wanted, or more; returns how many.
    fn reclaim(&mut self) -> u64 {
        let before = self.figures;
        loop {
            let end = match self.policy.generations {
                true => self.look_in_list(),
                false => self.look_at_hand(),
            };
            let freed = self.figures.gone - before.gone;
            if freed >= WANT && (end || self.policy.exact) {
                let figures = &mut self.figures;
                figures.overshoot = figures.overshoot.max(freed - WANT);
                figures.longest = figures.longest.max(figures.looked - before.looked);
                return freed;
            }
        }
    }
    /// Looks at a page that is here; returns whether it was used.
    fn look(&mut self, at: usize) -> bool {
        self.figures.looked += u64::from(self.pages[at].here);
        take(&mut self.pages[at].used)
    }
    fn goes(&mut self, at: usize) {
        self.figures.gone += 1;
        self.pages[at] = Page {
            gone: Some(self.figures.gone),
            ..Page::default()
        };
    }

    /// Looks at the page at the hand; returns whether it was the last of its table.
    fn look_at_hand(&mut self) -> bool {
        let at = self.hand;
        self.hand = (at + 1) % self.pages.len();
        if self.look(at) {
            self.pages[at].age = self.pages[at].age.max(self.policy.many - 2);
        } else if self.pages[at].age > 0 {
            self.pages[at].age -= 1;
        } else if self.pages[at].here {
            self.goes(at);
        }
        let table = |at: usize| (self.stream.pages[at].0, self.stream.pages[at].1 / 512);
        self.hand == 0 || table(at) != table(self.hand)
    }

    /// Looks at the next of the oldest list, or begins one; returns whether it did.
    fn look_in_list(&mut self) -> bool {
        let youngest = self.lists.len() - 1;
        let Some(at) = self.lists[0].pop_front() else {
            self.lists.rotate_left(1);
            self.oldest += 1;
            self.promote(0..self.pages.len(), youngest);
            return true;
        };
        // It may have gone, or to another list.
        if self.pages[at].here && self.pages[at].age == self.oldest {
            if !self.look(at) {
                self.goes(at);
                return false;
            }
            self.enlist(at, youngest);
            if self.policy.around {
                let end = (at + AROUND).min(self.pages.len());
                self.promote(at.saturating_sub(AROUND)..end, youngest);
            }
        }
        false
    }
    fn promote(&mut self, pages: std::ops::Range<usize>, list: usize) {
        for at in pages {
            if self.look(at) {
                self.enlist(at, list);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ideal, made, replay};

    #[test]
    fn nothing_is_better_than_the_optimum() {
        for (name, stream) in made::all(256, 4000, 1) {
            let best = ideal::belady(&stream, 128);
            for policy in Policy::all(false) {
                let figures = run(policy, &stream, 128);
                assert!(figures.again >= best, "{name}: {}", policy.name());
                assert!(figures.overshoot == 0 || !policy.exact);
                assert_eq!(run(policy, &stream, 256), Figures::default());
            }
        }
    }

    /// The model of what is built does within a fifth what the memory manager does.
    #[test]
    fn the_memory_manager_does_what_its_model_does() {
        for (name, stream) in made::all(1024, 10_000, 1) {
            let (real, memory) = replay::run(&stream, 640, 0, "adaptive").unwrap();
            let model = run(Policy::all(true)[0], &stream, memory).brought as f64;
            assert!(
                (real.brought as f64 / model - 1.0).abs() < 0.2,
                "{name}: {real:?} {model}"
            );
        }
    }
}
