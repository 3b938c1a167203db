//! `selftests [--list] [--timeout SECONDS] [GLOB ...]`: what programs may expect of the kernel, as
//! KTAP 1.
//!
//! On Linux everything passes too, or says why it cannot: that is the check on the tests. Without
//! rights or in an emulator some are skipped.
use userland::harness::{RunOptions, Test, run};
use userland::replay;
use userland::sh::expand::glob;
use userland::starve;

mod advise;
mod affinity;
mod areas;
mod arguments;
mod clock;
mod cow;
mod cpus;
mod cpus_interrupts;
mod cpus_memory;
mod droppable;
mod epoll;
mod event;
mod exec;
mod files;
mod folio;
mod folio_figures;
mod folio_shared;
mod folio_split;
mod futex;
mod guard;
mod gup;
mod harness;
mod helper;
mod hugetlb;
mod hwpoison;
mod inspect;
mod interpreter;
mod leaks;
mod leaks_memory;
mod leaks_tasks;
mod leaks_views;
mod machine;
mod map;
mod mdwe;
mod memfd;
mod names;
mod owner;
mod pagemap;
mod parallel;
mod pipes;
mod pkeys;
mod pointers;
mod posix_timers;
mod privileges;
mod process;
mod process_memory;
mod procfs;
mod procmap;
mod promises;
mod protect;
mod records;
mod remap;
mod remap_errors;
mod robust;
mod scan;
mod seal;
mod settings;
mod shared;
mod shm;
mod signal;
mod signal_files;
mod signal_threads;
mod socket_messages;
mod socket_names;
mod socket_options;
mod socket_rights;
mod socket_traffic;
mod sockets;
mod soft_dirty;
mod stack;
mod system;
mod thp;
mod thp_disable;
mod thp_orders;
mod threads;
mod timers;
mod trace;
mod tracer_steps;
mod tracers;
mod trap;
mod userfault;
mod userfault_huge;
mod userfault_meanwhile;
mod vmstat;
mod waiting;
mod zram;

const FAMILIES: &[&[Test]] = &[
    map::TESTS,
    areas::TESTS,
    protect::TESTS,
    seal::TESTS,
    mdwe::TESTS,
    pkeys::TESTS,
    cow::TESTS,
    shared::TESTS,
    memfd::TESTS,
    shm::TESTS,
    advise::TESTS,
    guard::TESTS,
    gup::TESTS,
    droppable::TESTS,
    hugetlb::TESTS,
    process_memory::TESTS,
    remap::TESTS,
    remap_errors::TESTS,
    pagemap::TESTS,
    procmap::TESTS,
    scan::TESTS,
    userfault::TESTS,
    userfault_huge::TESTS,
    userfault_meanwhile::TESTS,
    soft_dirty::TESTS,
    stack::TESTS,
    process::TESTS,
    waiting::TESTS,
    exec::TESTS,
    interpreter::TESTS,
    signal::TESTS,
    signal_threads::TESTS,
    timers::TESTS,
    trace::TESTS,
    tracer_steps::TESTS,
    tracers::TESTS,
    inspect::TESTS,
    trap::TESTS,
    files::TESTS,
    names::TESTS,
    pipes::TESTS,
    harness::TESTS,
    sockets::TESTS,
    epoll::TESTS,
    event::TESTS,
    signal_files::TESTS,
    socket_messages::TESTS,
    socket_options::TESTS,
    socket_names::TESTS,
    privileges::TESTS,
    promises::TESTS,
    zram::TESTS,
    posix_timers::TESTS,
    socket_rights::TESTS,
    socket_traffic::TESTS,
    clock::TESTS,
    futex::TESTS,
    affinity::TESTS,
    cpus::TESTS,
    cpus_interrupts::TESTS,
    cpus_memory::TESTS,
    threads::TESTS,
    robust::TESTS,
    parallel::TESTS,
    procfs::TESTS,
    records::TESTS,
    machine::TESTS,
    settings::TESTS,
    pointers::TESTS,
    leaks::TESTS,
    leaks_memory::TESTS,
    leaks_tasks::TESTS,
    leaks_views::TESTS,
    system::TESTS,
    arguments::TESTS,
    vmstat::TESTS,
    thp::TESTS,
    thp_disable::TESTS,
    thp_orders::TESTS,
    folio::TESTS,
    folio_split::TESTS,
    folio_shared::TESTS,
    folio_figures::TESTS,
    owner::TESTS,
    // Last: what it takes away is missing from then on.
    hwpoison::TESTS,
];

