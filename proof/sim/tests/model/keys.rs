//! Protection keys: what mprotect(2) and pkey_mprotect(2) do to pages, and who may use them then.

use super::*;
use mm::arch::Key;
use std::collections::BTreeMap;

/// Keys that the processes have beside key 0; the walks ask for one more.
const OWN: u8 = 3;
/// While memory is used, CPU 1 refuses all use of key 1 and writes to key 2.
const REFUSED: u32 = 0b10_01_00;

/// The first process of a walk, which its children take after.
pub(super) fn process<F: PteFormat>(world: &World<F>) -> Process<F> {
    let process = world.process();
    let expected = |n| (F::KEYS > 1).then_some(Key(n));
    (1..=OWN).for_each(|n| assert_eq!(process.allocate_key(), expected(n)));
    process
}

/// The register of CPU 1 is set until this is dropped: verbs are for the right of the process.
pub(super) struct Set<F: PteFormat>(Sim<F>);

impl<F: PteFormat> Set<F> {
    pub fn on(sim: &Sim<F>) -> Self {
        sim.set_keys(1, REFUSED);
        Set(sim.clone())
    }
}

impl<F: PteFormat> Drop for Set<F> {
    fn drop(&mut self) {
        self.0.set_keys(1, 0);
    }
}

fn is_refused(cpu: u8, prot: Prot, write: bool) -> bool {
    cpu == 1 && (prot.key() == Key(1) || write && prot.key() == Key(2))
}

/// What an access to page `n` gives that would give `expected` without keys.
pub(super) fn refuse<T>(
    expected: Result<T, Resolution>,
    cpu: u8,
    pages: &BTreeMap<u64, Page>,
    n: u64,
    write: bool,
) -> Result<T, Resolution> {
    let refused = pages
        .get(&n)
        .is_some_and(|page| is_refused(cpu, page.prot, write));
    match refused {
        // Before a page is made, or asked for.
        true => Err(Resolution::Denied),
        false => expected,
    }
}

impl<F: PteFormat> Bench<F> {
    pub(super) fn protect(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        rights: Prot,
        key: Option<Key>,
    ) {
        let refused = key.is_some_and(|key| F::KEYS == 1 || key.0 > OWN);
        let hole = (at..at + len).find(|n| !model.pages.contains_key(n));
        let expected = match hole {
            _ if refused => Err(Error::Inval),
            Some(_) => Err(Error::NoMem),
            None => Ok(()),
        };
        let (start, bytes) = (self.start(at), self.bytes(len));
        let result = process.protect_with_key(start, bytes, rights, key);
        assert_eq!(result, expected);
        if refused {
            return;
        }
        for n in at..hole.unwrap_or(at + len) {
            let page = model.pages.get_mut(&n).expect("before the hole");
            page.prot = rights.with_key(key.unwrap_or(page.prot.key()));
            // What is locked is populated when it becomes writable.
            page.protected = page.protected.filter(|_| !page.area.locked);
        }
    }

    /// Areas have the keys that the model says, and so have their entries (`check::all`).
    pub(super) fn check_keys(&self) {
        for (process, model) in self.processes.iter().flatten() {
            for (n, page) in &model.pages {
                let area = process.vma_at(self.spot(*n)).expect("it is mapped");
                assert_eq!(area.prot, page.prot, "page {n}");
            }
        }
    }
}
