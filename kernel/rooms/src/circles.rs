//! Import circles: modules that import each other, directly or through others. What a module
//! names of the modules inside it does not count.

use crate::Source;
use std::collections::{BTreeMap, BTreeSet};

/// For each module the modules that it imports; a module is a file.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// A circle among the imports of `sources`, each module followed by one that it imports and the
/// last by the first; `None` when there is none.
pub fn find(sources: &[Source]) -> Option<Vec<String>> {
    let arrows = arrows(sources);
    let mut search = Search::default();
    arrows
        .keys()
        .find_map(|module| search.from(module, &arrows))
}

fn arrows(sources: &[Source]) -> Arrows {
    let modules: BTreeSet<&[String]> = sources.iter().map(|s| &s.module[..]).collect();
    let mut arrows = Arrows::new();
    for source in sources {
        let imported = source.imports.iter().filter_map(|import| {
            // The item's own module: the longest beginning of the path that is one.
            let lengths = (1..=import.path.len()).rev();
            let module = lengths
                .map(|n| &import.path[..n])
                .find(|path| modules.contains(path))?;
            (module != source.module).then(|| module.join("::"))
        });
        let known = arrows.entry(source.module.join("::")).or_default();
        known.extend(imported);
    }
    arrows
}

/// A search in depth.
#[derive(Default)]
struct Search {
    /// The way from where the search began.
    way: Vec<String>,
    /// Modules from which no circle can be reached.
    done: BTreeSet<String>,
}

impl Search {
    fn from(&mut self, module: &str, arrows: &Arrows) -> Option<Vec<String>> {
        if let Some(at) = self.way.iter().position(|above| above == module) {
            return Some(self.way[at..].to_vec());
        }
        if self.done.contains(module) {
            return None;
        }
        self.way.push(module.to_owned());
        let next = arrows.get(module).into_iter().flatten();
        for imported in next {
            if let Some(circle) = self.from(imported, arrows) {
                return Some(circle);
            }
        }
        self.way.pop();
        self.done.insert(module.to_owned());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(module: &str, text: &str) -> Source {
        let module: Vec<String> = module.split("::").map(String::from).collect();
        Source {
            file: "x.rs".into(),
            imports: crate::imports(&module, text),
            module,
        }
    }

    #[test]
    fn a_circle_through_three() {
        let mut sources = vec![
            source("m::a", "use super::b::item;\nuse crate::d;"),
            source("m::b", "sym super::c::handler"),
            source("m::c", "use super::{d, e::E};\nuse crate::d::of_the_root;"),
            source("m::d", ""),
            source("m::e", "use crate::m::d::x;"),
            source("d", "fn f() { super::d::itself() }"),
        ];
        assert_eq!(find(&sources), None);
        sources.push(source("m::e", "use super::a;"));
        let circle = ["m::a", "m::b", "m::c", "m::e"].map(String::from);
        assert_eq!(find(&sources), Some(circle.to_vec()));
    }
}
