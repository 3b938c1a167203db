//! The operations by name, and what each needs of a machine.
use crate::meter::{Meter, Sample};
use crate::ops::{self, DOT, FILL, OF_2M, OF_64K};
use crate::swap::{self, Contents};
use crate::{beside, children, copies, reach, replay, reshape, survivor, vmas, zram};
use Run::{Once, Several};
use userland::counters::on_quire;
use userland::measuring::SIZES;
use userland::sys::Result;

/// Those below 2 MiB.
const BELOW_HUGE: [usize; 8] = [4, 16, 32, 64, 128, 256, 512, 1024];
/// Pages of 64 MiB.
pub const PAGES: usize = 16384;
/// Pages of 1 GiB.
const MANY: usize = 1 << 18;

/// An operation.
#[derive(Clone, Copy)]
pub struct Op {
    pub name: &'static str,
    /// What is measured.
    pub about: &'static str,
    pub by_default: bool,
    /// The folio sizes in kB at which it is measured.
    pub sizes: &'static [usize],
    /// Whether it matters how a folio of 2 MiB is mapped.
    pub by_mapping: bool,
    /// MiB that the machine needs.
    pub mib: usize,
    /// The numbers of CPUs at which it is measured.
    pub cpus: &'static [usize],
    /// Whether it needs a swap area.
    pub swaps: bool,
    /// Why this kernel does not have it.
    pub absent: fn() -> Option<String>,
    /// Does it once.
    pub run: Run,
}

/// How an operation is done.
#[derive(Clone, Copy)]
pub enum Run {
    /// For one sample.
    Once(fn(&mut Meter) -> Result<Sample>),
    /// For a sample of each of its variants.
    Several(fn(&mut Meter) -> Result<Vec<Sample>>),
}

impl Op {
    /// Does it once: its samples.
    pub fn run(&self, meter: &mut Meter) -> Result<Vec<Sample>> {
        match self.run {
            Once(run) => Ok(vec![run(meter)?]),
            Several(run) => run(meter),
        }
    }
}

