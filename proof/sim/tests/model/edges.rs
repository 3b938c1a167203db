//! The frames at the ends of RAM: nothing else reaches them in a machine that has memory enough,
//! and what is beside them is no RAM.

use super::*;
use mm::addr::{Order, Pfn};

/// Frames that are near enough to an end of RAM.
const NEAR: u64 = 32;

impl<F: PteFormat> Bench<F> {
    /// Drops page `n` and writes it again when a frame at the end of a part of RAM is the next one
    /// that is handed out.
    pub(super) fn edge(&mut self, p: usize, cpu: usize, n: u64, byte: u8) {
        let Some((process, mut model)) = self.processes[p].take() else {
            return;
        };
        let suits = model.pages.get(&n).is_some_and(|page| {
            matches!(page.backing, Backed::Anon(_))
                && page.prot.contains(RW)
                && !page.area.locked
                && !page.guard
        });
        if suits {
            self.advise(&process, &mut model, (n, 1), Advice::DontNeed);
            // Frames that are freed are handed out again on the same CPU, the last one first.
            self.world.sim.run_on(cpu);
            let hog = self.hog(self.edge_of_ram(byte));
            // The first real page gets it: a block of a folio may begin there.
            for at in [self.start(n) + 8, self.spot(n)] {
                assert_eq!(self.world.store(cpu, &process, at, byte), Ok(()));
            }
            drop(hog);
        }
        self.processes[p] = Some((process, model));
        if suits {
            self.set(p, n, byte);
        }
    }

    /// A process that had single pages near the edge and has just dropped the nearest.
    fn hog(&self, edge: Pfn) -> Process<F> {
        let hog = self.world.process();
        map(&hog, page(0), NEAR, RW);
        let bytes = NEAR * PAGE_SIZE;
        hog.advise(page(0), bytes, Advice::NoHugePage).unwrap();
        let taken = self.take_all_but(edge);
        // It may get fewer.
        let _ = hog.advise(page(0), bytes, Advice::PopulateWrite);
        let mm = &self.world.mm;
        taken
            .into_iter()
            .for_each(|pfn| mm.free_kernel(pfn, Order(0)));
        let present = (0..NEAR).map(page).filter(|at| hog.page_info(*at).present);
        let nearest = present.min_by_key(|at| hog.page_info(*at).pfn.abs_diff(edge.0));
        if let Some(at) = nearest {
            hog.advise(at, PAGE_SIZE, Advice::DontNeed).unwrap();
        }
        hog
    }

    /// Takes all free frames but those that users may not have, and a few, which are the nearest to
    /// `edge`.
    fn take_all_but(&self, edge: Pfn) -> Vec<Pfn> {
        let mm = &self.world.mm;
        let zones = mm.allocator().zones().iter();
        let kept: u64 = zones.map(|zone| zone.marks().min).sum();
        let mut all: Vec<Pfn> = std::iter::from_fn(|| mm.alloc_kernel(Order(0))).collect();
        all.sort_by_key(|pfn| pfn.0.abs_diff(edge.0));
        let left = all.len().min((kept + NEAR) as usize);
        let near = all.drain(..left);
        near.for_each(|pfn| mm.free_kernel(pfn, Order(0)));
        all
    }

    /// A frame beside which there is no RAM: half of the time the last one.
    fn edge_of_ram(&self, which: u8) -> Pfn {
        let parts = self.world.sim.options().ram();
        let ends = parts
            .iter()
            .flat_map(|part| [part.start, Pfn(part.end.0 - 1)]);
        let ends: Vec<Pfn> = ends.collect();
        let which = which % 8;
        ends[usize::from(which).min(ends.len() - 1)]
    }
}
