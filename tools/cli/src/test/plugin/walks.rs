//! What models of cores see of Quire's page tables and flushes, beside what their geometry
//! predicts.
use super::LIMIT;
use anyhow::{Context, Result, ensure};
use counts::record::Record;
use std::collections::BTreeMap;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::console;
use tools::machine::qemu::Machine;
use tools::machine::qemu::plugin::Plugin;

/// Pages of the region of `bench`, and reads of its `reach`.
const PAGES: u64 = 16384;
const READS: u64 = 1 << 20;

/// What a kernel's words and a core have to do with each other.
struct Case {
    /// Words for the kernel.
    words: &'static str,
    core: &'static str,
    /// By folio size in kB, how many of the second level's entries the region needs, and how many
    /// there are without those for tables of pages; `reach` misses them at that rate.
    rates: &'static [(u64, u64, u64)],
}

/// 16384 pages of 4 KiB have 32 tables.
const AARCH64: [Case; 2] = [
    Case {
        words: "",
        core: "cortex-a76",
        rates: &[(4, PAGES, 1280 - 32), (64, PAGES / 16, 1280)],
    },
    Case {
        words: "contpte=off",
        core: "cortex-a76",
        rates: &[(64, PAGES, 1280 - 32)],
    },
];
const X86_64: [Case; 2] = [
    Case {
        words: "",
        core: "zen4",
        // Four pages that lie side by side are one entry. Whether single pages that were touched
        // one after the other do, at an address of their kind, depends on where the free ones
        // begin.
        rates: &[(64, PAGES / 4, 3072 - 32)],
    },
    Case {
        words: "",
        core: "golden-cove",
        rates: &[(4, PAGES, 2048), (64, PAGES, 2048)],
    },
];

/// Walks, and entries that flushes drop, are as page faults, protection and random reads predict.
pub fn walks(mut machine: Machine) -> Result<Outcome> {
    let cases = match machine.arch {
        Arch::Aarch64 => AARCH64,
        Arch::X86_64 => X86_64,
    };
    for case in cases {
        let records = records(&mut machine, &case)?;
        let find = |name: String| {
            let record = records.iter().rfind(|record| record.name == name);
            record.with_context(|| format!("{name} was not measured"))
        };
        for (kb, needed, there) in case.rates {
            faults(find(format!("fault@{kb}"))?, PAGES * 4 / kb)?;
            flushes(find(format!("protect@{kb}"))?)?;
            reach(find(format!("reach@{kb}"))?, *needed, *there)?;
        }
    }
    Ok(Outcome::Passed)
}

fn records(machine: &mut Machine, case: &Case) -> Result<Vec<Record>> {
    let out = Temporary::name("jsonl");
    let ram = Temporary::name_in_memory("ram");
    let mut plugin = Plugin::build(out.path())?;
    plugin.ram = Some(ram.path().to_owned());
    plugin.model = Some(case.core.to_owned());
    machine.plugin = Some(plugin.clone());
    machine.icount = true;
    let sizes: Vec<String> = case.rates.iter().map(|(kb, ..)| kb.to_string()).collect();
    let program = format!(
        "bench --op fault,protect,reach --size {} --marks yes",
        sizes.join(",")
    );
    machine.command_line = format!("quiet quire.noinput {} -- {program}", case.words);
    let boot = console::boot_patiently(machine, LIMIT)?;
    ensure!(boot.text.contains("\"done\":true"), "{}", boot.text);
    plugin.records()
}

fn figures(record: &Record) -> &BTreeMap<String, u64> {
    &record.cpus[0].model
}

/// Each page is touched once, and each touch needs a walk when its translation is new: one for each
/// folio at least, and not many more than one for each page.
fn faults(record: &Record, folios: u64) -> Result<()> {
    let figures = figures(record);
    let (walks, unresolved) = (figures["dtlb_walks"], figures["unresolved"]);
    let expected = folios..PAGES * 11 / 10;
    ensure!(
        expected.contains(&walks) && unresolved == 0,
        "{}: {walks} walks, not {expected:?}, {unresolved} of which found nothing",
        record.name
    );
    // What zeroes pages shows, too: the lines of each are memory's.
    let lines = figures["data_memory"] + figures["data_last"] + figures["data_l2"];
    let least = PAGES * 64 / 2;
    ensure!(
        lines >= least,
        "{}: {lines} lines, not {least}",
        record.name
    );
    Ok(())
}

/// What was writable is dropped.
fn flushes(record: &Record) -> Result<()> {
    let figures = figures(record);
    ensure!(
        figures["flushes"] > 0 && figures["flushed"] > 0,
        "{}: {} flushes of {} entries",
        record.name,
        figures["flushes"],
        figures["flushed"]
    );
    Ok(())
}

/// A read misses when its entry is not among those that are there: within 2 in 100 of all reads.
fn reach(record: &Record, needed: u64, there: u64) -> Result<()> {
    let walks = figures(record)["dtlb_walks"];
    let predicted = READS * needed.saturating_sub(there) / needed;
    ensure!(
        walks.abs_diff(predicted) <= READS / 50,
        "{}: {walks} walks, not {predicted}",
        record.name
    );
    Ok(())
}
