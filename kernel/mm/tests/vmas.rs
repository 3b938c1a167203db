//! The tree of VMAs against a plain model: one entry per page.

use arch_sim::{Options, Sim, World};
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::object::Object;
use mm::vma::{Backing, Prot, Vma, VmaFlags, VmaTree};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;
use std::sync::Arc;

type Machine = Sim<arch_x86_64::pte::Format>;

/// What the model knows of a page: protection, locked, and the object's page if there is one.
type Page = (Prot, bool, Option<u64>);

#[derive(Clone, Debug)]
enum Step {
    Put(u64, u64, Prot, Option<u64>),
    Take(u64, u64),
    Protect(u64, u64, Prot),
    Lock(u64, u64, bool),
}

/// A step on addresses up to page `top`, of fewer than `most` pages.
fn step(top: u64, most: u64) -> impl Strategy<Value = Step> {
    let (at, len) = (0..top, 1..most);
    let prot = prop_oneof![
        Just(Prot::READ),
        Just(Prot::READ | Prot::WRITE),
        Just(Prot::empty())
    ];
    prop_oneof![
        3 => (at.clone(), len.clone(), prot.clone(), prop::option::of(0..3u64)).prop_map(|(a, n, p, o)| Step::Put(a, n, p, o)),
        2 => (at.clone(), len.clone()).prop_map(|(a, n)| Step::Take(a, n)),
        2 => (at.clone(), len.clone(), prot).prop_map(|(a, n, p)| Step::Protect(a, n, p)),
        1 => (at, len, any::<bool>()).prop_map(|(a, n, l)| Step::Lock(a, n, l)),
    ]
}

fn range(at: u64, len: u64) -> VirtRange {
    VirtRange::new(VirtAddr(at * PAGE_SIZE), VirtAddr((at + len) * PAGE_SIZE))
}

fn run(
    tree: &mut VmaTree<Machine>,
    model: &mut BTreeMap<u64, Page>,
    object: &Arc<Object<Machine>>,
    step: &Step,
) {
    tree.reserve(4).unwrap();
    match *step {
        Step::Put(at, len, prot, offset) => {
            tree.take(range(at, len)).unwrap();
            let backing = match offset {
                None => Backing::Anon,
                // So that neighbours go on where the other stops: the offset follows the address.
                Some(o) => Backing::Object {
                    object: object.clone().into(),
                    offset: at + o,
                    file: None,
                },
            };
            tree.insert(Vma::new(range(at, len), prot, VmaFlags::empty(), backing));
            model.extend((at..at + len).map(|n| (n, (prot, false, offset.map(|o| n + o)))));
        }
        Step::Take(at, len) => {
            let pages: u64 = tree
                .take(range(at, len))
                .unwrap()
                .iter()
                .map(|v| v.range.pages())
                .sum();
            let before = model.len();
            model.retain(|n, _| !(at..at + len).contains(n));
            assert_eq!(pages as usize, before - model.len());
        }
        Step::Protect(at, len, prot) => {
            tree.update(range(at, len), |v| v.prot = prot);
            model
                .range_mut(at..at + len)
                .for_each(|(_, page)| page.0 = prot);
        }
        Step::Lock(at, len, on) => {
            tree.update(range(at, len), |v| v.flags.set(VmaFlags::LOCKED, on));
            model
                .range_mut(at..at + len)
                .for_each(|(_, page)| page.1 = on);
        }
    }
}

/// The VMAs that the model's pages make: runs of equal pages.
fn runs(model: &BTreeMap<u64, Page>) -> Vec<(u64, u64, Page)> {
    let mut out: Vec<(u64, u64, Page)> = Vec::new();
    for (&n, &page) in model {
        match out.last_mut() {
            Some((start, end, first))
                if *end == n && (first.0, first.1, first.2.map(|o| o + n - *start)) == page =>
            {
                *end += 1
            }
            _ => out.push((n, n + 1, page)),
        }
    }
    out
}

fn shown(tree: &VmaTree<Machine>) -> Vec<(u64, u64, Page)> {
    let of = |v: &Vma<Machine>| {
        let offset = match &v.backing {
            Backing::Anon => None,
            Backing::Object { offset, .. } => Some(*offset),
        };
        (
            v.range.start.page().0,
            v.range.end.page().0,
            (v.prot, v.flags.contains(VmaFlags::LOCKED), offset),
        )
    };
    tree.iter().map(of).collect()
}

/// Takes the steps with a tree and with the model, and compares the two after each.
fn compare(steps: &[Step], top: u64) -> Result<(), TestCaseError> {
    let world = World::<arch_x86_64::pte::Format>::new(Options {
        frames: 16,
        ..Options::default()
    });
    let object = Object::new(&world.mm);
    let (mut tree, mut model) = (VmaTree::default(), BTreeMap::new());
    for step in steps {
        run(&mut tree, &mut model, &object, step);
        tree.validate();
        prop_assert_eq!(shown(&tree), runs(&model));
        prop_assert_eq!(tree.pages() as usize, model.len());
        for n in 0..top + 12 {
            let found = tree.find(VirtAddr(n * PAGE_SIZE + 5));
            let found = found.map(|slot| tree.get(slot).range);
            prop_assert_eq!(found.is_some(), model.contains_key(&n));
            prop_assert!(found.is_none_or(|r| r.contains(VirtAddr(n * PAGE_SIZE))));
        }
    }
    Ok(())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x53),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn vmas_are_the_runs_of_equal_pages(steps in prop::collection::vec(step(40, 12), 1..80)) {
        compare(&steps, 40)?;
    }
}

proptest! {
    #![proptest_config(config(30))]

    /// Small VMAs, so many that the tree has several leaves and ends of ranges meet theirs.
    #[test]
    fn vmas_of_several_leaves_are_the_runs_of_equal_pages(
        first in prop::collection::vec(step(300, 2), 150..250),
        steps in prop::collection::vec(step(300, 60), 1..60),
    ) {
        compare(&[first, steps].concat(), 300)?;
    }
}
