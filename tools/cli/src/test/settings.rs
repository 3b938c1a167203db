//! The user-mode suite again under other settings of the memory manager: the size of folios and the
//! switches may change what it costs, never what programs see.
use super::job::Job;
use super::pairs;
use super::transcript::Transcript;
use anyhow::Result;
use ktest::settings;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

const LIMIT: Duration = Duration::from_secs(600);

/// Tests that touch enough memory for a setting to matter; the rest runs under the settings that
/// name no tests.
const MEMORY: &str = "map_* protect_* cow_* shared_* advise_* mincore_* mlock_* populate_* pagemap_* remap_* brk_* stack_* \
                      fork_* exec_* proc_smaps_* thp_* folio_*";

/// A setting by name, its words on the kernel's command line, and which tests run under it (all
/// when empty).
type Setting = (&'static str, &'static str, &'static str);

const SETTINGS: &[Setting] = &[
    ("all_sizes", "thp_anon=16K-2M:always", ""),
    ("no_size", "transparent_hugepage=never", MEMORY),
    ("only_16K", "thp_anon=16K:always", MEMORY),
    ("only_32K", "thp_anon=32K:always", MEMORY),
    ("only_64K", "thp_anon=64K:always", MEMORY),
    ("only_128K", "thp_anon=128K:always", MEMORY),
    ("only_256K", "thp_anon=256K:always", MEMORY),
    ("only_512K", "thp_anon=512K:always", MEMORY),
    ("only_1M", "thp_anon=1M:always", MEMORY),
    ("only_2M", "thp_anon=2M:always", MEMORY),
];

/// For machines whose page tables have contiguous blocks.
const CONTPTE_OFF: Setting = ("contpte_off", "contpte=off thp_anon=16K-2M:always", "");

/// Tests that depend on the switches that are tried in pairs. Of the replays those of single pages,
/// of contiguous blocks and of PMD leaves: each pair meets them at all sizes on the host.
const SHARING: &str = "cow_* folio_* thp_* areas_* replay_4k_* replay_64k_* replay_2048k_* remap_* pagemap_* kpage_* \
                       soft_dirty_* owner_*";

/// Runs what one architecture is to be tried with; a setting is one test.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    let more = match arch {
        Arch::X86_64 => None,
        Arch::Aarch64 => Some(&CONTPTE_OFF),
    };
    for setting in SETTINGS.iter().chain(more) {
        let name = format!("user.{arch}.settings.{}", setting.0);
        let (_, words, tests) = *setting;
        job.case(name, || suite(arch, built, words, tests));
    }
    for (n, words) in settings::lines(more.is_some()).iter().enumerate() {
        let words = format!("{words} thp_anon=16K-2M:always");
        job.case(pairs::name(arch, n), || suite(arch, built, &words, SHARING));
    }
}

fn suite(arch: Arch, built: &Built, words: &str, tests: &str) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.command_line = format!("quiet {words} -- selftests {tests}");
    let mut transcript = Transcript::default();
    let boot = console::watch(&machine, LIMIT, |piece| transcript.feed(piece))?;
    let failed: Vec<String> = transcript
        .done
        .iter()
        .filter(|line| !line.ok)
        .map(|line| format!("{}: {:?}", line.name, line.outcome()))
        .collect();
    // Without tests nothing was tried.
    if failed.is_empty() && transcript.complete() && boot.end == End::Status(0) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "with {words} it ended with {:?}, {} tests done; these failed:\n{}\n{}",
        boot.end,
        transcript.done.len(),
        failed.join("\n"),
        if failed.is_empty() { &boot.text } else { "" }
    )))
}
