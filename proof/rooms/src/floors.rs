//! Floors: the modules at a crate's root in an order, each of which names only those below it.

use crate::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The machine's crate under one name, for both: below all floors.
const GROUND: &str = "arch";

/// The floors in the order of the table in ARCHITECTURE.md, whose text `map` is: the lowest first.
pub fn order(map: &str) -> Vec<&str> {
    let section = map.split("\n## Floors").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter_map(floor_in).collect()
}

fn floor_in(row: &str) -> Option<&str> {
    Some(row.strip_prefix("| `")?.split_once("/` |")?.0)
}

/// The floor of a module. The crate's root and the in-kernel tests belong to the highest one.
fn floor_of(floors: &[&str], module: &[String]) -> usize {
    let Some(floor) = module.first().filter(|name| *name != "tests") else {
        return floors.len() - 1;
    };
    let place = floors.iter().position(|name| name == floor);
    place.unwrap_or_else(|| panic!("{floor} is not in the table of ARCHITECTURE.md"))
}

/// Each upward arrow, from module to module, with a file and line of it.
pub fn upward(floors: &[&str], sources: &[Source]) -> BTreeMap<String, String> {
    let modules: BTreeSet<&[String]> = sources.iter().map(|s| &s.module[..]).collect();
    let mut found = BTreeMap::new();
    for source in sources {
        let floor = floor_of(floors, &source.module);
        for import in &source.imports {
            let path = &import.path;
            let known = (1..=path.len())
                .rev()
                .find(|n| modules.contains(&path[..*n]));
            let other = match known {
                Some(n) => &path[..n],
                // An item of the root, unless a module inside the file means its own file.
                None if import.absolute && path.first().is_some_and(|name| name != GROUND) => &[],
                None => continue,
            };
            if floor_of(floors, other) > floor {
                let arrow = format!("{} -> {}", source.module.join("::"), other.join("::"));
                found
                    .entry(arrow)
                    .or_insert_with(|| format!("{}:{}", source.file.display(), import.line));
            }
        }
    }
    found
}
