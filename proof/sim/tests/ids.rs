//! More address spaces than there are ids in the account: those beyond share one, copy where they
//! cannot know that a folio is theirs alone, and never write into another's page.

mod common;

use arch_sim::{Options, Process, World};
use common::{AT, RW, map, on_both, page, sizes};
use mm::Error;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::fault::Access;
use mm::own::mutant::{self, Mutant};
use mm::own::{Ids, MmId};
use mm::switch::Switch;
use std::panic::{AssertUnwindSafe, catch_unwind};

on_both! {
    the_common_id_copies_until_it_has_the_last_reference
    ids_come_back
    no_space_is_called_by_the_common_id
    tables_that_are_shared
    one_id_for_two_spaces_is_caught
    a_tag_that_spaces_share_is_flushed_when_one_ends
}

/// One process has an id, all others share one.
fn one_id<F: PteFormat>(w: &World<F>) {
    let number = Switch::Ids.number("1").expect("a word");
    w.mm.switches().set(Switch::Ids, number);
}

fn common<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.event("mm_ids_common").expect("a counter")
}

fn copied<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.event("cow_copied").expect("a counter")
}

/// A process without an id of its own, with 16 pages of one folio of 2^`order` pages each.
fn written<F: PteFormat>(w: &World<F>, order: u8) -> Process<F> {
    sizes(w, &[order]);
    let s = w.process();
    map(&s, AT, 16, RW);
    (0..16).for_each(|n| w.store(0, &s, page(n), n as u8 + 1).unwrap());
    s
}

fn fork<F: PteFormat>(w: &World<F>, s: &Process<F>) -> Process<F> {
    w.adopt(s.fork().unwrap())
}

fn the_common_id_copies_until_it_has_the_last_reference<F: PteFormat>(w: &World<F>) {
    one_id(w);
    let _first = w.process();
    for order in [0, 2, 4] {
        let parent = written(w, order);
        let child = fork(w, &parent);
        assert_eq!(common(w), 2);
        let before = copied(w);
        w.store(0, &parent, page(3), 100).unwrap();
        assert_eq!(w.load(1, &child, page(3)), Ok(4));
        assert_eq!(copied(w), before + 1);
        w.check(&[&_first, &parent, &child], &[]);
        drop(parent);
        // Now all is the child's, and it knows that of single pages.
        w.store(1, &child, page(9), 101).unwrap();
        assert_eq!(copied(w) - before, if order == 0 { 1 } else { 2 });
        // What is left of a folio is one page: that one is no other's.
        child.unmap(AT, 15 * PAGE_SIZE).unwrap();
        let before = copied(w);
        w.store(1, &child, page(15), 102).unwrap();
        assert_eq!(copied(w), before, "order {order}");
        assert_eq!(w.load(0, &child, page(15)), Ok(102));
        w.check(&[&_first, &child], &[]);
    }
}

fn ids_come_back<F: PteFormat>(w: &World<F>) {
    one_id(w);
    let first = written(w, 4);
    assert_eq!(first.owner_id(), MmId::new(1));
    let (second, third) = (fork(w, &first), fork(w, &first));
    assert_eq!((common(w), second.owner_id()), (2, None));
    drop(first);
    // Its id is free, and the next one's: what the others have is none of its.
    let next = fork(w, &second);
    assert_eq!((common(w), next.owner_id()), (2, MmId::new(1)));
    w.store(0, &next, page(1), 50).unwrap();
    w.store(1, &third, page(1), 51).unwrap();
    let seen = [&next, &second, &third].map(|s| w.load(0, s, page(1)));
    assert_eq!(seen, [Ok(50), Ok(2), Ok(51)]);
    w.check(&[&next, &second, &third], &[]);
    drop((second, third));
    assert_eq!(common(w), 0);
    // All that is left is its own, and it knows.
    let before = copied(w);
    (2..16).for_each(|n| w.store(0, &next, page(n), 60).unwrap());
    assert_eq!(copied(w), before);
}

fn no_space_is_called_by_the_common_id<F: PteFormat>(w: &World<F>) {
    one_id(w);
    let spaces = [w.process(), written(w, 4), written(w, 4)];
    for s in &spaces[1..] {
        let pfn = mm::addr::Pfn(s.page_info(page(3)).pfn);
        let head = w.mm.frame_info(pfn).expect("a frame").block.head;
        assert_eq!((s.owner_id(), w.mm.owner(head)), (None, None));
        // It still finds its pages, splits its folios and pins them.
        assert_eq!(s.address_of(pfn), Some(page(3)));
        s.unmap(page(1), PAGE_SIZE).unwrap();
        assert_eq!(s.split_deferred() > 0, w.mm.references(head) == 1);
        let pin = s.pin_long_term(page(5), Access::Write).unwrap();
        let child = fork(w, s);
        w.store(0, s, page(5), 77).unwrap();
        let mut byte = [0];
        pin.read(0, &mut byte);
        assert_eq!((byte, w.load(1, &child, page(5))), ([77], Ok(6)));
        w.check(&[&spaces[0], &spaces[1], &spaces[2], &child], &[]);
    }
}

