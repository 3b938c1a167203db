//! Folios that are split: because a part of one is not mapped any more, or by hand.
use crate::folio::{PMD, area, fill, folios, huge_kb, stat, value, with_sizes, wrong};
use std::fs;
use userland::counters::figure;
use userland::harness::Outcome;
use userland::sys::Errno;
use userland::sys::mem::{PAGE, munmap};
use userland::sys::proc;
use userland::{check, check_eq};

userland::tests![
    folio_partly_unmapped,
    folio_split_by_hand,
    folio_split_to_a_size,
];

const SPLIT: &str = "/sys/kernel/debug/split_huge_pages";

fn folio_partly_unmapped() -> Outcome {
    with_sizes(&[64], || {
        let at = area(PMD)?;
        fill(at, PMD);
        let before = (
            stat(64, "split_deferred")?,
            stat(64, "nr_anon_partially_mapped")?,
        );
        // Three quarters of each folio go.
        for block in (at..at + PMD).step_by(64 << 10) {
            munmap(block + 4 * PAGE, 12 * PAGE)?;
        }
        check!(stat(64, "split_deferred")? >= before.0 + 32);
        check!(stat(64, "nr_anon_partially_mapped")? >= before.1 + 32);
        check_eq!(folios(at, 64)?[..2], [0, 1]);
        // Private memory alone: the kernel's own may grow while it is looked at.
        let private = || figure("/proc/meminfo", "AnonPages").map(|kb| kb / 4);
        let before_split = private()?;
        fs::write(SPLIT, "1")?;
        let won = before_split.saturating_sub(private()?);
        // But for what this process touched meanwhile: two folios at most.
        check!(won + 2 * 16 >= 32 * 12, "{won} frames came back");
        // What others had left on the queue may be split, too.
        check!(stat(64, "nr_anon_partially_mapped")? <= before.1);
        let kept = (at..at + PMD).step_by(64 << 10);
        check_eq!(
            kept.map(|block| wrong(block, 4 * PAGE, value))
                .sum::<usize>(),
            0
        );
        Ok(munmap(at, PMD)?)
    })
}

fn folio_split_by_hand() -> Outcome {
    with_sizes(&[2048], || {
        let at = area(2 * PMD)?;
        fill(at, 2 * PMD);
        check_eq!(huge_kb(at), Some(4096));
        let splits = stat(2048, "split")?;
        let (pid, end) = (proc::getpid(), at + PMD);
        fs::write(SPLIT, format!("{pid},0x{at:x},0x{end:x}"))?;
        check_eq!(stat(2048, "split")?, splits + 1);
        check_eq!(huge_kb(at), Some(2048));
        check_eq!(folios(at, 4)?[0], 512);
        check_eq!(wrong(at, 2 * PMD, value), 0);
        for bad in ["2", "1,2", "x,0,1000", &format!("{pid},0x2000,0x1000")] {
            let got = fs::write(SPLIT, bad).map_err(Errno::from);
            check!(got == Err(Errno(libc::EINVAL)), "{bad}: {got:?}");
        }
        let nobody = fs::write(SPLIT, "999999,0x1000,0x2000").map_err(Errno::from);
        check_eq!(nobody, Err(Errno(libc::ESRCH)));
        Ok(munmap(at, 2 * PMD)?)
    })
}

fn folio_split_to_a_size() -> Outcome {
    with_sizes(&[2048], || {
        let at = area(PMD)?;
        fill(at, PMD);
        let pid = proc::getpid();
        let split = |from: usize, end: usize, order: &str| {
            fs::write(SPLIT, format!("{pid},0x{from:x},0x{end:x},{order}")).map_err(Errno::from)
        };
        split(at, at + PMD, "9")?;
        check_eq!(huge_kb(at), Some(2048));
        split(at, at + PAGE, "6")?;
        check_eq!(huge_kb(at), Some(0));
        check_eq!(folios(at, 256)?[0], 8);
        // What is no larger stays; a part of a part.
        split(at, at + PMD, "6")?;
        split(at, at + (256 << 10), "4")?;
        check_eq!(folios(at, 256)?[0], 7);
        check_eq!(folios(at, 64)?[0], 4);
        split(at, at + PMD, "0")?;
        check_eq!(folios(at, 4)?[0], 512);
        check_eq!(wrong(at, PMD, value), 0);
        for bad in ["x", "", "-1", "4,4"] {
            check_eq!(split(at, at + PMD, bad), Err(Errno(libc::EINVAL)));
        }
        // Files are in single pages, as far as they are there.
        fs::write("f", "text")?;
        let file = std::env::current_dir()?.join("f");
        fs::write(SPLIT, format!("{},0x0,0x10,2", file.display()))?;
        let nothing = fs::write(SPLIT, "/nothing/here,0x0,0x10").map_err(Errno::from);
        check_eq!(nothing, Err(Errno(libc::EINVAL)));
        Ok(munmap(at, PMD)?)
    })
}
