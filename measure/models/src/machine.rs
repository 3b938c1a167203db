//! A machine: cores of one kind, with what they share.

use crate::cache::LINE_SHIFT;
use crate::caches::{Caches, Counts};
use crate::config::{BadPreset, Preset};
use crate::control::{Control, Register};
use crate::figures::{Figures, Translated};
use crate::flush::Flush;
use crate::mmu::{CachedAs, Found, Mmu, Side, Walked};
use crate::walk::{Ram, Roots};

const PAGE: u64 = 4096;
const LINE: u64 = 1 << LINE_SHIFT;

/// One access to memory: a load, a store (which an atomic instruction is, too), or a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Virtual address of the first byte.
    pub address: u64,
    /// Bytes, at least 1 and at most 4096.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
    /// Physical address of the first byte, if the caller knows it; else it is taken from the
    /// translation. The rest of an access that goes on in the next page always takes it from there.
    pub physical: Option<u64>,
    /// Whether it is to a device: translated, but not cached.
    pub device: bool,
}

impl Access {
    /// A load from memory.
    pub fn read(address: u64, bytes: u32) -> Self {
        Self {
            address,
            bytes,
            write: false,
            physical: None,
            device: false,
        }
    }
    /// A store to memory.
    pub fn write(address: u64, bytes: u32) -> Self {
        Self {
            write: true,
            ..Self::read(address, bytes)
        }
    }
    /// The same with its physical address.
    pub fn at(self, physical: u64) -> Self {
        Self {
            physical: Some(physical),
            ..self
        }
    }
}

/// Cores and their shared level. One value for all of them, since a write by one CPU takes lines
/// from the others: whoever feeds it from several threads needs a lock around it, and decides by it
/// the order of the accesses.
#[derive(Clone, Debug)]
pub struct Machine {
    preset: Preset,
    caches: Caches,
    cpus: Vec<Cpu>,
}

#[derive(Clone, Debug)]
struct Cpu {
    control: Control,
    mmu: Mmu,
    figures: Figures,
}

impl Machine {
    /// `cpus` cores, all caches empty, all MMUs off.
    pub fn new(preset: Preset, cpus: usize) -> Result<Self, BadPreset> {
        let cpu = Cpu {
            control: Control::default(),
            mmu: Mmu::new(&preset)?,
            figures: Figures::default(),
        };
        Ok(Self {
            caches: Caches::new(&preset, cpus)?,
            cpus: vec![cpu; cpus],
            preset,
        })
    }

