//! What ARCHITECTURE.md and CONTRIBUTING.md claim of the source, where neither the compiler nor
//! clippy checks it.

mod common;

use common::{between, crates, files, table, text};
use std::collections::BTreeSet;

/// Each place where the code of a file under `folder` holds one of `words`, but for the files whose
/// paths begin with one of `rooms`. A word is no part of a longer one.
fn found(folder: &str, words: &[&str], rooms: &[&str]) -> Vec<String> {
    let mut places = Vec::new();
    for file in files(folder) {
        if rooms.iter().any(|room| file.path.starts_with(room)) {
            continue;
        }
        for (number, line) in file.code.lines().enumerate() {
            let held = words.iter().filter(|word| has_word(line, word));
            places.extend(held.map(|word| format!("{}:{}: {word}", file.path, number + 1)));
        }
    }
    places
}

fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inner = word.chars().next().is_some_and(is_name) && before.is_some_and(is_name);
        let longer = word.chars().next_back().is_some_and(is_name) && after.is_some_and(is_name);
        !inner && !longer
    })
}

const NOTHING: [String; 0] = [];

#[test]
fn the_memory_manager_knows_no_machine() {
    let words = [
        "target_arch",
        "asm!",
        "global_asm!",
        "naked_asm!",
        "core::arch",
    ];
    assert_eq!(found("kernel/mm/src", &words, &[]), NOTHING);
}

#[test]
fn pure_crates_know_no_target() {
    let words = ["target_arch", "target_os", "unsafe", "core::arch"];
    let crates = [
        "kernel/parts",
        "kernel/screen",
        "kernel/switches",
        "proof/ktap",
        "proof/rooms",
    ];
    for name in crates {
        assert_eq!(found(&format!("{name}/src"), &words, &[]), NOTHING);
    }
}

#[test]
fn one_file_of_the_memory_manager_names_atomics() {
    let words = [
        "sync::atomic",
        "portable_atomic",
        "loom::",
        "shuttle::",
        "std::sync",
    ];
    assert_eq!(
        found("kernel/mm/src", &words, &["kernel/mm/src/sync"]),
        NOTHING
    );
    assert!(
        found("kernel/mm/src", &words, &[]).len() > 1,
        "the words are not the code's"
    );
}

/// Writing an entry, and making or reading its bits.
#[test]
fn only_tables_hold_raw_entries() {
    let seam = between(
        &text("kernel/mm/src/arch/format.rs"),
        "pub trait PteFormat",
        "\n}\n",
    )
    .to_owned();
    let functions = seam.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("fn ")?.split('(').next()?;
        Some(format!("Pte::{name}"))
    });
    let mut words: Vec<String> = functions.collect();
    assert!(words.len() > 8, "{words:?}");
    let seam = between(
        &text("kernel/mm/src/arch/mem.rs"),
        "pub trait PhysMem",
        "\n}\n",
    )
    .to_owned();
    let runs = seam.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("fn ")?.split('(').next()?;
        name.contains("_run").then(|| format!(".{name}("))
    });
    words.extend(runs);
    for verb in ["store", "store_again", "swap", "compare_exchange"] {
        words.extend(["mem()", "mem"].map(|mem| format!("{mem}.{verb}(")));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rooms = ["kernel/mm/src/table/", "kernel/mm/src/arch/"];
    assert_eq!(found("kernel/mm/src", &words, &rooms), NOTHING);
    assert!(
        found("kernel/mm/src/table", &words, &[]).len() > 8,
        "the words are not the code's"
    );
}

/// The policy of folio orders sees facts and nothing else.
#[test]
fn the_policy_is_a_pure_function() {
    let policy = files("kernel/mm/src/thp");
    let policy = policy.iter().find(|file| file.path.ends_with("policy.rs"));
    let policy = &policy.expect("thp/policy.rs").code;
    for word in [
        "crate::sync",
        "crate::arch",
        "crate::manager",
        "static",
        "Cell",
        "Machine",
    ] {
        assert!(!policy.lines().any(|line| has_word(line, word)), "{word}");
    }
}

