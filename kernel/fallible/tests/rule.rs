//! What the kernel asks of the heap so that it may be refused, it asks this crate for: the
//! allocator must hear of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Ways around the crate: an allocator that hears nothing takes the reserve.
const FORBIDDEN: &[&str] = &[".try_reserve(", ".try_reserve_exact("];

fn sources(at: &Path) -> Vec<PathBuf> {
    if at.is_dir() {
        let entries = fs::read_dir(at).expect("a folder that lists");
        return entries
            .flat_map(|entry| sources(&entry.expect("an entry").path()))
            .collect();
    }
    vec![at.to_path_buf()]
}

#[test]
fn the_allocator_hears_of_what_may_be_refused() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for folder in ["src", "mm/src", "parts/src", "screen/src"] {
        for path in sources(&kernel.join(folder)) {
            seen += 1;
            let text = fs::read_to_string(&path).expect("a source file");
            let lines = text.lines().enumerate();
            let bad = lines.filter(|(_, line)| FORBIDDEN.iter().any(|word| line.contains(word)));
            wrong.extend(bad.map(|(n, line)| format!("{}:{}: {line}", path.display(), n + 1)));
        }
    }
    assert!(seen > 200, "the kernel's sources were not found");
    assert!(
        wrong.is_empty(),
        "use the crate `fallible`:\n{}",
        wrong.join("\n")
    );
}
