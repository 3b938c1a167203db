//! Huge pages that userfaultfd monitors.

use super::{Huge, O, file, left, pool, private, shared};
use crate::common::{AT, on_both_by_run};
use arch_sim::{Process, Sim};
use mm::addr::{VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Question, Resolution};
use mm::object::Unmapped;
use mm::vma::VmaFlags;
use mm::{Advice, Content, Error, Registration};

on_both_by_run! {
    a_missing_page_is_taken_filled_and_mapped
    what_was_taken_in_vain_is_reserved_again
    what_is_mapped_no_more_is_not_reserved
    nothing_is_put_past_the_end
    a_page_of_the_file_is_asked_for
    protection_is_by_the_huge_page
    what_is_not_there_is_protected
    protection_outlives_a_page_that_is_dropped
    writes_are_tracked
    poison_is_a_memory_error
    a_child_has_no_monitor
    nothing_is_done_to_a_part
}

const MISSING: VmaFlags = VmaFlags::UFFD_MISSING;
const WP: VmaFlags = VmaFlags::UFFD_WP;
const ASYNC: VmaFlags = WP.union(VmaFlags::UFFD_WP_ASYNC);

impl<F: PteFormat> Huge<'_, F> {
    /// Huge pages in a row.
    fn part(&self, first: u64, n: u64) -> VirtRange {
        VirtRange::new(self.huge(first), self.huge(first + n))
    }
    /// The last byte of a huge page.
    fn last(&self, n: u64) -> VirtAddr {
        self.huge(n) + (self.size() - 1)
    }
}

fn register<F: PteFormat>(s: &Process<F>, range: VirtRange, flags: VmaFlags) -> Result<(), Error> {
    s.userfault_register(range, Registration { monitor: 7, flags })
}

/// Two huge pages, private or a file's, registered.
fn two<F: PteFormat>(w: &Huge<F>, s: &Process<F>, object: Option<&O<F>>, flags: VmaFlags) {
    match object {
        Some(object) => shared(s, object, AT, 2),
        None => private(w, s, AT, 2),
    }
    register(s, w.part(0, 2), flags).unwrap();
}

/// Calls `test` with private pages, and with those of a file.
fn of_both<F: PteFormat>(w: &Huge<F>, flags: VmaFlags, test: impl Fn(&Process<F>, Option<&O<F>>)) {
    for of_file in [false, true] {
        pool(w, 4);
        let object = of_file.then(|| file(w, 2));
        let s = w.process();
        two(w, &s, object.as_ref(), flags);
        test(&s, object.as_ref());
        check(w, &[&s], object.as_ref());
        drop((s, object));
        assert_eq!(left(w), (4, 0));
        pool(w, 0);
    }
}

fn check<F: PteFormat>(w: &Huge<F>, processes: &[&Process<F>], object: Option<&O<F>>) {
    let spaces: Vec<_> = processes.iter().map(|p| &***p).collect();
    w.check(&spaces, object.as_slice());
}

fn question<F: PteFormat>(
    w: &Huge<F>,
    s: &Process<F>,
    at: VirtAddr,
    access: Access,
) -> Option<Question> {
    let asked = s.asked(at, access)?;
    assert_eq!(asked.page, at.align_down(w.size()));
    Some(asked.question)
}

fn is_protected<F: PteFormat>(w: &Huge<F>, s: &Process<F>, n: u64) -> bool {
    let ends = [w.huge(n), w.last(n)].map(|at| s.page_info(at).write_protected);
    assert_eq!(ends[0], ends[1]);
    ends[0]
}

fn take<F: PteFormat>(
    w: &Huge<F>,
    s: &Process<F>,
    n: u64,
    byte: u8,
) -> Result<Unmapped<Sim<F>>, Error> {
    let page = s.userfault_take(w.part(n, 1), w.huge(n), false)?;
    (0..w.size() / 4096).for_each(|at| page.write(at * 4096, &[byte; 4096]));
    Ok(page)
}

fn map<F: PteFormat>(
    w: &Huge<F>,
    s: &Process<F>,
    page: Unmapped<Sim<F>>,
    n: u64,
    protect: bool,
) -> Result<(), Error> {
    s.userfault_map(page, w.part(n, 1), w.huge(n), protect)
}

