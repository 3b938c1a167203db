//! What the kernel checks of a solution. It counts references on its own: when a folio is freed
//! does not depend on a solution. A wrong answer ends it, in words: "lab: ...".

use super::{Account, PLAIN, Word};

/// A folio as the kernel knows it.
pub trait Folio: Word {
    /// How many pages it has.
    fn pages(&self) -> u64;
    /// How many references it has.
    fn references(&self) -> u64;
    /// Counts `n` more.
    fn count(&self, n: u64);
    /// Counts `n` less; how many there were before.
    fn uncount(&self, n: u64) -> u64;
    /// Notes that a solution has found no reference left; whether it had before.
    fn set_free(&self) -> bool;
    /// Whether it has.
    fn is_free(&self) -> bool;
}

/// `n` references by `mm` more.
pub fn add(solution: &dyn Account, folio: &dyn Folio, mm: u8, n: u64) {
    in_use(folio);
    folio.count(n);
    solution.add(folio, mm, n);
}

/// `n` of them less; whether none are left.
pub fn remove(solution: &dyn Account, folio: &dyn Folio, mm: u8, n: u64) -> bool {
    in_use(folio);
    // Then they are the caller's, and nobody else could add to them.
    let all = folio.references() == n;
    let none = solution.remove(folio, mm, n);
    if none && folio.set_free() {
        panic!(
            "lab: remove: {}: two calls found that no references are left",
            shown(folio)
        );
    }
    if all && !none {
        let whose = whose(mm);
        panic!(
            "lab: remove: {}: those were the last {n} references, {whose}, and the answer is that some are left",
            shown(folio)
        );
    }
    if all && folio.load() != 0 {
        let word = folio.load();
        panic!(
            "lab: remove: {}: no references are left, and the word is {word:#x}",
            shown(folio)
        );
    }
    let last = folio.uncount(n) == n;
    if last && !folio.is_free() {
        panic!(
            "lab: remove: {}: nobody found that no references are left",
            shown(folio)
        );
    }
    last
}

/// Asks a solution about all that have the folio, while nothing changes it.
pub fn audit(solution: &dyn Account, folio: &dyn Folio, held: &[(u8, u64)]) {
    in_use(folio);
    let all = folio.references();
    for &(mm, n) in held.iter().filter(|(mm, n)| *mm != PLAIN && *n > 0) {
        if n != all && solution.reuse(folio, folio.pages(), mm, 0) {
            let (folio, others) = (shown(folio), all - n);
            panic!(
                "lab: reuse: {folio}: address space {mm} has {n} references, others have {others}, and it may write: they see that"
            );
        }
    }
}

/// Panics where a solution has found no reference left, and there are some.
fn in_use(folio: &dyn Folio) {
    if folio.is_free() {
        let left = folio.references();
        panic!(
            "lab: remove: {}: {left} references are left, and the answer was that none are",
            shown(folio)
        );
    }
}

fn whose(mm: u8) -> &'static str {
    if mm == PLAIN {
        "plain ones"
    } else {
        "mappings"
    }
}

fn shown(folio: &dyn Folio) -> Pages {
    Pages(folio.pages())
}

/// In words.
struct Pages(u64);

impl core::fmt::Display for Pages {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a folio of {} pages", self.0)
    }
}
