//! The same calls as the memory manager does them.

use super::{Area, Kind, PAGES, Remap, Step, linux};
use arch_sim::{Options, Process, Sim, World};
use arch_x86_64::pte::Format;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::{Attrs, Key};
use mm::object::Object;
use mm::vma::{Backing, Prot, Vma, VmaFlags};
use mm::{Advice, Error, MapRequest, Place, RemapFlags};

type Machine = Sim<Format>;

const BASE: u64 = 0x4000_0000;
/// One past the pages that are compared, as on Linux.
const END: u64 = BASE + 2 * PAGES * PAGE_SIZE;

pub(crate) struct Ours {
    world: World<Format>,
    /// The last is the one that runs; the others are its parents.
    processes: Vec<Process<Format>>,
}

fn at(page: u64) -> VirtAddr {
    VirtAddr(BASE + page * PAGE_SIZE)
}

fn prot(bits: i32) -> Prot {
    Prot::from_bits_truncate(bits as u8)
}

impl Ours {
    pub(crate) fn new() -> Self {
        let world = World::new(Options::default());
        let first = world.process();
        Ours {
            world,
            processes: vec![first],
        }
    }
    fn process(&self) -> &Process<Format> {
        self.processes.last().expect("there is one")
    }
    pub(crate) fn fork(&mut self) {
        let child = self.process().fork().expect("memory for a child");
        self.processes.push(self.world.adopt(child));
    }

    fn map(&self, page: u64, len: u64, bits: i32, kind: Kind) -> Result<(), Error> {
        let flags = match kind {
            Kind::Private | Kind::Populated => VmaFlags::empty(),
            Kind::Shared => VmaFlags::SHARED,
            Kind::NoReserve => VmaFlags::NORESERVE,
            Kind::Stack => VmaFlags::GROWSDOWN,
            Kind::Locked => VmaFlags::LOCKED,
        };
        let request = MapRequest {
            place: Place::Fixed(at(page)),
            len: len * PAGE_SIZE,
            prot: prot(bits),
            flags,
            backing: match kind {
                Kind::Shared => self.object(len),
                _ => Backing::Anon,
            },
            populate: matches!(kind, Kind::Populated | Kind::Locked),
        };
        self.process().map(request).map(drop)
    }
    fn object(&self, pages: u64) -> Backing<Machine> {
        let object = Object::new(&self.world.mm);
        object.set_len(pages * PAGE_SIZE);
        Backing::Object {
            object: object.into(),
            offset: 0,
            file: None,
        }
    }

    pub(crate) fn run(&self, step: &Step) -> Result<Vec<u8>, i32> {
        let (p, w) = (self.process(), &self.world);
        let done = match *step {
            Step::Map(page, len, bits, kind) => self.map(page, len, bits, kind),
            Step::MapNoReplace(page, len) => p
                .map(MapRequest {
                    place: Place::FixedNoReplace(at(page)),
                    len: len * PAGE_SIZE,
                    prot: prot(libc::PROT_READ | libc::PROT_WRITE),
                    flags: VmaFlags::empty(),
                    backing: Backing::Anon,
                    populate: false,
                })
                .map(drop),
            Step::Unmap(page, len) => p.unmap(at(page), len * PAGE_SIZE),
            Step::Protect(page, len, bits) => p.protect(at(page), len * PAGE_SIZE, prot(bits)),
            Step::ProtectWithKey(page, len, bits, key) => {
                // -1: none.
                let key = u8::try_from(key).ok().map(Key);
                p.protect_with_key(at(page), len * PAGE_SIZE, prot(bits), key)
            }
            Step::AllocateKey => {
                let key = p.allocate_key().map(|key| vec![key.0]);
                return key.ok_or(libc::ENOSPC);
            }
            Step::FreeKey(key) => p.free_key(Key(key as u8)),
            Step::Advise(page, len, n) => p.advise(at(page), len * PAGE_SIZE, advice(n)),
            Step::Lock(page, len, on_fault) => p.mlock(at(page), len * PAGE_SIZE, true, on_fault),
            Step::Unlock(page, len) => p.mlock(at(page), len * PAGE_SIZE, false, false),
            Step::Seal(page, len) => p.seal(at(page), len * PAGE_SIZE),
            Step::Read(page) => return w.load(0, p, at(page)).map(|b| vec![b]).map_err(|_| 0),
            Step::Write(page, byte) => {
                return w
                    .store(0, p, at(page), byte)
                    .map(|_| Vec::new())
                    .map_err(|_| 0);
            }
            Step::Remap(remap) => {
                let result = self.remap(&remap);
                self.check();
                return result.map_err(errno);
            }
            Step::InMemory(page, len) => {
                let mut pages = vec![0; len as usize];
                let done = p.mincore(at(page), &mut pages);
                return done.map(|()| pages).map_err(errno);
            }
            Step::Fork => Ok(()),
        };
        if let Step::Advise(page, len, libc::MADV_COLD | libc::MADV_PAGEOUT) = *step {
            let range = VirtRange::new(at(page), at(page + len));
            w.sim.forgive(p.root(), range, Attrs::ACCESSED);
        }
        self.check();
        done.map(|()| Vec::new()).map_err(errno)
    }

    fn check(&self) {
        let spaces: Vec<_> = self.processes.iter().map(|p| &**p).collect();
        self.world.check(&spaces, &[]);
    }