fn a_missing_page_is_taken_filled_and_mapped<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING | WP, |s, object| {
        assert_eq!(w.load(0, s, w.huge(1) + 5), Err(Resolution::Userfault));
        assert_eq!(
            question(w, s, w.huge(1) + 5, Access::Read),
            Some(Question::Missing)
        );
        map(w, s, take(w, s, 1, 9).unwrap(), 1, true).unwrap();
        assert_eq!(w.load(0, s, w.last(1)), Ok(9));
        assert!(is_protected(w, s, 1));
        assert_eq!(w.store(0, s, w.huge(1), 1), Err(Resolution::Userfault));
        s.userfault_protect(w.part(1, 1), false).unwrap();
        w.store(0, s, w.huge(1), 1).unwrap();
        assert_eq!(take(w, s, 1, 9).err(), Some(Error::Exist));
        // There are no zeros for huge pages.
        let zeros = s.userfault_fill(w.part(0, 1), w.huge(0), Content::Zeros, false);
        assert_eq!(zeros, Err(Error::Inval));
        assert_eq!(left(w), (3, 1));
        assert_eq!(s.usage().rss.hugetlb, w.pages());
        check(w, &[s], object);
    });
}

/// The file was truncated between the two steps of a copy.
fn nothing_is_put_past_the_end<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING | WP, |s, object| {
        let Some(object) = object else { return };
        let taken = take(w, s, 1, 9).unwrap();
        object.truncate(w.size());
        assert_eq!(map(w, s, taken, 1, false), Err(Error::Fault));
        assert_eq!(w.load(0, s, w.huge(1)), Err(Resolution::Bus));
        object.set_len(2 * w.size());
        assert_eq!(w.load(0, s, w.huge(1)), Err(Resolution::Userfault));
        check(w, &[s], Some(object));
    });
}

fn what_was_taken_in_vain_is_reserved_again<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING, |s, object| {
        let (one, other) = (take(w, s, 0, 1).unwrap(), take(w, s, 0, 2).unwrap());
        // The first one had the reservation.
        assert_eq!(left(w), (2, 1));
        map(w, s, other, 0, false).unwrap();
        assert_eq!(map(w, s, one, 0, false), Err(Error::Exist));
        assert_eq!(w.load(0, s, w.huge(0)), Ok(2));
        drop(take(w, s, 1, 3));
        assert_eq!(left(w).1, 1 + u64::from(object.is_none()));
        s.userfault_unregister(w.part(0, 2), 7).unwrap();
        w.store(0, s, w.huge(1), 1).unwrap();
        check(w, &[s], object);
    });
}

/// Who unmaps a private page gives its reservation back, also while the page is filled.
fn what_is_mapped_no_more_is_not_reserved<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING, |s, object| {
        let taken = take(w, s, 1, 9).unwrap();
        s.unmap(w.huge(1), w.size()).unwrap();
        drop(taken);
        // A file keeps it.
        assert_eq!(left(w), (4, 1 + u64::from(object.is_some())));
        if let Some(object) = object {
            let taken = take(w, s, 0, 9).unwrap();
            object.truncate(0);
            drop(taken);
            object.set_len(2 * w.size());
            assert_eq!(left(w), (4, 0));
        }
        check(w, &[s], object);
    });
}

fn a_page_of_the_file_is_asked_for<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let (object, s, other) = (file(w, 2), w.process(), w.process());
    two(w, &s, Some(&object), VmaFlags::UFFD_MINOR);
    shared(&other, &object, AT, 2);
    w.store(0, &other, w.huge(0), 5).unwrap();
    assert_eq!(w.load(0, &s, w.huge(0)), Err(Resolution::Userfault));
    assert_eq!(
        question(w, &s, w.huge(0), Access::Read),
        Some(Question::Minor)
    );
    let cached = |n| s.userfault_fill(w.part(n, 1), w.huge(n), Content::Object, false);
    assert_eq!(cached(1), Err(Error::Fault));
    cached(0).unwrap();
    assert_eq!(cached(0), Err(Error::Exist));
    assert_eq!(w.load(0, &s, w.huge(0)), Ok(5));
    // What is not in the file is not asked for.
    w.store(0, &s, w.huge(1), 6).unwrap();
    check(w, &[&s, &other], Some(&object));
    drop((s, other, object));
    pool(w, 0);
}

fn protection_is_by_the_huge_page<F: PteFormat>(w: &Huge<F>) {
    of_both(w, WP, |s, object| {
        (0..2).for_each(|n| w.store(0, s, w.huge(n), 1).unwrap());
        s.userfault_protect(w.part(0, 1), true).unwrap();
        assert!(is_protected(w, s, 0) && !is_protected(w, s, 1));
        w.store(0, s, w.huge(1), 2).unwrap();
        assert_eq!(
            w.store(0, s, w.huge(0) + 8192, 2),
            Err(Resolution::Userfault)
        );
        let asks = question(w, s, w.huge(0) + 8192, Access::Write);
        assert_eq!(asks, Some(Question::WriteProtected));
        check(w, &[s], object);
        s.userfault_protect(w.part(0, 2), false).unwrap();
        w.store(0, s, w.huge(0) + 8192, 2).unwrap();
    });
}

