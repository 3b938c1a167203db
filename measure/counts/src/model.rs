//! A model of the hardware, fed with what the guest does; guest memory for its walks.
use crate::Arch;
use crate::insn::Change;
use crate::insn::aarch64::{Tlbi, What};
use crate::insn::bulk::Run;
use models::estimate::cycles;
use models::walk::walk;
use models::{Access, Flush, Machine, Preset, Ram, Roots, Tables};

/// Guest memory, as the file that QEMU shares (`-object memory-backend-file,share=on`).
pub struct RamFile {
    file: Box<dyn Ram + Send + Sync>,
    arch: Arch,
    bytes: u64,
}

/// Where q35's memory has its hole for devices, and how much it has at least to have less below:
/// from QEMU's memory map, as the guest's firmware describes it.
const HOLE: [u64; 2] = [0x8000_0000, 0xb000_0000];
/// Where memory begins on `virt`.
const VIRT: u64 = 0x4000_0000;

impl RamFile {
    /// Of a machine `q35` or `virt`; `file` has so many bytes, and its addresses are offsets.
    pub fn new(arch: Arch, bytes: u64, file: Box<dyn Ram + Send + Sync>) -> RamFile {
        RamFile { file, arch, bytes }
    }
}

/// Where a physical address is in `bytes` of memory.
fn offset(arch: Arch, bytes: u64, physical: u64) -> Option<u64> {
    let below = if bytes >= HOLE[1] { HOLE[0] } else { bytes };
    let offset = match arch {
        Arch::Aarch64 => physical.checked_sub(VIRT)?,
        Arch::X86_64 if physical < below => physical,
        Arch::X86_64 => below.checked_add(physical.checked_sub(1 << 32)?)?,
    };
    (offset < bytes).then_some(offset)
}

impl RamFile {
    /// The physical address of a virtual one, by the page tables.
    pub fn translate(&self, roots: &Roots, address: u64) -> Option<u64> {
        let found = walk(roots, address, self).found.ok()?;
        Some(found.physical + (address & ((1 << found.size) - 1)))
    }
}

impl Ram for RamFile {
    fn read_u64(&self, physical: u64) -> Option<u64> {
        let offset = offset(self.arch, self.bytes, physical)?;
        self.file.read_u64(offset)
    }
}

/// A machine that is modelled. Accesses and fetches arrive from the first mark on, also between
/// measurements, so that caches are as warm as they would be; changes from the start.
pub struct Model {
    machine: Machine,
    ram: RamFile,
}

impl Model {
    /// So many cores, with nothing cached.
    ///
    /// # Errors
    ///
    /// When the preset describes no core.
    pub fn new(preset: Preset, cpus: usize, ram: RamFile) -> Result<Model, models::BadPreset> {
        let machine = Machine::new(preset, cpus)?;
        Ok(Model { machine, ram })
    }

    /// An access, or a fetch of code, of a CPU.
    pub fn access(&mut self, cpu: usize, access: Access) {
        self.machine.access(cpu, access, &self.ram);
    }

    /// Memory of one page is touched by an instruction whose accesses the emulator does not report.
    pub fn bulk(&mut self, cpu: usize, run: Run) {
        let access = Access {
            write: run.write,
            ..Access::read(run.address, run.bytes as u32)
        };
        self.access(cpu, access);
    }

    /// A run of code of one line begins.
    pub fn fetch(&mut self, cpu: usize, address: u64, bytes: u32) {
        self.machine
            .fetch(cpu, Access::read(address, bytes), &self.ram);
    }

    /// A CPU changes how addresses are translated.
    pub fn change(&mut self, cpu: usize, change: &Change) {
        match *change {
            Change::Register(register, value) => self.machine.write(cpu, register, value),
            // No CPU that QEMU emulates has PCIDs: all has the tag 0.
            Change::Page(address) => self.machine.flush(cpu, &Flush::invlpg(address, 0)),
            Change::All => self.machine.flush(cpu, &Flush::All),
            Change::Tlbi(tlbi, value) if tlbi.broadcast => {
                self.machine.flush_everywhere(&flush(tlbi, value));
            }
            Change::Tlbi(tlbi, value) => self.machine.flush(cpu, &flush(tlbi, value)),
        }
    }

    /// A measurement begins: figures start at zero, and what is cached stays.
    pub fn begin(&mut self) {
        self.machine.reset();
    }

    /// What a CPU did since then, by name, and an estimate of the cycles for so many instructions.
    pub fn figures(&self, cpu: usize, instructions: u64) -> Vec<(String, u64)> {
        let figures = self.machine.figures(cpu);
        let cycles = cycles(self.machine.preset(), instructions, &figures).total();
        let cycles = [("cycles_estimated".to_owned(), cycles)];
        figures.fields().chain(cycles).collect()
    }
}

/// What a TLBI drops.
fn flush(tlbi: Tlbi, value: u64) -> Flush {
    let (address, bytes) = tlbi.range(value);
    match tlbi.what {
        What::All => Flush::All,
        What::Asid => Flush::Tag(Tlbi::asid(value)),
        What::Page | What::Range => Flush::Pages {
            address,
            bytes,
            tag: (!tlbi.all_asids).then_some(Tlbi::asid(value)),
            globals: true,
            tables: if tlbi.last_level {
                Tables::Keep
            } else {
                Tables::OfPages
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_is() {
        const GIB: u64 = 1 << 30;
        let x86 = |bytes, physical| offset(Arch::X86_64, bytes, physical);
        assert_eq!(x86(GIB, 0x1000), Some(0x1000));
        assert_eq!(x86(GIB, GIB), None);
        assert_eq!(x86(4 * GIB, 2 * GIB), None);
        assert_eq!(x86(4 * GIB, 4 * GIB + 8), Some(2 * GIB + 8));
        assert_eq!(x86(4 * GIB, 6 * GIB), None);
        let arm = |physical| offset(Arch::Aarch64, GIB, physical);
        assert_eq!([arm(0), arm(GIB), arm(2 * GIB)], [None, Some(0), None]);
    }

    #[test]
    fn a_page_of_one_address_space_is_dropped() {
        let Some(crate::insn::Effect::Tlbi(tlbi, _)) = crate::insn::aarch64::effect(0xd508_8322)
        else {
            panic!("no TLBI VAE1IS");
        };
        let expected = Flush::Pages {
            address: 0x1_2000,
            bytes: 4096,
            tag: Some(7),
            globals: true,
            tables: Tables::OfPages,
        };
        assert_eq!(flush(tlbi, 7 << 48 | 0x12), expected);
    }
}
