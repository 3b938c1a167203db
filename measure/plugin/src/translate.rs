//! What is added to an instruction when it is translated.
use crate::abi::{Access, Block, Direction, Id, Instruction, Sees};
use crate::run::Run;
use crate::{RUN, turns};
use counts::Arch;
use counts::counts::{Counter, Counts, Mode};
use counts::insn::{Atomic, bulk};
use counts::lines::Place;
use counts::marks;
use models::Roots;
use std::ffi::{c_uint, c_void};

/// QEMU's callback for a block.
pub extern "C" fn block(_: Id, block: Block) {
    let Some(run) = RUN.get() else {
        return;
    };
    let turns = run.find_turns();
    if let (Some(turns), Some(first)) = (turns, block.instructions().next()) {
        turns.translate(&block, Mode::of(first.pc()));
    }
    let mut line = u64::MAX;
    for instruction in block.instructions() {
        one(run, &instruction, &mut line);
    }
}

fn one(run: &Run, instruction: &Instruction<'_>, line: &mut u64) {
    let pc = instruction.pc();
    let mode = Mode::of(pc);
    let mut buffer = [0; 16];
    let bytes = instruction.bytes(&mut buffer);
    let atomic = Atomic::of(run.arch, bytes);

    // Before the callbacks: the counters include the store of a mark when that is seen.
    count(run, instruction, mode, atomic);
    if run.watches() {
        instruction.on_access(own_accesses(atomic), Sees::Nothing, access, pc);
    } else if mode == Mode::User {
        instruction.on_access(Direction::Stores, Sees::Nothing, user_store, pc);
    }
    if run.pages.is_some() && mode == Mode::User {
        instruction.on_access(own_accesses(atomic), Sees::Registers, page, pc);
    }
    if run.watches()
        && let Some(place) = run.bulks.place(run.arch, bytes, pc)
    {
        instruction.on_execution(Sees::Registers, executed, place as u64);
    }
    if let Some(model) = &run.model {
        model.translate(instruction, bytes, line);
    }
}

/// The accesses that are the program's: what an exclusive store reads is the emulator's doing.
fn own_accesses(atomic: Atomic) -> Direction {
    match atomic {
        Atomic::ExclusiveStore => Direction::Stores,
        _ => Direction::Both,
    }
}

/// Adds what counts an instruction and its accesses.
fn count(run: &Run, instruction: &Instruction<'_>, mode: Mode, atomic: Atomic) {
    let turns = run.turns().is_some();
    let count = |counter| match turns {
        true => turns::count(instruction, mode, counter),
        false => instruction.count(run.counts.counter(Counts::offset(mode, counter))),
    };
    let count_accesses = |direction, counter| match turns {
        true => turns::count_accesses(instruction, direction, mode, counter),
        false => {
            let counter = run.counts.counter(Counts::offset(mode, counter));
            instruction.count_accesses(direction, counter);
        }
    };
    count(Counter::Instructions);
    if atomic != Atomic::No {
        count(Counter::Atomics);
    }
    if own_accesses(atomic) == Direction::Both {
        count_accesses(Direction::Loads, Counter::Loads);
    }
    count_accesses(Direction::Stores, Counter::Stores);
}

/// A store by a user program: maybe a mark.
extern "C" fn user_store(cpu: c_uint, access: Access, address: u64, _: *mut c_void) {
    if marks::is_in_page(address)
        && let Some(run) = RUN.get()
    {
        mark(run, cpu, &access, address);
    }
}

fn mark(run: &Run, cpu: c_uint, access: &Access, address: u64) {
    if let Some(value) = access.word() {
        run.mark(run.cpu(cpu), address - marks::ADDRESS, value);
    }
}

/// An access: a mark, or one for the CPU's lines and the model.
extern "C" fn access(cpu: c_uint, access: Access, address: u64, pc: *mut c_void) {
    let Some(run) = RUN.get() else {
        return;
    };
    let pc = pc.addr() as u64;
    if marks::is_in_page(address) {
        if Mode::of(pc) == Mode::User && access.is_store() {
            mark(run, cpu, &access, address);
        }
        return;
    }
    let keeps_lines = run.keeps_lines() && run.is_open();
    let model = run.model.as_ref().filter(|model| model.has_begun());
    if !keeps_lines && model.is_none() {
        return;
    }
    // A look into QEMU's TLB, once for both.
    let (cpu, physical) = (run.cpu(cpu), access.physical(address));
    if let Some(physical) = physical.filter(|_| keeps_lines) {
        let place = Place { address, pc };
        run.touch(cpu, |lines| {
            lines.touch(physical, access.bytes(), access.is_store(), place);
        });
    }
    if let Some(model) = model {
        model.access(cpu, &access, address, physical);
    }
}

/// An access by a user program, for the stream of pages.
extern "C" fn page(_: c_uint, access: Access, address: u64, _: *mut c_void) {
    if let Some(run) = RUN.get() {
        let name = match run.arch {
            Arch::X86_64 => "cr3",
            Arch::Aarch64 => "TTBR0_EL1",
        };
        // Without its tag, which changes.
        let root = || turns::register(name) & 0xffff_ffff_f000;
        run.page(address >> 12, access.is_store(), root);
    }
}

/// Before the execution of an instruction that touches more than QEMU reports.
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
