//! Many VMAs: the tree with several levels of nodes against a plain model, the search for free
//! ranges, and its memory.

use arch_sim::Sim;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::vma::tree::MAX_VMAS;
use mm::vma::{Backing, Prot, STACK_GUARD_GAP, Vma, VmaFlags, VmaTree};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

type Machine = Sim<arch_x86_64::pte::Format>;

/// Pages that the VMAs play in.
const PAGES: u64 = 6000;
const RW: Prot = Prot::READ.union(Prot::WRITE);

#[derive(Clone, Debug)]
enum Step {
    /// One VMA of some pages; a stack if so.
    Put(u64, u64, bool),
    /// So many VMAs of one page, one page apart, upwards or downwards.
    Stripes(u64, u64, bool),
    Take(u64, u64),
    Protect(u64, u64, Prot),
    Fork,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 1..PAGES - 900;
    let prot = prop_oneof![Just(Prot::READ), Just(RW)];
    prop_oneof![
        3 => (at.clone(), 1..300u64, any::<bool>()).prop_map(|(a, n, s)| Step::Put(a, n, s)),
        2 => (at.clone(), 1..400u64, any::<bool>()).prop_map(|(a, n, up)| Step::Stripes(a, n, up)),
        2 => (at.clone(), 1..900u64).prop_map(|(a, n)| Step::Take(a, n)),
        1 => (at, 1..900u64, prot).prop_map(|(a, n, p)| Step::Protect(a, n, p)),
        1 => Just(Step::Fork),
    ]
}

fn range(at: u64, len: u64) -> VirtRange {
    VirtRange::new(VirtAddr(at * PAGE_SIZE), VirtAddr((at + len) * PAGE_SIZE))
}

fn put(tree: &mut VmaTree<Machine>, at: u64, len: u64, prot: Prot, flags: VmaFlags) {
    tree.reserve_take(range(at, len), 1).unwrap();
    tree.take(range(at, len)).unwrap();
    tree.insert(Vma::new(range(at, len), prot, flags, Backing::Anon));
}

/// Pages and what they are: the runs of equal neighbours are the VMAs.
type Model = BTreeMap<u64, (Prot, VmaFlags)>;

fn run(tree: &mut VmaTree<Machine>, model: &mut Model, step: &Step) {
    match *step {
        Step::Put(at, len, stack) => {
            let flags = if stack {
                VmaFlags::GROWSDOWN
            } else {
                VmaFlags::empty()
            };
            put(tree, at, len, RW, flags);
            model.extend((at..at + len).map(|n| (n, (RW, flags))));
        }
        Step::Stripes(at, count, up) => {
            for k in 0..count {
                let n = at + 2 * if up { k } else { count - 1 - k };
                put(tree, n, 1, Prot::READ, VmaFlags::empty());
                model.insert(n, (Prot::READ, VmaFlags::empty()));
            }
        }
        Step::Take(at, len) => {
            tree.reserve_take(range(at, len), 0).unwrap();
            let taken = tree.take(range(at, len)).unwrap();
            let pages: u64 = taken.iter().map(|v| v.range.pages()).sum();
            let before = model.len();
            model.retain(|n, _| !(at..at + len).contains(n));
            assert_eq!(pages as usize, before - model.len());
        }
        Step::Protect(at, len, prot) => {
            tree.reserve_update(range(at, len)).unwrap();
            tree.update(range(at, len), |v| v.prot = prot);
            model
                .range_mut(at..at + len)
                .for_each(|(_, page)| page.0 = prot);
        }
        Step::Fork => {
            *tree = VmaTree::copy_of(tree.figures(), tree.iter(), |vma| Ok(vma.clone())).unwrap()
        }
    }
}

fn runs(model: &Model) -> Vec<(u64, u64, (Prot, VmaFlags))> {
    let mut out: Vec<(u64, u64, _)> = Vec::new();
    for (&n, &page) in model {
        match out.last_mut() {
            Some((_, end, first)) if *end == n && *first == page => *end += 1,
            _ => out.push((n, n + 1, page)),
        }
    }
    out
}

