//! The program `frames`, whose lines `./run.sh report` draws: what it made is what it found.
use super::LIMIT;
use anyhow::{Result, ensure};
use measure::report::frames::Sums;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// Folio sizes in kB.
const SIZES: [u64; 5] = [4, 16, 64, 256, 2048];

/// 4 MiB of each size are the first process's and 2 MiB both's; of the second one's 4 MiB three of
/// four pages in 1 MiB are given back, and stay in their folios where these have more pages.
pub fn check(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = "128M".to_owned();
    machine.command_line = "quiet quire.noinput -- frames".to_owned();
    let boot = console::boot(&machine, LIMIT)?;
    ensure!(boot.end == End::Status(0), "{:?}\n{}", boot.end, boot.text);
    let sums = Sums::of_console(&boot.text)?;
    for kb in SIZES {
        let found = ["first", "second", "both", "unmapped"].map(|state| sums.frames(state, kb));
        let left = if kb == 4 { 0 } else { 192 };
        let made = [1024, 1024 - 192, 512, left];
        ensure!(
            found == made,
            "{kb} kB: {found:?}, not {made:?}\n{}",
            boot.text
        );
    }
    // What the lists of CPUs keep shows as the kernel's, its frames behind free blocks as free.
    let (shown, free) = (sums.all("free"), sums.free);
    ensure!(
        shown.abs_diff(free) <= free / 20,
        "{shown} frames show as free, {free} are"
    );
    Ok(Outcome::Passed)
}
