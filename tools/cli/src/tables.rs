//! Tables in docs/ that are written from the kernel's own. `WRITE_DOCS=1 cargo test -p cli
//! tables::` writes them; without it the pages must be as they would be written.
use measure::bench::floor;
use mm::mutant::Mutant;
use std::fs;
use std::path::{Path, PathBuf};
use switches::{Pairs, Switch};

const BEGIN: &str = "<!-- written by tools/cli/src/tables.rs from ";
const END: &str = "<!-- end -->\n";

/// Compares the parts of a page between `BEGIN source` and `END` with the tables that should be
/// there, or writes them.
fn page(name: &str, tables: &[(&str, String)]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs").join(name);
    let old = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut new = old.clone();
    for (source, table) in tables {
        assert!(root.join(source).exists(), "{source}");
        let place = format!("{name} has no {BEGIN}{source}");
        new = with_table(&new, source, table).expect(&place);
    }
    keep(&path, &old, &new);
}

/// Writes a file of docs/, or compares it with what would be written.
fn keep(path: &Path, old: &str, new: &str) {
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(path, new).expect("the page can be written");
    } else {
        let (name, how) = (
            path.display(),
            "write it with WRITE_DOCS=1 cargo test -p cli tables::",
        );
        assert!(old == new, "{name} is not what its tables say: {how}");
    }
}

/// The page with this table.
fn with_table(page: &str, source: &str, table: &str) -> Option<String> {
    let begin = format!("{BEGIN}{source} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{table}\n{END}{after}"))
}

/// The lines of a row's documentation as a cell: begun small and without the full stop, with links
/// in place of names of pages.
fn cell(doc: &[&str]) -> String {
    let lines: Vec<&str> = doc.iter().map(|line| line.trim()).collect();
    let text = lines.join(" ");
    let text = text.strip_suffix('.').unwrap_or(&text).replace('|', "\\|");
    let words: Vec<String> = text.split(' ').map(link).collect();
    let text = words.join(" ");
    match text.split_at_checked(1) {
        // Not of a name in capitals.
        Some((first, rest)) if !rest.starts_with(char::is_uppercase) => first.to_lowercase() + rest,
        _ => text,
    }
}

/// `docs/page.md#place` becomes a link.
fn link(word: &str) -> String {
    let Some(target) = word.strip_prefix("docs/") else {
        return word.to_owned();
    };
    let target = target.trim_end_matches(['.', ',', ';', ':']);
    let rest = &word["docs/".len() + target.len()..];
    let page = PathBuf::from(target.split('#').next().unwrap_or(target));
    let name = page.file_stem().unwrap_or_default().to_string_lossy();
    format!("[{name}]({target}){rest}")
}

/// A table of two columns.
fn table(head: [&str; 2], rows: &[(&str, &[&str])]) -> String {
    let rows = rows
        .iter()
        .map(|(name, doc)| format!("| `{name}` | {} |\n", cell(doc)));
    format!(
        "| {} | {} |\n|---|---|\n{}",
        head[0],
        head[1],
        rows.collect::<String>()
    )
}

/// The plot of README.md, drawn from the table of docs/compare.md.
#[test]
fn plot_of_the_comparison() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("compare.md")).unwrap();
    let svg = measure::report::summary(&page).unwrap();
    let file = docs.join("compare.svg");
    let old = fs::read_to_string(&file).unwrap_or_default();
    keep(&file, &old, &svg);
}

/// Levels of tests.
#[test]
fn testing() {
    use crate::test::levels::{Level, ROWS};
    let mut text =
        "| cases | level | what a failure tells | files |\n|---|---|---|---|\n".to_owned();
    for row in ROWS {
        let level = match row.level {
            Level::Default => "default".to_owned(),
            Level::Slice(slice) => format!("slice {slice}"),
            Level::Spread => "spread".to_owned(),
            Level::Settings => "drawn".to_owned(),
        };
        let names: Vec<String> = row
            .names
            .split(',')
            .map(|name| format!("`{name}`"))
            .collect();
        let reads: Vec<String> = row.reads.iter().map(|file| format!("`{file}`")).collect();
        let (names, reads) = (names.join(", "), reads.join(", "));
        text += &format!("| {names} | {level} | {} | {reads} |\n", row.finds);
    }
    page("testing.md", &[("tools/cli/src/test/levels.rs", text)]);
}

/// Every switch.
fn switches_table() -> String {
    let row = |switch: Switch| {
        let (name, words) = (switch.name(), switch.words());
        let boot = if switch.boot() { "(boot) " } else { "" };
        let doc = cell(switch.doc());
        let default = words[switch.initial() as usize];
        let words = words.join("\\|");
        format!("| `{name}={words}` | {boot}{doc} | `{default}` |\n")
    };
    let rows: String = Switch::all().map(row).collect();
    format!("| switch | what it chooses | default |\n|---|---|---|\n{rows}")
}

/// The settings of the switches that meet in pairs.
fn pairs_table() -> String {
    let row = |switch: Switch| match switch.pairs() {
        Pairs::Settings(settings) => {
            let settings: Vec<String> = settings.iter().map(|one| format!("`{one}`")).collect();
            Some(format!(
                "| `{}` | {} |\n",
                switch.name(),
                settings.join(", ")
            ))
        }
        Pairs::With(_) => None,
    };
    let rows: String = Switch::all().filter_map(row).collect();
    format!("| switch | settings |\n|---|---|\n{rows}")
}

#[test]
fn switches() {
    let tables = [
        ("kernel/switches/src/table.rs", switches_table()),
        ("proof/ktest/src/settings.rs", pairs_table()),
    ];
    page("switches.md", &tables);
}

#[test]
fn counters() {
    let all = table(["counter", "counts"], mm::COUNTERS);
    page("counters.md", &[("kernel/mm/src/stat.rs", all)]);
}

#[test]
fn mutants() {
    assert_eq!(Mutant::ROWS.len(), Mutant::ALL.len());
    let all = table(["mutant", "how it breaks a rule"], Mutant::ROWS);
    page("mutants.md", &[("kernel/mm/src/mutant.rs", all)]);
}

#[test]
fn floor() {
    let tables = [
        ("measure/src/bench/floor/parts.rs", floor::parts::table()),
        ("measure/src/bench/floor/mod.rs", floor::table()),
    ];
    page("floor.md", &tables);
}

#[test]
fn a_page_gets_a_new_table() {
    let page = format!("# Page\n\n{BEGIN}a.rs -->\n\nold\n{END}\nMore.\n");
    let new = with_table(&page, "a.rs", "| new |\n").unwrap();
    assert_eq!(new, page.replace("old\n", "| new |\n\n"));
    assert_eq!(with_table(&new, "a.rs", "| new |\n"), Some(new.clone()));
    assert_eq!(with_table(&page, "b.rs", ""), None);
}

#[test]
fn a_cell_has_links_and_no_full_stop() {
    let doc = [" One|two, see", " docs/folios.md#contpte. Then docs/a.md."];
    assert_eq!(
        cell(&doc),
        "one\\|two, see [folios](folios.md#contpte). Then [a](a.md)"
    );
}
