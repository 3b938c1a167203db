//! A room imports only rooms above it: the order of the table on the crate's first page, read from
//! there.

use std::fs;
use std::path::Path;

/// The rooms in the order of the table in `lib.rs`.
fn order(lib: &str) -> Vec<String> {
    let row = |line: &str| {
        Some(
            line.strip_prefix("//! | [`")?
                .split_once("`]")?
                .0
                .to_string(),
        )
    };
    lib.lines().filter_map(row).collect()
}

#[test]
fn no_upward_imports() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms = order(&fs::read_to_string(src.join("lib.rs")).expect("lib.rs"));
    assert!(
        rooms.len() >= 14,
        "the table in lib.rs was not found: {rooms:?}"
    );
    let place_of = |name: &String| rooms.iter().position(|room| room == name);
    let mut seen = 0;
    let mut wrong = Vec::new();
    for source in rooms::read(&src) {
        let Some(name) = source.module.first() else {
            continue;
        };
        let place =
            place_of(name).unwrap_or_else(|| panic!("room {name} is not in the table of lib.rs"));
        for import in source.imports.iter().filter(|import| import.absolute) {
            seen += 1;
            let other = import.path.first().and_then(place_of);
            if other.is_none_or(|other| other > place) {
                let (file, line) = (source.file.display(), import.line);
                wrong.push(format!("{file}:{line}: {name} imports {:?}", import.path));
            }
        }
    }
    assert!(seen > 100, "only {seen} imports were found");
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}