/// `unsafe` is denied in the workspace, and allowed again in the rooms that CONTRIBUTING.md names.
#[test]
fn unsafe_has_rooms() {
    let lints = text("Cargo.toml");
    for lint in [
        "unsafe_code = \"deny\"",
        "undocumented_unsafe_blocks = \"warn\"",
    ] {
        assert!(lints.contains(lint), "{lint}");
    }
    let mut allowing = BTreeSet::new();
    for member in crates() {
        let manifest = text(&format!("{member}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{member}");
        for file in files(&format!("{member}/src")) {
            if ["allow(unsafe_code", "expect(unsafe_code"]
                .iter()
                .any(|word| file.code.contains(word))
            {
                allowing.insert(file.path);
            }
        }
    }
    let page = text("CONTRIBUTING.md");
    let list = between(&page, "- `unsafe` only where", "Each block");
    let rooms = list.split('`').skip(3).step_by(2).flat_map(alternatives);
    let rooms: Vec<String> = rooms
        .map(|room| room.trim_end_matches(".rs").to_owned())
        .collect();
    for room in &rooms {
        assert!(
            allowing.iter().any(|file| file.starts_with(room)),
            "{room} has no unsafe code"
        );
    }
    for file in &allowing {
        assert!(
            rooms.iter().any(|room| file.starts_with(room)),
            "{file} is no room for unsafe code"
        );
    }
}

/// `a/{b,c}.rs` as its two names.
fn alternatives(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (names, after) = rest.split_once('}').expect("a brace that closes");
    let names = names.split(',');
    names.map(|name| format!("{before}{name}{after}")).collect()
}

/// The crates stand on the map's first table in the order of their dependencies.
#[test]
fn a_crate_uses_those_above_it() {
    let page = text("ARCHITECTURE.md");
    let rows = between(&page, "```\n", "\n```");
    let place_of = |member: &str| {
        let row = format!("{member}/ ");
        let row = if member == "kernel" {
            "kernel/src/ ".to_owned()
        } else {
            row
        };
        let place = rows.lines().position(|line| line.starts_with(&row));
        place.unwrap_or_else(|| panic!("{member} is not in the first table of ARCHITECTURE.md"))
    };
    let workspace = text("Cargo.toml");
    let own = |name: &str| {
        let line = table(&workspace, "workspace.dependencies")
            .find(|line| line.starts_with(&format!("{name} = {{ path = ")))?;
        line.split('"').nth(1).map(str::to_owned)
    };
    let mut arrows = 0;
    for member in crates() {
        let manifest = text(&format!("{member}/Cargo.toml"));
        let tables = manifest.split("\n[").filter(|table| {
            let name = table.split(']').next().unwrap_or_default();
            name.ends_with("dependencies") && !name.contains("dev-")
        });
        for line in tables.flat_map(str::lines) {
            let name = line.split(['.', ' ']).next().unwrap_or_default();
            if let Some(used) = own(name) {
                arrows += 1;
                assert!(place_of(&used) < place_of(&member), "{member} uses {used}");
            }
        }
    }
    assert!(arrows > 20, "only {arrows} dependencies were found");
}

/// Why a crate of others was chosen stands in a line where it is declared.
#[test]
fn each_dependency_has_a_reason() {
    let workspace = text("Cargo.toml");
    let mut manifests = vec![table(&workspace, "workspace.dependencies").collect::<Vec<_>>()];
    let members: Vec<String> = crates()
        .iter()
        .map(|m| text(&format!("{m}/Cargo.toml")))
        .collect();
    manifests.extend(
        members
            .iter()
            .map(|manifest| table(manifest, "dependencies").collect()),
    );
    let mut external = 0;
    for lines in manifests {
        for pair in lines.windows(2) {
            let declares = pair[1].contains(" = ") && pair[1].contains("\"");
            if declares && !pair[1].contains("path = ") && !pair[1].contains("workspace = true") {
                external += 1;
                assert!(
                    pair[0].starts_with("# "),
                    "{} has no reason above it",
                    pair[1]
                );
            }
        }
    }
    assert!(external > 25, "only {external} declarations were found");
}

/// The ranks of locks: the kernel's from 100 to 199, the memory manager's from 200 as its table
/// says.
#[test]
fn ranks_of_locks() {
    let ranks = |path: &str, from: &str| -> Vec<(String, u8)> {
        let source = text(path);
        let lines = between(&source, from, "\n}\n").lines().filter_map(|line| {
            let (name, rank) = line
                .trim_start()
                .strip_prefix("pub const ")?
                .split_once(": u8 = ")?;
            Some((name.to_owned(), rank.trim_end_matches(';').parse().ok()?))
        });
        lines.collect()
    };
    let kernel = ranks("kernel/src/base/ranks.rs", "//!");
    assert!(
        kernel.len() > 10 && kernel.is_sorted_by(|a, b| a.1 < b.1),
        "{kernel:?}"
    );
    for (name, rank) in kernel {
        assert!((100..200).contains(&rank) || name == "LOG", "{name} {rank}");
    }
    let manager = ranks("kernel/mm/src/sync.rs", "pub mod rank {");
    assert!(manager.is_sorted_by(|a, b| a.1 < b.1), "{manager:?}");
    let page = text("kernel/mm/src/lib.rs");
    let rows = between(&page, "//! # The lock order", "\n//!\n//! Two locks");
    let rows = rows
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split_once(" [`sync::rank::"));
    let rows: Vec<(String, u8)> = rows
        .map(|(rank, rest)| {
            (
                between(rest, "", "`]").to_owned(),
                rank.parse().expect("a rank"),
            )
        })
        .collect();
    assert_eq!(rows, manager);
}

