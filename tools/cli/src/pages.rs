//! The pages in docs/ that list what the kernel knows list all of it, and nothing else; and the
//! fuzzer all system calls.
use mm::Stats;
use mm::thp::khugepaged::Knob;
use mm::thp::stats::Stat;

const COMMAND_LINE: &str = include_str!("../../../docs/command-line.md");
const FOLIOS: &str = include_str!("../../../docs/folios.md");
const THP_RS: &str = include_str!("../../../kernel/src/views/sys/thp.rs");
const COUNTERS: &str = include_str!("../../../docs/counters.md");
const PROGRAMS: &str = include_str!("../../../userland/README.md");
const CMDLINE_RS: &str = include_str!("../../../kernel/parts/src/cmdline.rs");
const VMSTAT_RS: &str = include_str!("../../../kernel/src/views/proc/vmstat.rs");
const FUZZED_RS: &str = include_str!("../../../userland/src/bin/fuzz/table.rs");
/// The rows of the system calls, by family.
const CALLS_RS: [&str; 4] = [
    include_str!("../../../kernel/src/syscall/mod.rs"),
    include_str!("../../../kernel/src/syscall/files/mod.rs"),
    include_str!("../../../kernel/src/syscall/files/old.rs"),
    include_str!("../../../kernel/src/syscall/legacy.rs"),
];
const MANAGER_RS: &str = include_str!("../../../kernel/mm/src/manager/mod.rs");

/// The text of `source` from behind `from` to before `to`.
fn between<'a>(source: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = source.split_once(from).unwrap_or_else(|| panic!("{from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("{to}")).0
}

/// What stands between two `quote`s of a text.
fn quoted(text: &str, quote: char) -> Vec<&str> {
    text.split(quote).skip(1).step_by(2).collect()
}

/// What the first column of the tables in a section names, in order; the heading of each section is
/// a line of its own.
fn names<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = page
        .split_once(heading)
        .unwrap_or_else(|| panic!("{heading}"));
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split_once(" | "));
    cells
        .flat_map(|(cell, _)| cell.split("`, `"))
        .map(|name| name.trim_end_matches('`'))
        .collect()
}

fn same(mut page: Vec<&str>, mut kernel: Vec<&str>) {
    page.sort_unstable();
    kernel.sort_unstable();
    let twice = page.windows(2).find(|two| two[0] == two[1]);
    assert_eq!(twice, None, "twice on the page");
    let missing: Vec<_> = kernel.iter().filter(|name| !page.contains(name)).collect();
    let unknown: Vec<_> = page.iter().filter(|name| !kernel.contains(name)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:?}; not in the kernel: {unknown:?}"
    );
}

#[test]
fn every_user_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../userland/src/bin");
    let entries = std::fs::read_dir(folder).unwrap();
    let files: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let programs = files.iter().map(|file| file.trim_end_matches(".rs"));
    same(names(PROGRAMS, "# Programs"), programs.collect());
}

#[test]
fn every_word_of_the_command_line() {
    let arms = between(CMDLINE_RS, "match (name, value) {", "(name, value) =>");
    let kernel = arms
        .lines()
        .filter_map(|line| line.trim().strip_prefix('('))
        .filter(|arm| arm.starts_with('"'))
        .flat_map(|arm| quoted(arm.split(',').next().unwrap_or(arm), '"'))
        .collect();
    let page = names(COMMAND_LINE, "# The kernel's command line\n");
    let page = page
        .iter()
        .map(|word| word.split('=').next().unwrap_or(word));
    same(page.collect(), kernel);
}

#[test]
fn every_counter_of_the_memory_manager() {
    let events = between(MANAGER_RS, "fn for_each_event", "fn event");
    let mut kernel = quoted(events, '"');
    Stats::new(1).for_each(&mut |name, _| kernel.push(name));
    same(names(COUNTERS, "## /sys/kernel/mm/quire/counters"), kernel);
}

#[test]
fn every_line_of_vmstat() {
    let mut kernel = quoted(between(VMSTAT_RS, "const EVENTS", "];"), '"');
    let levels = between(VMSTAT_RS, "for (name, value) in [", "] {");
    kernel.extend(quoted(levels, '"'));
    same(names(COUNTERS, "## /proc/vmstat"), kernel);
}

#[test]
fn every_file_of_transparent_hugepage() {
    let top = between(THP_RS, "pub fn register", "for order in");
    let mut kernel: Vec<String> = quoted(top, '"')
        .iter()
        .map(|name| name.trim_start_matches("{ROOT}/").to_owned())
        .collect();
    let of_size = between(THP_RS, "fn size(", "\n}");
    let of_size = quoted(of_size, '"').into_iter();
    let knobs = of_size.filter_map(|name| name.strip_prefix("{dir}/"));
    kernel.extend(knobs.map(|name| format!("hugepages-<size>kB/{name}")));
    let knobs = Knob::ALL.iter().map(|(_, name)| *name);
    let counts = ["full_scans", "pages_collapsed"];
    kernel.extend(knobs.chain(counts).map(|name| format!("khugepaged/{name}")));
    let section = between(FOLIOS, "### Files of transparent_hugepage", "\n## ");
    same(
        names(section, "Below"),
        kernel.iter().map(String::as_str).collect(),
    );
}

/// The fuzzer makes each call with arguments of its kind, or says why not; vfork(2) is made as
/// clone(2), and fstatat(2) is newfstatat to x86_64.
#[test]
fn every_system_call_in_the_fuzzer() {
    let name = |row: &'static str| row.split_once(" => ").map(|(names, _)| names);
    let rows = CALLS_RS.iter().flat_map(|source| {
        let rows = between(source, "\nrows! {", "\n}");
        rows.lines()
            .filter_map(name)
            .flat_map(|names| names.split('|'))
    });
    let is_fuzzed = |name: &&str| {
        let name = format!("SYS_{name}");
        let mut words = FUZZED_RS.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| word == name)
    };
    let rows: Vec<_> = rows.map(str::trim).collect();
    assert!(rows.len() > 250, "{rows:?}");
    let missing: Vec<_> = rows.iter().filter(|name| !is_fuzzed(name)).collect();
    assert!(
        missing
            .iter()
            .all(|name| ["fstatat", "vfork"].contains(name)),
        "{missing:?}"
    );
}

#[test]
fn every_counter_of_a_size() {
    let kernel = Stat::ALL.iter().map(|(_, name)| *name).collect();
    same(names(COUNTERS, "## Sizes"), kernel);
}