fn tables_that_are_shared<F: PteFormat>(w: &World<F>) {
    one_id(w);
    let fork_by = Switch::Fork.number("share").expect("a word");
    w.mm.switches().set(Switch::Fork, fork_by);
    sizes(w, &[4]);
    let (first, s) = (w.process(), w.process());
    map(&s, AT, 512, RW);
    (0..32).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    let children = [0, 1, 2].map(|_| fork(w, &s));
    let [a, b, c] = &children;
    assert!(w.mm.event("page_tables_shared") > Some(0));
    w.check(&[&first, &s, a, b, c], &[]);
    // Each of those with one id copies the table, the one that had it first among them.
    for (n, space) in [&s, a, b].into_iter().enumerate() {
        w.store(0, space, page(7), 100 + n as u8).unwrap();
        w.check(&[&first, &s, a, b, c], &[]);
    }
    drop(s);
    w.store(0, c, page(8), 200).unwrap();
    assert_eq!(
        [a, b, c].map(|s| (w.load(1, s, page(7)), w.load(1, s, page(8)))),
        [(Ok(101), Ok(8)), (Ok(102), Ok(8)), (Ok(7), Ok(200))]
    );
    w.check(&[&first, a, b, c], &[]);
}

/// With the rule broken two spaces write into one page, and the checks say so.
fn one_id_for_two_spaces_is_caught<F: PteFormat>(w: &World<F>) {
    one_id(w);
    let first = w.process();
    let parent = written(w, 4);
    let child = fork(w, &parent);
    // More references than pages are several spaces' in any case.
    parent.unmap(page(8), 8 * PAGE_SIZE).unwrap();
    child.unmap(AT, 8 * PAGE_SIZE).unwrap();
    let spaces = [&*first, &*parent, &*child];
    w.check(&spaces, &[]);
    mutant::set(Some(Mutant::CommonIsOne));
    let seen = catch_unwind(AssertUnwindSafe(|| w.check(&spaces, &[])));
    mutant::set(None);
    let seen = seen.expect_err("the mutant was not seen");
    let message = *seen.downcast::<String>().expect("a message");
    assert!(message.contains("reads as exclusive"), "{message}");
}

/// As many spaces as a machine may have, at once.
mod crowd {
    use super::*;

    const SPACES: usize = 40_000;
    /// Each child has a root, three tables, and every hundredth copies.
    const FRAMES: usize = SPACES * 4 + 20_000;

    fn right<F: PteFormat>(w: &World<F>, s: &Process<F>, n: usize, writes: bool) {
        for place in 0..16 {
            let wrote = writes && place == n as u64 % 16;
            let byte = if wrote { n as u8 } else { 200 + place as u8 };
            assert_eq!(
                w.load(0, s, page(place)),
                Ok(byte),
                "space {n}, page {place}"
            );
        }
    }

    fn at_once<F: PteFormat>() {
        let w = &World::<F>::new(Options {
            frames: FRAMES,
            prefetch: 1000,
            ..Options::default()
        });
        let before = w.mm.counts();
        sizes(w, &[4]);
        let parent = w.process();
        map(&parent, AT, 16, RW);
        (0..16).for_each(|n| w.store(0, &parent, page(n), 200 + n as u8).unwrap());
        let writes = |n: usize| n.is_multiple_of(100) || n > SPACES - 10;
        let mut children: Vec<Option<Process<F>>> = Vec::new();
        for n in 1..SPACES {
            let child = fork(w, &parent);
            if writes(n) {
                w.store(0, &child, page(n as u64 % 16), n as u8).unwrap();
            }
            children.push(Some(child));
        }
        assert_eq!(common(w), (SPACES - usize::from(MmId::LAST)) as u64);
        let all = |children: &[Option<Process<F>>]| {
            let children = children.iter().flatten();
            let spaces: Vec<_> = children.chain([&parent]).map(|s| &**s).collect();
            w.check(&spaces, &[]);
        };
        all(&children);
        // Every third one ends, ids of both kinds come back and are taken again.
        for child in children.iter_mut().step_by(3) {
            *child = None;
        }
        for n in (1..SPACES).step_by(6) {
            children[n - 1] = Some(fork(w, &parent));
        }
        for (n, child) in (1..SPACES).zip(&children) {
            let again = (n - 1).is_multiple_of(6);
            if let Some(child) = child.as_ref().filter(|_| writes(n) || n % 1000 == 7) {
                right(w, child, n, writes(n) && !again);
            }
        }
        right(w, &parent, 0, false);
        all(&children);
        children.clear();
        // The parent has an id of its own: what nobody else has it need not copy.
        let copies = copied(w);
        (0..16).for_each(|n| w.store(0, &parent, page(n), 1).unwrap());
        assert_eq!((copied(w), common(w)), (copies, 0));
        drop(parent);
        assert_eq!(before, w.mm.counts());
        w.check(&[], &[]);
    }

    #[test]
    fn x86_64() {
        at_once::<arch_x86_64::pte::Format>();
    }
    #[test]
    fn aarch64() {
        at_once::<arch_aarch64::pte::Format>();
    }
}

/// There is an end, and fork says so in its way.
#[test]
fn as_many_spaces_as_the_account_can_hold() {
    let w = World::<arch_x86_64::pte::Format>::new(Options {
        frames: Ids::MOST + 1000,
        ..Options::default()
    });
    let first = w.process();
    let mut spaces: Vec<_> = (1..Ids::MOST).map(|_| fork(&w, &first)).collect();
    assert_eq!(first.fork().err(), Some(Error::Again));
    spaces.truncate(100);
    assert!(first.fork().is_ok());
}

/// A CPU may have translations of it still, and walks by them when it next loads the tag.
fn a_tag_that_spaces_share_is_flushed_when_one_ends<F: PteFormat>(_: &World<F>) {
    let w = World::<F>::new(Options {
        asids: 1,
        ..Options::default()
    });
    let flushed = |w: &World<F>| w.mm.event("tlb_flush_space").expect("a counter");
    let [first, second] = [w.process(), w.process()];
    assert_eq!([first.asid().0, second.asid().0], [0, 0]);
    map(&first, AT, 1, RW);
    w.store(1, &first, page(0), 1).unwrap();
    let before = flushed(&w);
    drop(first);
    assert_eq!(flushed(&w), before + 1);
}
