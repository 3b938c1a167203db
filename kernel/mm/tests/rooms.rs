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

/// Every path `crate::room...` in the text, tests and comments left out, with its line.
fn imports(text: &str) -> Vec<(usize, String)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        for part in line.split("crate::").skip(1) {
            let room: String = part
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            assert!(
                !room.is_empty(),
                "line {}: write `use crate::room`, one room per line",
                number + 1
            );
            found.push((number + 1, room));
        }
    }
    found
}

fn sources(room: &Path) -> Vec<std::path::PathBuf> {
    if room.is_dir() {
        let entries = fs::read_dir(room).expect("a room that lists");
        return entries
            .flat_map(|e| sources(&e.expect("an entry").path()))
            .collect();
    }
    vec![room.to_path_buf()]
}

#[test]
fn no_upward_imports() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms = order(&fs::read_to_string(src.join("lib.rs")).expect("lib.rs"));
    assert!(
        rooms.len() >= 14,
        "the table in lib.rs was not found: {rooms:?}"
    );
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&src).expect("src") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .and_then(|s| s.to_str())
            .expect("a name")
            .to_string();
        if name == "lib" {
            continue;
        }
        let place = rooms
            .iter()
            .position(|r| *r == name)
            .unwrap_or_else(|| panic!("room {name} is not in the table of lib.rs"));
        for file in sources(&path) {
            for (line, room) in imports(&fs::read_to_string(&file).expect("a source file")) {
                seen += 1;
                let other = rooms.iter().position(|r| *r == room);
                if other.is_none_or(|other| other > place) {
                    wrong.push(format!("{}:{line}: {name} imports {room}", file.display()));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} imports were found");
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

#[test]
fn an_upward_import_would_be_seen() {
    let text = "use crate::space::AddressSpace; // crate::no\nfn f() { crate::fault::x() }\n#[cfg(test)]\nuse crate::check;";
    assert_eq!(
        imports(text),
        [(1, "space".to_string()), (2, "fault".to_string())]
    );
}
