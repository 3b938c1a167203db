//! Memory that is zeroed, set or copied by one instruction, of which QEMU reports no accesses.
use crate::RUN;
use crate::abi::{Instruction, Sees};
use crate::run::Run;
use crate::turns;
use measure::Arch;
use measure::insn::bulk::{self, Block, Bulk};
use measure::insn::{aarch64, gpr_name};
use measure::lines::Place;
use models::Roots;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// Those that were translated so far, and how much DC ZVA zeroes.
#[derive(Default)]
pub struct Bulks(Mutex<(Vec<(Bulk, u64)>, Block)>);

impl Bulks {
    /// Adds what such an instruction needs.
    pub fn translate(&self, arch: Arch, instruction: &Instruction<'_>, bytes: &[u8]) {
        let bulk = match arch {
            Arch::Aarch64 => aarch64::word(bytes).and_then(Bulk::of),
            Arch::X86_64 => None,
        };
        if let Some(bulk) = bulk {
            let place = self.place((bulk, instruction.pc()));
            instruction.on_execution(Sees::Registers, executed, place as u64);
        }
    }

    fn place(&self, bulk: (Bulk, u64)) -> usize {
        let (known, _) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .position(|one| *one == bulk)
            .unwrap_or_else(|| {
                known.push(bulk);
                known.len() - 1
            })
    }

    /// What it touches, in pages, and its address.
    fn runs(&self, place: usize, arch: Arch) -> (Vec<bulk::Run>, u64) {
        let (known, block) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (bulk, pc) = known[place];
        let runs = bulk.runs(|gpr| turns::register(&gpr_name(arch, gpr)), block);
        let pages = runs.into_iter().flat_map(bulk::Run::pages);
        (pages.collect(), pc)
    }
}

/// Before the execution of such an instruction.
extern "C" fn executed(cpu: c_uint, place: *mut c_void) {
    let Some(run) = RUN.get() else {
        return;
    };
    let cpu = run.cpu(cpu);
    let (pages, pc) = run.bulks.runs(place.addr(), run.arch);
    for page in pages {
        if let Some(model) = &run.model {
            model.bulk(cpu, page);
        }
        if run.keeps_lines() && run.is_open() {
            touch(run, cpu, page, pc);
        }
    }
}

/// Notes the lines, where guest memory is there to look up their physical address.
fn touch(run: &Run, cpu: usize, page: bulk::Run, pc: u64) {
    let roots = Roots::Aarch64 {
        ttbr0: turns::register("TTBR0_EL1"),
        ttbr1: turns::register("TTBR1_EL1"),
        tcr: turns::register("TCR_EL1"),
    };
    let ram = run.ram.as_ref();
    let Some(physical) = ram.and_then(|ram| ram.translate(&roots, page.address)) else {
        return;
    };
    let address = page.address;
    run.touch(cpu, |lines| {
        lines.touch(physical, page.bytes, page.write, Place { address, pc });
    });
}
