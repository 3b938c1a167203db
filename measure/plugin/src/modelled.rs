//! The model, if there is one: what it is told of, and when.
use crate::abi::{Access, Instruction, Sees};
use crate::turns;
use crate::{RUN, locked};
use counts::Arch;
use counts::insn::{Effect, bulk, gpr_name};
use counts::lines::LINE;
use counts::model::{Model, RamFile};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A model, and what is needed to feed it.
pub struct Modelled {
    arch: Arch,
    model: Mutex<Model>,
    /// The effects that were translated so far; callbacks have their places.
    effects: Mutex<Vec<Effect>>,
    /// Whether accesses and fetches count: from the first mark on.
    begun: AtomicBool,
}

impl Modelled {
    /// Of a core.
    pub fn new(
        arch: Arch,
        core: models::Preset,
        ram: RamFile,
        cpus: usize,
    ) -> Result<Modelled, String> {
        let model = Model::new(core, cpus, ram);
        Ok(Modelled {
            arch,
            model: Mutex::new(model.map_err(|error| error.to_string())?),
            effects: Mutex::default(),
            begun: AtomicBool::new(false),
        })
    }

    /// A measurement begins.
    pub fn begin(&self) {
        locked(&self.model).begin();
        self.begun.store(true, Relaxed);
    }

    /// What a CPU did in it.
    pub fn figures(&self, cpu: usize, instructions: u64) -> BTreeMap<String, u64> {
        let figures = locked(&self.model).figures(cpu, instructions);
        figures.into_iter().collect()
    }

    /// Whether accesses and fetches count.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// An access was done, at this physical address if that is RAM.
    pub fn access(&self, cpu: usize, access: &Access, address: u64, physical: Option<u64>) {
        let access = models::Access {
            address,
            bytes: access.bytes() as u32,
            write: access.is_store(),
            physical,
            device: physical.is_none(),
        };
        locked(&self.model).access(cpu, access);
    }

    /// A CPU touches memory of one page by an instruction whose accesses QEMU does not report.
    pub fn bulk(&self, cpu: usize, run: bulk::Run) {
        if self.has_begun() {
            locked(&self.model).bulk(cpu, run);
        }
    }

    /// Adds what the model needs of an instruction; `line` is the line of code that the block has
    /// fetched last.
    pub fn translate(&self, instruction: &Instruction<'_>, bytes: &[u8], line: &mut u64) {
        let pc = instruction.pc();
        let last = pc + bytes.len() as u64 - 1;
        if *line != last / LINE {
            // Five bits have the size, at most 16; the address has 57 significant ones at most.
            instruction.on_execution(Sees::Nothing, fetch, pc << 5 | bytes.len() as u64);
            *line = last / LINE;
        }
        if let Some(effect) = Effect::of(self.arch, bytes, pc) {
            instruction.on_execution(Sees::Registers, change, self.place(effect) as u64);
        }
    }

    fn place(&self, effect: Effect) -> usize {
        let mut effects = locked(&self.effects);
        effects
            .iter()
            .position(|known| *known == effect)
            .unwrap_or_else(|| {
                effects.push(effect);
                effects.len() - 1
            })
    }
}

/// The model of this run, and the CPU that executes.
fn modelled(cpu: c_uint) -> Option<(&'static Modelled, usize)> {
    let run = RUN.get()?;
    Some((run.model.as_ref()?, run.cpu(cpu)))
}

/// The same from the first mark on.
fn begun(cpu: c_uint) -> Option<(&'static Modelled, usize)> {
    modelled(cpu).filter(|(modelled, _)| modelled.has_begun())
}

/// A line of code is fetched.
extern "C" fn fetch(cpu: c_uint, word: *mut c_void) {
    let Some((modelled, cpu)) = begun(cpu) else {
        return;
    };
    let word = word.addr() as u64;
    // The bits above the address are copies of its highest one.
    let address = (word as i64 >> 5) as u64;
    locked(&modelled.model).fetch(cpu, address, word as u32 & 0x1f);
}

/// An instruction changes how addresses are translated, before it does.
extern "C" fn change(cpu: c_uint, place: *mut c_void) {
    let Some((modelled, cpu)) = modelled(cpu) else {
        return;
    };
    let effect = locked(&modelled.effects)[place.addr()];
    let read = |gpr| turns::register(&gpr_name(modelled.arch, gpr));
    if let Some(change) = effect.change(read) {
        locked(&modelled.model).change(cpu, &change);
    }
}
