//! Physical memory of the simulated machine: rows of entries go one by one, so that a prefetch may
//! happen before and after each.

use crate::inside::Inside;
use crate::machine::Sim;
use crate::meanwhile::At;
use mm::addr::{Order, PAGE_SIZE, Pfn, PhysAddr};
use mm::arch::{Blank, Level, Live, PhysMem, PteFormat, Row, Series, Settled, Unwalked};
use std::sync::atomic::Ordering;

impl<F: PteFormat> PhysMem for Sim<F> {
    fn load(&self, table: Pfn, index: usize) -> u64 {
        self.0.meanwhile.comes_to(At::Load);
        self.0.loads.fetch_add(1, Ordering::Relaxed);
        self.0.ram.word(table, index).load(Ordering::Acquire)
    }
    fn store(&self, table: Pfn, index: usize, raw: u64) {
        self.swap(table, index, raw);
    }
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64 {
        let _inside = Inside::new();
        self.maybe_prefetch();
        let shadow = self.shadow();
        let old = self.0.ram.word(table, index).swap(raw, Ordering::AcqRel);
        self.written(shadow, (table, index), old, raw);
        self.maybe_prefetch();
        old
    }
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64> {
        let _inside = Inside::new();
        self.maybe_prefetch();
        let shadow = self.shadow();
        let word = self.0.ram.word(table, index);
        let result = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        match result {
            Ok(_) => self.written(shadow, (table, index), old, new),
            Err(_) => drop(shadow),
        }
        self.maybe_prefetch();
        result.map(drop)
    }
    fn agree(&self, row: Row, like: Series, mask: u64) -> usize {
        let agrees = |i: &usize| (self.load(row.table, row.index + i) ^ like.at(*i)) & mask == 0;
        (0..row.n).take_while(agrees).count()
    }
    fn is_zero(&self, row: Row) -> bool {
        self.agree(row, Series::ZERO, u64::MAX) == row.n
    }
    fn store_run(&self, Blank(row): Blank, entries: Series) {
        (0..row.n).for_each(|i| self.store(row.table, row.index + i, entries.at(i)));
    }
    fn copy_run(&self, Settled(row): Settled, to: Pfn, old: Series, new: u64) -> usize {
        let new = Series { raw: new, ..old };
        for i in 0..row.n {
            let (index, raw, copy) = (row.index + i, old.at(i), new.at(i));
            if self.load(row.table, index) != raw {
                return i;
            }
            if copy != raw {
                self.store(row.table, index, copy);
            }
            self.store(to, index, copy);
        }
        row.n
    }
    fn freeze_run(&self, Live(row): Live, _: Level, valid: u64) -> u32 {
        let mut found = 0;
        for index in row.index..row.index + row.n {
            let mut raw = self.load(row.table, index);
            found += u32::from(raw != 0);
            while raw & valid != 0 {
                match self.compare_exchange(row.table, index, raw, raw & !valid) {
                    Ok(()) => break,
                    Err(now) => raw = now,
                }
            }
        }
        found
    }
    fn move_run(&self, from: Unwalked, to: Blank, f: impl Fn(u64) -> u64) -> u32 {
        let mut found = 0;
        for i in 0..from.0.n {
            let raw = self.load(from.0.table, from.0.index + i);
            if raw != 0 {
                self.store(from.0.table, from.0.index + i, 0);
                self.store(to.0.table, to.0.index + i, f(raw));
                found += 1;
            }
        }
        found
    }
    fn zero(&self, first: Pfn, order: Order) {
        self.0.meanwhile.comes_to(At::Zero);
        let _inside = Inside::new();
        self.renew(first, order);
        self.0.ram.zero(first, order);
    }
    fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        let _inside = Inside::new();
        self.renew(to, order);
        self.0.ram.copy(from, to, order);
    }
    fn read(&self, from: PhysAddr, into: &mut [u8]) {
        self.0.ram.read(from, into);
    }
    fn write(&self, to: PhysAddr, from: &[u8]) {
        let _inside = Inside::new();
        // A whole frame: what a freed one is filled with, if nothing else.
        if to.0.is_multiple_of(PAGE_SIZE) && from.len() as u64 == PAGE_SIZE {
            self.renew(to.frame(), Order(0));
        }
        self.0.ram.write(to, from);
    }
    fn in_place(&self, at: PhysAddr, len: u64, f: &mut dyn FnMut(&mut [u8])) {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        f(&mut bytes);
        let frames = at.0..at.0 + len;
        for (frame, page) in frames
            .step_by(PAGE_SIZE as usize)
            .zip(bytes.chunks(PAGE_SIZE as usize))
        {
            self.write(PhysAddr(frame), page);
        }
    }
}
