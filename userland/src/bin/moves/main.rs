//! `moves [--size 4,64] [--mib 1024]`: what one mremap costs by the size of the region, 2 MiB to 1
//! TiB, and by the largest entries that are moved whole (`move=`), for regions in folios of so many
//! kB.
//!
//! One JSON line for each, by the monotonic clock, whose nanoseconds are guest instructions under
//! QEMU's -icount. Region and target are aligned to the size, to 512 GiB at most, and nothing is
//! mapped at the target. Every page is there, if memory is large enough; else one folio in each 2
//! MiB, from 512 GiB on in each GiB, and the line says so. What was moved is checked, outside the
//! measured time; what reading the clock costs is taken off.
mod area;

use area::Area;
use userland::controls::Controls;
use userland::counters::{self, Missing, on_quire};
use userland::measuring::{self, Clock, list};
use userland::switch::Switch;
use userland::sys::{Result, time};

/// Regions in MiB.
const SIZES: [usize; 9] = [2, 16, 64, 256, 1024, 2048, 4096, 512 << 10, 1 << 20];
/// The words of the switch `move`.
const LEVELS: [&str; 4] = ["pte", "pmd", "pud", "pgd"];
/// Other kernels have one way, which is Linux's: no entry above the PUD moves.
const ONE_WAY: &str = "pud";

/// What the command line asks for: folios in kB, regions in MiB.
struct Plan {
    folios: Vec<usize>,
    regions: Vec<usize>,
}

/// Moves a region of each size there and back, once for each level; returns how many lines were
/// printed.
fn run(folio_kb: usize, regions: &[usize]) -> Result<usize> {
    let clock = Clock::new(libc::CLOCK_MONOTONIC);
    let mut lines = 0;
    for &mib in regions {
        let area = Area::new(mib << 20, folio_kb << 10)?;
        Switch::each("move", &LEVELS, ONE_WAY, |level| {
            let before = moved()?;
            // Once there and back, so that the kernel has looked at the area before, not at what
            // was read.
            area.go(area.from, area.to)?;
            area.go(area.to, area.from)?;
            let (done, whole) = clock.time(|| area.go(area.from, area.to));
            done?;
            let entries = (moved()? - before) / 3;
            area.check(area.to)?;
            area.go(area.to, area.from)?;
            let sparse = area.sparse();
            println!(
                "{{\"op\":\"move={level}/{mib}\",\"folio_kb\":{folio_kb},\"whole\":{whole},\"entries\":{entries},\"sparse\":{sparse}}}"
            );
            lines += 1;
            Ok(())
        })?;
    }
    Ok(lines)
}

/// Entries that were moved since boot, where that is counted.
fn moved() -> Result<u64> {
    match on_quire() {
        true => counters::own("remap_entries_moved").map_err(Missing::say),
        false => Ok(0),
    }
}

fn all(plan: &Plan) -> Result<usize> {
    let sysfs = Controls::take();
    let mut lines = 0;
    for &size in &plan.folios {
        if measuring::only(&sysfs, size)? {
            lines += run(size, &plan.regions)?;
        }
    }
    Ok(lines)
}

fn main() {
    let mut plan = Plan {
        folios: vec![4, 64],
        regions: SIZES.to_vec(),
    };
    let usage = format!("moves [--size KB,KB] [--mib MIB,MIB]\nMiB: {SIZES:?}");
    measuring::options(&usage, |option, value| {
        match option {
            "--size" => plan.folios = measuring::sizes(value)?,
            "--mib" => plan.regions = list(value, |mib| SIZES.contains(mib))?,
            _ => return None,
        }
        Some(())
    });
    measuring::run(time::counts_instructions(), || all(&plan));
}
