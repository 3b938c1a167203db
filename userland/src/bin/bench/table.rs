//! The operations by name, and what each needs of a machine.
use crate::meter::{Meter, Sample};
use crate::ops::{self, DOT, FILL, OF_2M, OF_64K};
use crate::{beside, children, copies, reach, replay, reshape, survivor, vmas};
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
    /// Why this kernel does not have it.
    pub absent: fn() -> Option<String>,
    /// Does it once.
    pub run: fn(&mut Meter) -> Result<Vec<Sample>>,
}

/// All of them, in the order in which they run.
pub const OPS: [Op; 32] = [
    op("fault", "the first write to each page", |m| {
        one(ops::fault(m, m.pages))
    }),
    op("remap", "mprotect of one page of each 2 MiB", |m| {
        one(ops::remap(m))
    }),
    op("munmap", "munmap of the region", |m| one(ops::unmap(m))).mapped(),
    op("fork", "the fork call in the parent", |m| {
        one(ops::fork(m, m.pages))
    })
    .mapped(),
    op("cow", "memset while a child lives", |m| {
        one(ops::cow(m, FILL))
    })
    .mapped(),
    op(
        "cow-byte",
        "one byte of each page while a child lives",
        |m| one(ops::cow(m, DOT)),
    )
    .mapped(),
    op("reuse", "memset after the child has ended", |m| {
        one(ops::reuse(m, FILL))
    })
    .mapped(),
    op(
        "reuse-byte",
        "one byte of each page after the child has ended",
        |m| one(ops::reuse(m, DOT)),
    )
    .mapped(),
    op("dontneed", "MADV_DONTNEED page by page", |m| {
        one(ops::dontneed(m))
    })
    .mapped(),
    op("mremap", "one mremap of the region", |m| {
        one(ops::mremap(m))
    })
    .mapped(),
    op("protect", "mprotect of the region to read-only", |m| {
        one(reshape::protect(m))
    })
    .mapped(),
    op(
        "unprotect",
        "mprotect of the region back to writable",
        |m| one(reshape::unprotect(m)),
    )
    .mapped(),
    op("collapse", "MADV_COLLAPSE of each 2 MiB", |m| {
        one(reshape::collapse(m))
    })
    .at(&BELOW_HUGE)
    .unless(reshape::no_collapse),
    op(
        "exit",
        "the end of a child with memory of its own until it is reaped, beyond exit-bare",
        |m| one(children::exit(m)),
    )
    .mapped(),
    op(
        "exit-bare",
        "the end of a child without memory of its own until it is reaped",
        |m| one(children::exit_bare(m)),
    )
    .at(&[4]),
    op(
        "fork-exec",
        "fork, execve of a program that does nothing, its end",
        |m| one(children::fork_exec(m)),
    )
    .mapped()
    .unless(children::no_program),
    op("reach", "reads at random over 64 MiB, for each", |m| {
        one(reach::run(m, m.pages))
    }),
    op(
        "replay",
        "the calls and first writes of a compiler's allocator, for each page written",
        |m| one(replay::run(m)),
    ),
    op(
        "vmas",
        "the first write to a page among 1 to 60,000 VMAs",
        vmas::run,
    )
    .at(&[4]),
    op("updates", "updates of the account by a fork", |m| {
        one(ops::updates(m))
    })
    .unless(|| (!on_quire()).then(|| "this kernel has no account".to_owned())),
    op(
        "survivor",
        "one byte of each page by the last of four processes that had them",
        survivor::run,
    ),
    op(
        "child-byte",
        "the whole life of a child that writes to each page",
        |m| one(ops::child_writes(m)),
    )
    .mapped()
    .on_request(),
    op(
        "cow-64k",
        "one byte of each 64 kB while a child lives, for each page written",
        |m| one(ops::cow(m, OF_64K)),
    )
    .mapped(),
    op(
        "cow-2m",
        "one byte of each 2 MiB while a child lives, for each page written",
        |m| one(ops::cow(m, OF_2M)),
    )
    .mapped(),
    op("fork1g", "the fork call in the parent, of 1 GiB", |m| {
        one(ops::fork(m, MANY))
    })
    .mapped()
    .large(),
    op("touch1g", "the first write to each page of 1 GiB", |m| {
        one(ops::fault(m, MANY))
    })
    .large(),
    op("reach1g", "reads at random over 1 GiB, for each", |m| {
        one(reach::run(m, MANY))
    })
    .at(&[4, 64, 2048])
    .large(),
    op(
        "beside",
        "first writes of a thread on each CPU, in 2 MiB each of one area",
        beside::run,
    )
    .crew(),
    op(
        "cow-seq",
        "copies by a process on each CPU of one inherited region, in order",
        |m| one(copies::run(m, copies::SEQUENTIAL)),
    )
    .mapped()
    .crew(),
    op(
        "cow-rand",
        "copies by a process on each CPU of one inherited region, at random",
        |m| one(copies::run(m, copies::RANDOM)),
    )
    .mapped()
    .crew(),
    op("maps", "reading maps, for each VMA", |m| {
        one(vmas::shown(m, "/proc/self/maps"))
    })
    .at(&[4])
    .on_request(),
    op("smaps", "reading smaps, for each VMA", |m| {
        one(vmas::shown(m, "/proc/self/smaps"))
    })
    .at(&[4])
    .on_request(),
];

const fn op(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Meter) -> Result<Vec<Sample>>,
) -> Op {
    Op {
        name,
        about,
        by_default: true,
        sizes: &SIZES,
        by_mapping: false,
        mib: 1024,
        cpus: &[1],
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
    const fn unless(self, absent: fn() -> Option<String>) -> Op {
        Op { absent, ..self }
    }
}

fn one(sample: Result<Sample>) -> Result<Vec<Sample>> {
    Ok(vec![sample?])
}
