//! How many folios of each size there are: lines of /proc/meminfo and /proc/vmstat, and files of
//! one value.
use crate::folio::{PMD, area, fill, with_sizes};
use std::fs;
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{PAGE, munmap};
use userland::{check, counters};

userland::tests![folio_figures_by_size, folio_figures_of_a_process];

/// A file's only value.
fn value_of(path: &str) -> Result<u64, Stop> {
    let text = fs::read_to_string(path)?;
    let number = text.strip_suffix('\n').and_then(|line| line.parse().ok());
    number.ok_or_else(|| Stop::Fail(format!("{path}: {text:?}")))
}

/// Every file with the number of folios of a size shows the same for those that this process takes.
fn folio_figures_by_size() -> Outcome {
    for kb in [4, 16, 128, 2048] {
        let exist = || -> Result<[u64; 3], Stop> {
            let lines = counters::figure("/proc/meminfo", &format!("AnonFolios-{kb}kB"))?;
            Ok([
                counters::figure("/proc/vmstat", &format!("nr_anon_folios_{kb}kB"))?,
                lines / kb as u64,
                value_of(&format!("/sys/kernel/mm/quire/folios-{kb}kB/exist"))?,
            ])
        };
        let whole = || value_of(&format!("/sys/kernel/mm/quire/folios-{kb}kB/whole"));
        with_sizes(&[kb], || {
            let at = area(PMD)?;
            let (before, before_whole) = (exist()?, whole()?);
            fill(at, PMD);
            let (after, folios) = (exist()?, (PMD >> 10) as u64 / kb as u64);
            // Single pages of others come and go, and this program's own memory is in folios of
            // that size, too.
            let fewest = folios - folios / 16;
            for (before, after) in before.iter().zip(after) {
                let more = after.saturating_sub(*before);
                check!(
                    (fewest..folios + 64).contains(&more),
                    "{kb} kB: {more} more"
                );
            }
            check!(whole()? >= before_whole + fewest);
            munmap(at, PMD / 2)?;
            let parts = ["deferred", "part", "contpte"];
            for name in parts {
                value_of(&format!("/sys/kernel/mm/quire/folios-{kb}kB/{name}"))?;
            }
            if kb == 2048 {
                check!(value_of("/sys/kernel/mm/quire/folios-2048kB/part")? >= 1);
                check!(value_of("/sys/kernel/mm/quire/folios-2048kB/deferred")? >= 1);
            }
            Ok(munmap(at + PMD / 2, PMD / 2)?)
        })?;
    }
    let meminfo = counters::table("/proc/meminfo");
    let sizes = (0..10).filter(|order| *order != 1).map(|order| 4 << order);
    let sum = sizes.map(|kb| meminfo.get(&format!("AnonFolios-{kb}kB")));
    let sum = sum.sum::<Result<u64, _>>()?;
    // khugepaged may have run between two lines.
    check!(sum.abs_diff(meminfo.get("AnonPages")?) <= 4096, "{sum} kB");
    Ok(())
}

/// The program `folios` shows what this process maps: whole folios, one of which a part is gone.
fn folio_figures_of_a_process() -> Outcome {
    with_sizes(&[64], || {
        let at = area(PMD)?;
        fill(at, PMD);
        munmap(at, PAGE)?;
        let pid = userland::sys::proc::getpid().to_string();
        let output = std::process::Command::new("/bin/folios")
            .args(["--pid", &pid])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        check!(output.status.success(), "{output:?}");
        let header = format!("{:08x}-{:08x} ", at + PAGE, at + PMD);
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&header));
        check!(lines.next().is_some(), "no {header} in {text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let figures: Vec<String> = lines.take(2).map(words).collect();
        let wanted = [
            "anon-thp-pte-aligned-64kB: 1984 kB ( 97%)",
            "anon-thp-pte-partial: 60 kB ( 3%)",
        ];
        check!(figures == wanted, "{text}");
        check!(text.contains(&format!("all areas of {pid}\n")));
        Ok(munmap(at + PAGE, PMD - PAGE)?)
    })
}