fn what_is_not_there_is_protected<F: PteFormat>(w: &Huge<F>) {
    of_both(w, WP, |s, object| {
        s.userfault_protect(w.part(0, 2), true).unwrap();
        assert!(is_protected(w, s, 0) && is_protected(w, s, 1));
        assert_eq!(left(w), (4, 2));
        check(w, &[s], object);
        assert_eq!(w.load(0, s, w.huge(0) + 4096), Ok(0));
        assert!(is_protected(w, s, 0));
        assert_eq!(left(w), (3, 1));
        for n in 0..2 {
            assert_eq!(
                w.store(0, s, w.huge(n) + 8192, 1),
                Err(Resolution::Userfault)
            );
            check(w, &[s], object);
            s.userfault_protect(w.part(n, 1), false).unwrap();
            w.store(0, s, w.huge(n) + 8192, 1).unwrap();
        }
    });
}

fn protection_outlives_a_page_that_is_dropped<F: PteFormat>(w: &Huge<F>) {
    of_both(w, WP, |s, object| {
        w.store(0, s, w.huge(0), 1).unwrap();
        s.userfault_protect(w.part(0, 1), true).unwrap();
        s.advise(w.huge(0), w.size(), Advice::DontNeed).unwrap();
        assert!(is_protected(w, s, 0));
        check(w, &[s], object);
        assert_eq!(w.store(0, s, w.huge(0), 1), Err(Resolution::Userfault));
        s.userfault_unregister(w.part(0, 2), 7).unwrap();
        assert!(!is_protected(w, s, 0));
        w.store(0, s, w.huge(0), 1).unwrap();
    });
}

fn writes_are_tracked<F: PteFormat>(w: &Huge<F>) {
    of_both(w, ASYNC, |s, object| {
        w.store(0, s, w.huge(0), 1).unwrap();
        s.userfault_protect_async(w.part(0, 2)).unwrap();
        assert!(is_protected(w, s, 0) && is_protected(w, s, 1));
        for n in 0..2 {
            w.load(0, s, w.huge(n) + 4096).unwrap();
            assert!(is_protected(w, s, n));
            w.store(0, s, w.huge(n) + 4096, 1).unwrap();
            assert!(!is_protected(w, s, n));
            check(w, &[s], object);
        }
    });
}

fn poison_is_a_memory_error<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING, |s, object| {
        let poison = |n| s.userfault_fill(w.part(n, 1), w.huge(n), Content::Poison, false);
        poison(0).unwrap();
        check(w, &[s], object);
        for at in [w.huge(0), w.last(0)] {
            let result = w.load(0, s, at);
            assert_eq!(result, Err(Resolution::Poisoned(w.order)));
        }
        map(w, s, take(w, s, 0, 4).unwrap(), 0, false).unwrap();
        assert_eq!(w.load(0, s, w.last(0)), Ok(4));
        assert_eq!(poison(0), Err(Error::Exist));
        poison(1).unwrap();
    });
}

fn a_child_has_no_monitor<F: PteFormat>(w: &Huge<F>) {
    of_both(w, WP, |s, object| {
        w.store(0, s, w.huge(0), 1).unwrap();
        s.userfault_protect(w.part(0, 2), true).unwrap();
        let child = w.adopt(s.fork().unwrap());
        assert!(!is_protected(w, &child, 0) && !is_protected(w, &child, 1));
        check(w, &[s, &child], object);
        w.store(1, &child, w.huge(0), 2).unwrap();
        assert_eq!(w.store(0, s, w.huge(0), 3), Err(Resolution::Userfault));
        let seen = if object.is_some() { 2 } else { 1 };
        assert_eq!(w.load(0, s, w.huge(0)), Ok(seen));
        check(w, &[s, &child], object);
    });
}

fn nothing_is_done_to_a_part<F: PteFormat>(w: &Huge<F>) {
    of_both(w, MISSING | WP, |s, _| {
        let part = VirtRange::new(w.huge(0), w.huge(0) + 4096);
        assert_eq!(register(s, part, MISSING), Err(Error::Inval));
        assert_eq!(s.userfault_unregister(part, 7), Err(Error::Inval));
        assert_eq!(s.userfault_protect(part, true), Err(Error::Inval));
        let poison = s.userfault_fill(w.part(0, 1), w.huge(0) + 4096, Content::Poison, false);
        assert_eq!(poison, Err(Error::Inval));
        // A read is enough to see that no page was made.
        assert_eq!(w.load(0, s, w.huge(0)), Err(Resolution::Userfault));
    });
}