/// /proc and /sys read everything and are read by nothing.
#[test]
fn nothing_reads_the_views() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/src");
    for source in rooms::read(&src) {
        if source.module.first().is_some_and(|floor| floor == "views") {
            continue;
        }
        for import in &source.imports {
            let path = import.path.join("::");
            assert!(
                !path.starts_with("views"),
                "{}: {path}",
                source.file.display()
            );
        }
    }
}

/// Each trait by which a floor asks those above it is implemented where the map says.
#[test]
fn questions_to_floors_above_are_answered_where_the_map_says() {
    let page = text("ARCHITECTURE.md");
    let table = between(&page, "| trait | asked by | answered by |", "\n\n");
    let mut rows = 0;
    for row in table.lines().filter(|row| row.starts_with("| `")) {
        let file = row.rsplit('`').nth(1).expect("a file in backticks");
        let code = text(&format!("kernel/src/{file}"));
        let named = row.split('`').nth(1).expect("a trait in backticks");
        let names = alternatives(named);
        for name in names {
            let name = name.rsplit("::").next().unwrap_or(&name).to_owned();
            let last = name.trim();
            rows += 1;
            let answered = code
                .lines()
                .any(|line| line.starts_with("impl ") && has_word(line, last));
            assert!(answered, "{file} implements no {last}");
        }
    }
    assert!(rows > 6, "only {rows} traits were found");
}

/// What of a machine the map names in both is a file in both.
#[test]
fn the_same_names_in_both_machines() {
    let page = text("ARCHITECTURE.md");
    let row = between(&page, "\narch/aarch64/ ", "\n");
    let names: Vec<&str> = row.split(',').map(str::trim).collect();
    assert!(names.len() > 10, "{names:?}");
    let mut both: BTreeSet<String> = BTreeSet::new();
    for (n, machine) in ["x86_64", "aarch64"].into_iter().enumerate() {
        let here = files(&format!("arch/{machine}/src/machine"));
        let here: BTreeSet<String> = here
            .iter()
            .filter_map(|file| {
                Some(
                    file.path
                        .rsplit('/')
                        .next()?
                        .strip_suffix(".rs")?
                        .to_owned(),
                )
            })
            .filter(|name| name != "mod")
            .collect();
        both = if n == 0 {
            here
        } else {
            both.intersection(&here).cloned().collect()
        };
    }
    assert_eq!(
        names
            .into_iter()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>(),
        both
    );
}