/// The highest free range below `top`, by looking at every VMA.
fn gap_by_hand(tree: &VmaTree<Machine>, len: u64, floor: u64, top: u64) -> Option<u64> {
    let mut limit = top;
    let mut vmas: Vec<_> = tree.iter().collect();
    while let Some(vma) = vmas.pop() {
        let stack = vma.flags.contains(VmaFlags::GROWSDOWN);
        let low = vma
            .range
            .start
            .0
            .saturating_sub(if stack { STACK_GUARD_GAP } else { 0 });
        if limit >= vma.range.end.0.max(floor) + len {
            return Some(limit);
        }
        limit = top.min(low);
    }
    (limit >= floor + len).then_some(limit)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, rng_seed: RngSeed::Fixed(0x60), ..ProptestConfig::default() })]

    #[test]
    fn many_vmas_and_their_gaps(steps in prop::collection::vec((step(), 1..700u64, 0..PAGES), 1..40)) {
        let (mut tree, mut model) = (VmaTree::default(), Model::new());
        for (step, len, top) in &steps {
            run(&mut tree, &mut model, step);
            tree.validate();
            let shown: Vec<_> = tree.iter().map(|v| (v.range.start.page().0, v.range.end.page().0, (v.prot, v.flags))).collect();
            prop_assert_eq!(shown, runs(&model));
            for n in (0..PAGES).step_by(7) {
                let found = tree.find(VirtAddr(n * PAGE_SIZE + 9)).map(|s| tree.get(s).range);
                prop_assert_eq!(found.is_some(), model.contains_key(&n));
                prop_assert!(found.is_none_or(|r| r.contains(VirtAddr(n * PAGE_SIZE))));
            }
            let (len, top, floor) = (len * PAGE_SIZE, top * PAGE_SIZE, 16 * PAGE_SIZE);
            let found = tree.highest_gap(len, VirtAddr(floor), VirtAddr(top)).map(|a| a.0);
            prop_assert_eq!(found, gap_by_hand(&tree, len, floor, top));
            let back: Vec<_> = std::iter::successors(tree.last(), |&s| tree.before(s)).map(|s| tree.get(s).range.start).collect();
            prop_assert!(back.iter().rev().copied().eq(tree.iter().map(|v| v.range.start)));
        }
    }
}

/// 65,530 and one more, as in Linux; then only what makes fewer of them.
#[test]
fn as_many_as_linux_allows() {
    let mut tree: VmaTree<Machine> = VmaTree::default();
    let mut n = 0;
    while tree.reserve_take(range(2 * n, 1), 1).is_ok() {
        tree.insert(Vma::new(
            range(2 * n, 1),
            RW,
            VmaFlags::empty(),
            Backing::Anon,
        ));
        n += 1;
    }
    assert_eq!((n as usize, tree.len()), (MAX_VMAS + 1, MAX_VMAS + 1));
    tree.validate();
    assert!(tree.reserve(1).is_err());
    let all = range(0, 2 * n);
    tree.reserve_take(all, 0).unwrap();
    let taken = tree.take(all).unwrap();
    assert_eq!(taken.iter().count(), MAX_VMAS + 1);
    assert!(tree.is_empty() && tree.figures() == Default::default());
    tree.validate();
}

/// A cut in the middle makes one more, which is too many; whole VMAs and ends can always go.
#[test]
fn a_full_tree_can_be_emptied() {
    let mut tree: VmaTree<Machine> = VmaTree::default();
    for n in 0..MAX_VMAS as u64 {
        put(&mut tree, 4 * n, 3, RW, VmaFlags::empty());
    }
    assert!(tree.reserve_take(range(1, 1), 0).is_err());
    assert!(tree.reserve_update(range(4, 1)).is_err());
    assert!(tree.reserve_update(range(4, 3)).is_ok());
    for (at, len) in [(0, 1), (6, 1), (8, 3)] {
        tree.reserve_take(range(at, len), 0).unwrap();
        assert_eq!(tree.take(range(at, len)).unwrap().iter().count(), 1);
    }
    assert!(tree.reserve_take(range(13, 1), 0).is_ok());
}