/// What QEMU's user-mode emulation of another machine does otherwise than a kernel
/// (SELFTESTS_EMULATED says that it is one): it has maps, threads and an exec of its own.
const EMULATOR_GAPS: &[&str] = &[
    "map_a_thousand_pieces",
    "protect_hole_stops_there",
    "advise_refuses",
    "remap_refuses",
    "brk_refuses",
    "stack_in_maps",
    "stack_limit_is_kept",
    "fork_bomb_ends_in_eagain",
    "vfork_shares_until_exit",
    "spawn_a_program",
    "wait_stop_and_continue",
    "trace_*",
    "signal_pending_limit",
    "exec_*",
    "sleep_refuses",
    "proc_maps_format",
    "proc_smaps_*",
    "records_of_full_areas",
    "leaks_*",
    "proc_status",
    "proc_stat_has_52_fields",
    "pointer_input_refused",
    "pointer_half_mapped",
    "thp_*",
    "folio_collapse",
    "replay_*",
    "pagemap_*",
    "kpage_*",
    "vmsplice_*",
    "socketpair_*",
    "socket_*",
    "memfd_*",
    "futex_bad_*",
    "pidfd_*",
    "soft_dirty_*",
    "clear_refs_*",
];

fn usage() -> ! {
    eprintln!(
        "usage: selftests [--list] [--timeout SECONDS] [--heap-fail K[-K][,...] [--seconds SECONDS]] [GLOB ...]"
    );
    std::process::exit(2);
}

/// `1-3,7`
fn numbers(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut list, mut patterns, mut options) = (
        false,
        Vec::new(),
        RunOptions {
            timeout: 300,
            skip: &[],
            heap_fail: 0,
        },
    );
    let (mut rounds, mut seconds) = (None, u64::MAX >> 32);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What tests of exec start.
            "--as" => std::process::exit(helper::run(args.collect())),
            "--list" => list = true,
            "--timeout" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => options.timeout = n,
                None => usage(),
            },
            "--heap-fail" => match args.next().as_deref().and_then(numbers) {
                Some(numbers) => rounds = Some(numbers),
                None => usage(),
            },
            "--seconds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => seconds = n,
                None => usage(),
            },
            a if a.starts_with('-') => usage(),
            _ => patterns.push(arg),
        }
    }
    // The replays are many, and of few calls.
    let all = |name: &str| rounds.is_none() || !name.starts_with("replay_");
    let wanted = |name: &str| match patterns.is_empty() {
        true => all(name),
        false => patterns.iter().any(|p| glob(p, name)),
    };
    let tests: Vec<&Test> = FAMILIES
        .iter()
        .chain(replay::TESTS)
        .copied()
        .flatten()
        .filter(|t| wanted(t.name))
        .collect();
    if list {
        tests.iter().for_each(|t| println!("{}", t.name));
        return;
    }
    if std::env::var_os("SELFTESTS_EMULATED").is_some() {
        options.skip = EMULATOR_GAPS;
    }
    if let Some(rounds) = rounds {
        let faults = starve::run(&tests, &options, rounds.into_iter(), seconds);
        std::process::exit((faults > 0 || tests.is_empty()) as i32);
    }
    let failed = run(&tests, &options).failed;
    std::process::exit((failed > 0 || tests.is_empty()) as i32);
}