/// All of them, in the order in which they run.
pub const OPS: [Op; 38] = [
    op(
        "fault",
        "the first write to each page",
        Once(|m| ops::fault(m, m.pages)),
    ),
    op(
        "remap",
        "mprotect of one page of each 2 MiB",
        Once(ops::remap),
    ),
    op("munmap", "munmap of the region", Once(ops::unmap)).mapped(),
    op(
        "fork",
        "the fork call in the parent",
        Once(|m| ops::fork(m, m.pages)),
    )
    .mapped(),
    op(
        "cow",
        "memset while a child lives",
        Once(|m| ops::cow(m, FILL)),
    )
    .mapped(),
    op(
        "cow-byte",
        "one byte of each page while a child lives",
        Once(|m| ops::cow(m, DOT)),
    )
    .mapped(),
    op(
        "reuse",
        "memset after the child has ended",
        Once(|m| ops::reuse(m, FILL)),
    )
    .mapped(),
    op(
        "reuse-byte",
        "one byte of each page after the child has ended",
        Once(|m| ops::reuse(m, DOT)),
    )
    .mapped(),
    op(
        "dontneed",
        "MADV_DONTNEED page by page",
        Once(ops::dontneed),
    )
    .mapped(),
    op("mremap", "one mremap of the region", Once(ops::mremap)).mapped(),
    op(
        "protect",
        "mprotect of the region to read-only",
        Once(reshape::protect),
    )
    .mapped(),
    op(
        "unprotect",
        "mprotect of the region back to writable",
        Once(reshape::unprotect),
    )
    .mapped(),
    op(
        "collapse",
        "MADV_COLLAPSE of each 2 MiB",
        Once(reshape::collapse),
    )
    .at(&BELOW_HUGE)
    .unless(reshape::no_collapse),
    op(
        "compact",
        "all memory compacted, of which a part is free in 192 kB each, for each page moved",
        Once(reshape::compact),
    )
    .at(&[4, 64])
    .on_request(),
    op(
        "exit",
        "the end of a child with memory of its own until it is reaped, beyond exit-bare",
        Once(children::exit),
    )
    .mapped(),
    op(
        "exit-bare",
        "the end of a child without memory of its own until it is reaped",
        Once(children::exit_bare),
    )
    .at(&[4]),
    op(
        "fork-exec",
        "fork, execve of a program that does nothing, its end",
        Once(children::fork_exec),
    )
    .mapped()
    .unless(children::no_program),
    op(
        "reach",
        "reads at random over 64 MiB, for each",
        Once(|m| reach::run(m, m.pages)),
    ),
    op(
        "replay",
        "the calls and first writes of a compiler's allocator, for each page written",
        Once(replay::run),
    ),
    op(
        "vmas",
        "the first write to a page among 1 to 60,000 VMAs",
        Several(vmas::run),
    )
    .at(&[4]),
    op(
        "updates",
        "updates of the account by a fork",
        Once(ops::updates),
    )
    .unless(|| (!on_quire()).then(|| "this kernel has no account".to_owned())),
    op(
        "survivor",
        "one byte of each page by the last of four processes that had them",
        Several(survivor::run),
    ),
    op(
        "child-byte",
        "the whole life of a child that writes to each page",
        Once(ops::child_writes),
    )
    .mapped()
    .on_request(),
    op(
        "cow-64k",
        "one byte of each 64 kB while a child lives, for each page written",
        Once(|m| ops::cow(m, OF_64K)),
    )
    .mapped(),
    op(
        "cow-2m",
        "one byte of each 2 MiB while a child lives, for each page written",
        Once(|m| ops::cow(m, OF_2M)),
    )
    .mapped(),
    op(
        "fork1g",
        "the fork call in the parent, of 1 GiB",
        Once(|m| ops::fork(m, MANY)),
    )
    .mapped()
    .large(),
    op(
        "touch1g",
        "the first write to each page of 1 GiB",
        Once(|m| ops::fault(m, MANY)),
    )
    .large(),
    op(
        "reach1g",
        "reads at random over 1 GiB, for each",
        Once(|m| reach::run(m, MANY)),
    )
    .at(&[4, 64, 2048])
    .large(),
    op(
        "beside",
        "first writes of a thread on each CPU, in 2 MiB each of one area",
        Several(beside::run),
    )
    .crew(),
    op(
        "cow-seq",
        "copies by a process on each CPU of one inherited region, in order",
        Once(|m| copies::run(m, copies::SEQUENTIAL)),
    )
    .mapped()
    .crew(),
    op(
        "cow-rand",
        "copies by a process on each CPU of one inherited region, at random",
        Once(|m| copies::run(m, copies::RANDOM)),
    )
    .mapped()
    .crew(),
    op(
        "maps",
        "reading maps, for each VMA",
        Once(|m| vmas::shown(m, "/proc/self/maps")),
    )
    .at(&[4])
    .on_request(),
    op(
        "smaps",
        "reading smaps, for each VMA",
        Once(|m| vmas::shown(m, "/proc/self/smaps")),
    )
    .at(&[4])
    .on_request(),
    op(
        "pageout",
        "MADV_PAGEOUT of the region, pages half of text and half random",
        Once(|m| swap::pageout(m, Contents::Mixed)),
    )
    .mapped()
    .swapped(),
    op(
        "pageout-same",
        "MADV_PAGEOUT of the region, all bytes the same",
        Once(|m| swap::pageout(m, Contents::Same)),
    )
    .mapped()
    .swapped(),
    op(
        "refault",
        "a read of each page after pageout, in order",
        Once(|m| swap::refault(m, Contents::Mixed)),
    )
    .mapped()
    .swapped(),
    op(
        "refault-same",
        "a read of each page after pageout-same, in order",
        Once(|m| swap::refault(m, Contents::Same)),
    )
    .mapped()
    .swapped(),
    op(
        "refault-rand",
        "a read of one page in 16 after pageout, at random, for each page read",
        Once(swap::sparse),
    )
    .mapped()
    .swapped(),
];

const fn op(name: &'static str, about: &'static str, run: Run) -> Op {
    Op {
        name,
        about,
        by_default: true,
        sizes: &SIZES,
        by_mapping: false,
        mib: 1024,
        cpus: &[1],
        swaps: false,
        absent: || None,
        run,
    }
}

impl Op {
    const fn on_request(self) -> Op {
        Op {
            by_default: false,
            ..self
        }
    }
    const fn large(self) -> Op {
        Op {
            mib: 2048,
            ..self.on_request()
        }
    }
    const fn crew(self) -> Op {
        Op {
            cpus: &[1, 2, 4, 8],
            ..self.on_request()
        }
    }
    const fn at(self, sizes: &'static [usize]) -> Op {
        Op { sizes, ..self }
    }
    const fn mapped(self) -> Op {
        Op {
            by_mapping: true,
            ..self
        }
    }
    const fn swapped(self) -> Op {
        Op {
            swaps: true,
            absent: zram::none,
            ..self.on_request()
        }
    }
    const fn unless(self, absent: fn() -> Option<String>) -> Op {
        Op { absent, ..self }
    }
}