    /// Where the memory is: its page, or nothing if it had gone elsewhere.
    fn remap(&self, remap: &Remap) -> Result<Vec<u8>, Error> {
        let to = at(remap.to);
        let flags = RemapFlags::from_bits_truncate(remap.flags as u32);
        let (old_len, new_len) = (remap.old_len * PAGE_SIZE, remap.new_len * PAGE_SIZE);
        let now = self.process().remap(
            at(remap.at),
            old_len,
            new_len,
            flags,
            to,
            &mut Default::default(),
        )?;
        if (at(0)..at(2 * PAGES)).contains(&now) {
            return Ok(vec![((now.0 - BASE) / PAGE_SIZE) as u8]);
        }
        let p = self.process();
        let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
        p.remap(now, new_len, new_len, flags, to, &mut Default::default())?;
        Ok(Vec::new())
    }

    pub(crate) fn areas(&self) -> Vec<Area> {
        let mut out = Vec::new();
        self.process().for_each_vma(&mut |vma| {
            // What had gone elsewhere and could not be brought back is not compared.
            if vma.range.start.0 >= END {
                return;
            }
            let letter =
                |bit: Prot, letter: char| if vma.prot.contains(bit) { letter } else { '-' };
            let prot = [
                letter(Prot::READ, 'r'),
                letter(Prot::WRITE, 'w'),
                letter(Prot::EXEC, 'x'),
                if vma.shared() { 's' } else { 'p' },
            ];
            out.push((
                (vma.range.start.0 - BASE) / PAGE_SIZE,
                vma.range.pages(),
                prot.iter().collect(),
                flag_words(vma),
            ));
        });
        out
    }
}

/// VmFlags in the order of Linux's bits, as /proc shows them.
fn flag_words(vma: &Vma<Machine>) -> String {
    let (prot, flags, shared) = (vma.prot, vma.flags, vma.shared());
    let words = [
        (prot.contains(Prot::READ), "rd"),
        (prot.contains(Prot::WRITE), "wr"),
        (prot.contains(Prot::EXEC), "ex"),
        (shared, "sh"),
        (true, "mr mw me"),
        (shared, "ms"),
        (flags.contains(VmaFlags::GROWSDOWN), "gd"),
        (flags.contains(VmaFlags::LOCKED), "lo"),
        (flags.contains(VmaFlags::SEQUENTIAL), "sr"),
        (flags.contains(VmaFlags::RANDOM), "rr"),
        (flags.contains(VmaFlags::DONTFORK), "dc"),
        (flags.contains(VmaFlags::LOCKONFAULT), "lf"),
        (flags.contains(VmaFlags::ACCOUNT), "ac"),
        (flags.contains(VmaFlags::NORESERVE), "nr"),
        (flags.contains(VmaFlags::WIPEONFORK), "wf"),
        (flags.contains(VmaFlags::DONTDUMP), "dd"),
        (flags.contains(VmaFlags::HUGEPAGE), "hg"),
        (flags.contains(VmaFlags::NOHUGEPAGE), "nh"),
        (flags.contains(VmaFlags::SEALED), "sl"),
    ];
    let mut shown: Vec<_> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
    let key = prot.key().0.to_string();
    if linux::has_keys() {
        shown.push(&key);
    }
    shown.join(" ")
}

fn errno(error: Error) -> i32 {
    match error {
        Error::Inval => libc::EINVAL,
        Error::NoMem => libc::ENOMEM,
        Error::Exist => libc::EEXIST,
        Error::Acces => libc::EACCES,
        Error::Again => libc::EAGAIN,
        Error::Fault => libc::EFAULT,
        Error::Perm => libc::EPERM,
        Error::Interrupted => libc::EINTR,
        Error::NoEnt => libc::ENOENT,
        Error::Busy => libc::EBUSY,
        Error::HwPoison => libc::EHWPOISON,
    }
}

fn advice(number: i32) -> Advice {
    match number {
        libc::MADV_NORMAL => Advice::Normal,
        libc::MADV_RANDOM => Advice::Random,
        libc::MADV_SEQUENTIAL => Advice::Sequential,
        libc::MADV_WILLNEED => Advice::WillNeed,
        libc::MADV_DONTNEED => Advice::DontNeed,
        libc::MADV_DONTNEED_LOCKED => Advice::DontNeedLocked,
        libc::MADV_FREE => Advice::Free,
        libc::MADV_REMOVE => Advice::Remove,
        libc::MADV_DONTFORK => Advice::DontFork,
        libc::MADV_DOFORK => Advice::DoFork,
        libc::MADV_WIPEONFORK => Advice::WipeOnFork,
        libc::MADV_KEEPONFORK => Advice::KeepOnFork,
        libc::MADV_DONTDUMP => Advice::DontDump,
        libc::MADV_DODUMP => Advice::DoDump,
        libc::MADV_HUGEPAGE => Advice::HugePage,
        libc::MADV_NOHUGEPAGE => Advice::NoHugePage,
        libc::MADV_COLD => Advice::Cold,
        libc::MADV_PAGEOUT => Advice::PageOut,
        libc::MADV_POPULATE_READ => Advice::PopulateRead,
        libc::MADV_POPULATE_WRITE => Advice::PopulateWrite,
        other => panic!("advice {other} is not tried"),
    }
}
