//! Memory that is zeroed, set or copied by one instruction, of which QEMU reports no accesses.
use crate::{locked, turns};
use counts::Arch;
use counts::insn::bulk::{self, Block, Bulk};
use counts::insn::{aarch64, gpr_name};
use std::sync::Mutex;

/// Those that were translated so far, and how much DC ZVA zeroes.
#[derive(Default)]
pub struct Bulks(Mutex<(Vec<(Bulk, u64)>, Block)>);

impl Bulks {
    /// The place of `bytes` at `pc` among them, added if new; none if they are no such instruction.
    pub fn place(&self, arch: Arch, bytes: &[u8], pc: u64) -> Option<usize> {
        let bulk = match arch {
            Arch::Aarch64 => aarch64::word(bytes).and_then(Bulk::of)?,
            Arch::X86_64 => return None,
        };
        let (known, _) = &mut *locked(&self.0);
        let place = known.iter().position(|one| *one == (bulk, pc));
        Some(place.unwrap_or_else(|| {
            known.push((bulk, pc));
            known.len() - 1
        }))
    }

    /// What it touches, in pages, and its address.
    pub fn runs(&self, place: usize, arch: Arch) -> (Vec<bulk::Run>, u64) {
        let (known, block) = &mut *locked(&self.0);
        let (bulk, pc) = known[place];
        let runs = bulk.runs(|gpr| turns::register(&gpr_name(arch, gpr)), block);
        let pages = runs.into_iter().flat_map(bulk::Run::pages);
        (pages.collect(), pc)
    }
}
