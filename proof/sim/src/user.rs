//! A memory manager on a simulated machine, and user code on it.

use crate::machine::{FIRST, Options, Sim};
use mm::addr::{PAGE_SHIFT, PAGE_SIZE, PfnRange, PhysAddr, VirtAddr, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::check;
use mm::fault::{Access, Resolution};
use mm::frame::{Kind, table};
use mm::object::Object;
use mm::{AddressSpace, Handle};
use mm::{FrameMeta, Mm, PageCount};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A machine, a memory manager on it, and user-mode accesses.
pub struct World<F: PteFormat> {
    /// The machine.
    pub sim: Sim<F>,
    /// Its memory manager.
    pub mm: Shared<F>,
}

impl<F: PteFormat> Clone for World<F> {
    /// A second handle of the machine, for code that runs in pauses.
    fn clone(&self) -> Self {
        World {
            sim: self.sim.clone(),
            mm: Shared(self.mm.0.clone()),
        }
    }
}

/// A memory manager whose metadata is used again after its last user is gone.
pub struct Shared<F: PteFormat>(Option<Arc<Mm<Sim<F>>>>);

/// Metadata of dropped machines, to be used again: the memory manager takes it as `'static`.
static SPARE: Mutex<Vec<Metas>> = Mutex::new(Vec::new());

/// The metadata of a frame.
type Metas = (&'static mut [FrameMeta], &'static [PageCount]);

/// Metadata of `frames` frames, as at boot.
fn metas(frames: usize) -> Metas {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = spare.iter().position(|(metas, _)| metas.len() == frames) {
        let (metas, counts) = spare.swap_remove(at);
        metas.fill_with(FrameMeta::default);
        return (metas, counts);
    }
    let metas: Vec<FrameMeta> = (0..frames).map(|_| FrameMeta::default()).collect();
    let counts: Vec<PageCount> = (0..frames).map(|_| PageCount::default()).collect();
    (
        Box::leak(metas.into_boxed_slice()),
        Box::leak(counts.into_boxed_slice()),
    )
}

impl<F: PteFormat> Deref for Shared<F> {
    type Target = Arc<Mm<Sim<F>>>;
    fn deref(&self) -> &Arc<Mm<Sim<F>>> {
        self.0.as_ref().expect("it goes only with its world")
    }
}

impl<F: PteFormat> Drop for Shared<F> {
    fn drop(&mut self) {
        // A process may still have it, in a test that breaks off.
        if let Some(mm) = self.0.take().and_then(Arc::into_inner) {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(mm.into_metas());
        }
    }
}

/// An address space that is unloaded from every CPU before it is dropped, as in a kernel.
pub struct Process<F: PteFormat> {
    sim: Sim<F>,
    /// Until it has ended.
    space: Option<Handle<Sim<F>>>,
}

impl<F: PteFormat> Deref for Process<F> {
    type Target = AddressSpace<Sim<F>>;
    fn deref(&self) -> &AddressSpace<Sim<F>> {
        self.space.as_ref().expect("it has not ended")
    }
}

impl<F: PteFormat> Process<F> {
    /// Unmaps everything, in steps.
    pub fn end(&mut self) {
        self.leave_all();
        self.space = None;
    }
    fn leave_all(&self) {
        for cpu in 0..self.sim.options().cpus {
            self.sim.run_on(cpu);
            self.space.iter().for_each(|space| space.leave());
        }
    }
}

impl<F: PteFormat> Drop for Process<F> {
    fn drop(&mut self) {
        self.leave_all();
    }
}

impl<F: PteFormat> World<F> {
    /// Boots a memory manager: all of RAM belongs to the allocator.
    pub fn new(options: Options) -> Self {
        let sim = Sim::new(options);
        let memory = PfnRange::new(FIRST, FIRST + options.frames as u64);
        let slots = options.slots as u64;
        let (metas, counts) = metas(table::metas(memory, slots) as usize);
        let mm = Mm::new(sim.clone(), memory, metas, counts, &options.ram(), slots);
        World {
            sim,
            mm: Shared(Some(mm)),
        }
    }

    /// A process with nothing mapped.
    pub fn process(&self) -> Process<F> {
        self.adopt(Handle::new(&self.mm).expect("a fresh machine has memory"))
    }
    /// Makes a process of an address space.
    pub fn adopt(&self, space: Handle<Sim<F>>) -> Process<F> {
        Process {
            sim: self.sim.clone(),
            space: Some(space),
        }
    }

    /// Its pages were aged: their accessed bits may be gone.
    pub fn forget_accesses(&self, space: &AddressSpace<Sim<F>>) {
        let user = VirtRange::new(VirtAddr(0), F::USER_END);
        self.sim.forgive(space.root(), user, Attrs::ACCESSED);
    }

    /// A user's load of one byte, on `cpu`.
    pub fn load(
        &self,
        cpu: usize,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
    ) -> Result<u8, Resolution> {
        self.access(cpu, space, va, Access::Read, |at| self.sim.0.ram.byte(at))
    }
    /// A user's load of one byte, or the store of 0, on the first CPU. Who is `patient` makes room
    /// for folios ([`Resolution::Short`]); others have smaller ones, as all other accesses have.
    pub fn touch(
        &self,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
        write: bool,
        patient: bool,
    ) -> Result<(), Resolution> {
        let (ram, access) = match write {
            true => (&self.sim.0.ram, Access::Write),
            false => (&self.sim.0.ram, Access::Read),
        };
        self.access_as(0, space, va, access, patient, |at| match write {
            true => ram.set_byte(at, 0),
            false => _ = ram.byte(at),
        })
    }
    /// A user's store of one byte, on `cpu`.
    pub fn store(
        &self,
        cpu: usize,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
        byte: u8,
    ) -> Result<(), Resolution> {
        self.access(cpu, space, va, Access::Write, |at| {
            self.sim.0.ram.set_byte(at, byte)
        })
    }
    /// A user's instruction fetch, on `cpu`.
    pub fn fetch(
        &self,
        cpu: usize,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
    ) -> Result<u8, Resolution> {
        self.access(cpu, space, va, Access::Exec, |at| self.sim.0.ram.byte(at))
    }

    fn access<R>(
        &self,
        cpu: usize,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
        access: Access,
        f: impl Fn(PhysAddr) -> R,
    ) -> Result<R, Resolution> {
        match self.access_as(cpu, space, va, access, true, &f) {
            Err(Resolution::Short(_)) => self.access_as(cpu, space, va, access, false, &f),
            result => result,
        }
    }

    fn access_as<R>(
        &self,
        cpu: usize,
        space: &AddressSpace<Sim<F>>,
        va: VirtAddr,
        access: Access,
        patient: bool,
        f: impl Fn(PhysAddr) -> R,
    ) -> Result<R, Resolution> {
        self.sim.run_on(cpu);
        space.activate();
        // One fault maps the page, one more sets a bit, another may meet a stale entry: ten in a
        // row is a fault loop, unless other CPUs change the page meanwhile.
        let most = match self.sim.0.threads.are_several() {
            true => 10_000,
            false => 10,
        };
        for _ in 0..most {
            match self.sim.instruction(cpu, va, access, &f) {
                Ok(result) => return Ok(result),
                Err(fault) if fault.by_key => return Err(Resolution::Denied),
                Err(_) => {}
            }
            let resolution = match patient {
                true => space.fault(va, access),
                false => space.fault_anyhow(va, access),
            };
            match resolution {
                Resolution::Done => {}
                why => space.wait_patiently(why, patient)?,
            }
        }
        panic!("{access:?} of {va:?} faults for ever");
    }

    /// [`check::all`], and every TLB against the tables. `spaces` are all address spaces, `objects`
    /// those that no VMA maps.
    pub fn check(&self, spaces: &[&AddressSpace<Sim<F>>], objects: &[&Arc<Object<Sim<F>>>]) {
        check::all(&self.mm, spaces, Some(objects), 0);
        self.check_tlbs(spaces);
    }

    /// Checks what holds at rest ([`Sim::settle`]), and each page of every TLB entry against the
    /// tables of its space. Entries of a tag without an owner would be harmless until the tag is
    /// used again; `retire_asid` has flushed it, so there must be none.
    pub fn check_tlbs(&self, spaces: &[&AddressSpace<Sim<F>>]) {
        let frames = self.mm.frames();
        self.sim
            .settle(|pfn| frames.get(frames.head(pfn)).kind() == Kind::Anon);
        for (cpu, cached) in self.sim.cached() {
            let space = if cached.asid.0 == 0 {
                let root = self.sim.root(cpu).map(|(root, _)| root);
                spaces.iter().find(|s| Some(s.root()) == root)
            } else {
                spaces.iter().find(|s| s.asid() == cached.asid)
            };
            let space = space.unwrap_or_else(|| {
                panic!("missed flush: CPU {cpu} holds {cached:?} of a space that is gone")
            });
            for page in 0..cached.bytes >> PAGE_SHIFT {
                let va = cached.va + page * PAGE_SIZE;
                check::translation(space, va, cached.pfn + page, cached.attrs);
            }
        }
    }
}