    /// What the cores are.
    pub fn preset(&self) -> &Preset {
        &self.preset
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// A CPU writes a register that page tables hang from, with the flush that this implies.
    pub fn write(&mut self, cpu: usize, register: Register, value: u64) {
        let flush = self.cpus[cpu].control.write(register, value);
        let roots = self.cpus[cpu].control.roots();
        self.set_roots(cpu, roots);
        flush.iter().for_each(|flush| self.flush(cpu, flush));
    }

    /// The roots of a CPU from now on, until a register is written. Nothing is flushed by it.
    pub fn set_roots(&mut self, cpu: usize, roots: Roots) {
        self.cpus[cpu].mmu.set_roots(roots);
    }

    /// A load or a store.
    #[inline]
    pub fn access(&mut self, cpu: usize, access: Access, ram: &impl Ram) {
        let side = if access.write {
            Side::Write
        } else {
            Side::Read
        };
        self.pages(cpu, access, side, ram);
    }

    /// Instruction fetches from a run of bytes (an instruction, or a block of them); `write` is
    /// ignored.
    #[inline]
    pub fn fetch(&mut self, cpu: usize, access: Access, ram: &impl Ram) {
        self.pages(cpu, access, Side::Fetch, ram);
    }

    #[inline]
    fn pages(&mut self, cpu: usize, access: Access, side: Side, ram: &impl Ram) {
        let bytes = u64::from(access.bytes);
        let in_page = PAGE - access.address % PAGE;
        let found = self.translate(cpu, access.address, side, ram);
        let physical = access.physical.or(found);
        if !access.device {
            self.lines(cpu, physical, bytes.min(in_page), side);
        }
        if bytes > in_page {
            let next = access.address.wrapping_add(in_page);
            let found = self.translate(cpu, next, side, ram);
            if !access.device {
                self.lines(cpu, found, bytes - in_page, side);
            }
        }
    }

    #[inline]
    fn lines(&mut self, cpu: usize, physical: Option<u64>, bytes: u64, side: Side) {
        let Some(physical) = physical else {
            return;
        };
        let last = (physical + bytes.max(1) - 1) / LINE;
        let Figures {
            data,
            fetch,
            events,
            ..
        } = &mut self.cpus[cpu].figures;
        let served = if side == Side::Fetch { fetch } else { data };
        let mut counts = Counts { served, events };
        for line in physical / LINE..=last {
            match side {
                Side::Fetch => self.caches.fetch(cpu, line, &mut counts),
                _ => self
                    .caches
                    .data(cpu, line, side == Side::Write, &mut counts),
            }
        }
    }

    #[inline]
    fn translate(&mut self, cpu: usize, address: u64, side: Side, ram: &impl Ram) -> Option<u64> {
        let Cpu { mmu, figures, .. } = &mut self.cpus[cpu];
        if !mmu.is_on() {
            return Some(address);
        }
        let translated = translated(figures, side);
        if let Some(physical) = mmu.last(address, side) {
            translated.l1 += 1;
            return Some(physical);
        }
        match mmu.translate(address, side, ram) {
            Found::First(physical) => {
                translated.l1 += 1;
                Some(physical)
            }
            Found::Second(physical) => {
                translated.l2 += 1;
                Some(physical)
            }
            Found::Walked(walked) => {
                translated.walks += 1;
                self.walked(cpu, &walked);
                walked.physical
            }
        }
    }

    /// Counts what a walk took, and has the data cache read what it read.
    fn walked(&mut self, cpu: usize, walked: &Walked) {
        let Figures { walk, events, .. } = &mut self.cpus[cpu].figures;
        events.rewalks += u64::from(walked.rewalk);
        events.unresolved += u64::from(walked.physical.is_none());
        events.skipped += u64::from(walked.skipped);
        events.contiguous += u64::from(walked.cached == CachedAs::Contiguous);
        events.coalesced += u64::from(walked.cached == CachedAs::Coalesced);
        let served = walk;
        let mut counts = Counts { served, events };
        for step in walked.walk.steps() {
            self.caches.data(cpu, step.at / LINE, false, &mut counts);
        }
    }

    /// A flush on one CPU.
    pub fn flush(&mut self, cpu: usize, flush: &Flush) {
        let Cpu { mmu, figures, .. } = &mut self.cpus[cpu];
        figures.events.flushes += 1;
        figures.events.flushed += mmu.flush(flush);
    }

    /// A flush that is broadcast to all CPUs (TLBI ...IS).
    pub fn flush_everywhere(&mut self, flush: &Flush) {
        for cpu in 0..self.cpus.len() {
            self.flush(cpu, flush);
        }
    }

    /// The counts of a CPU since the last [`Machine::reset`].
    pub fn figures(&self, cpu: usize) -> Figures {
        self.cpus[cpu].figures
    }

    /// Sets all counts to 0. What is cached stays.
    pub fn reset(&mut self) {
        for cpu in &mut self.cpus {
            cpu.figures = Figures::default();
        }
    }

    /// The MMU of a CPU, to look at.
    pub fn mmu(&self, cpu: usize) -> &Mmu {
        &self.cpus[cpu].mmu
    }

    /// The caches, to look at.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }
}

fn translated(figures: &mut Figures, side: Side) -> &mut Translated {
    match side {
        Side::Fetch => &mut figures.itlb,
        Side::Read | Side::Write => &mut figures.dtlb,
    }
}
