//! Import circles: modules that import each other, directly or through others. What a module
//! names of the modules inside it does not count.

use crate::Source;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};

/// The circles among the imports of `sources`: groups of modules of which each imports all others,
/// directly or through others, with their names in order. A module is a file.
pub fn all(sources: &[Source]) -> Vec<Vec<String>> {
    let arrows = arrows(sources);
    let edges = arrows.iter().flat_map(|(module, imported)| {
        imported
            .iter()
            .map(move |imported| (&**module, &**imported))
    });
    let graph = DiGraphMap::<&str, ()>::from_edges(edges);
    let groups = tarjan_scc(&graph)
        .into_iter()
        .filter(|group| group.len() > 1);
    let groups = groups.map(|group| BTreeSet::from_iter(group.into_iter().map(str::to_owned)));
    let groups: BTreeSet<BTreeSet<String>> = groups.collect();
    groups.into_iter().map(Vec::from_iter).collect()
}

/// For each module the modules that it imports.
type Arrows = BTreeMap<String, BTreeSet<String>>;

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
    fn circles_through_two_and_through_four() {
        let mut sources = vec![
            source("m::a", "use super::b::item;\nuse crate::d;"),
            source("m::b", "sym super::c::handler"),
            source("m::c", "use super::{d, e::E};\nuse crate::d::of_the_root;"),
            source("m::d", ""),
            source("m::e", "use crate::m::d::x;"),
            source("d", "fn f() { super::d::itself() }"),
        ];
        assert!(all(&sources).is_empty());
        sources.push(source("m::e", "use super::a;"));
        let circle = ["m::a", "m::b", "m::c", "m::e"].map(String::from);
        assert_eq!(all(&sources), [circle.to_vec()]);
        sources.push(source("d", "use crate::f;"));
        sources.push(source("f", "use crate::d;"));
        let other = ["d", "f"].map(String::from);
        assert_eq!(all(&sources), [other.to_vec(), circle.to_vec()]);
    }
}
