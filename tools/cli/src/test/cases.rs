//! The tracked list of all cases, `proof/cases.txt`: what `--list` prints without a build, what a
//! run expects to find, and how many there are. `./run.sh test --bless` writes it.
use anyhow::{Context, Result};
use ktest::glob;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use tools::host::workspace;

const FILE: &str = "proof/cases.txt";
const HEAD: &str = "# The cases of ./run.sh test, by what their names begin with: written by ./run.sh test --bless.\n";

/// What names begin with, and what follows there.
type Groups = BTreeMap<String, BTreeSet<String>>;

/// Names of cases.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Known(Groups);

impl Known {
    /// Those of the tracked list.
    pub fn tracked() -> Result<Known> {
        let path = workspace::root().join(FILE);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Known::parse(&text))
    }

    /// Groups with the same names share a paragraph: a line with all their beginnings and a colon,
    /// then a name a line, indented.
    fn parse(text: &str) -> Known {
        let mut known = Known::default();
        let mut groups: Vec<&str> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_suffix(':') {
                Some(line) if !line.starts_with(' ') => groups = line.split(' ').collect(),
                _ => {
                    for group in &groups {
                        known.add_to(group, line.trim_start());
                    }
                }
            }
        }
        known
    }

    fn add_to(&mut self, group: &str, rest: &str) {
        let names = self.0.entry(group.to_owned()).or_default();
        names.insert(rest.to_owned());
    }

    /// Adds a name.
    pub fn add(&mut self, name: &str) {
        let (group, rest) = parts(name);
        self.add_to(group, rest);
    }

    /// Whether there is this name.
    pub fn has(&self, name: &str) -> bool {
        let (group, rest) = parts(name);
        self.0.get(group).is_some_and(|names| names.contains(rest))
    }

    /// All names, in order of their groups.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        let of = |(group, names): (&String, &BTreeSet<String>)| {
            let full = |rest: &String| format!("{group}.{rest}");
            names.iter().map(full).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    /// The tracked list as these say it: groups that they have no name of stay.
    pub fn bless(&self) -> Result<()> {
        let mut all = Known::tracked().unwrap_or_default();
        all.0.extend(self.0.clone());
        let path = workspace::root().join(FILE);
        fs::write(&path, all.text()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn text(&self) -> String {
        let mut alike: BTreeMap<&BTreeSet<String>, Vec<&str>> = BTreeMap::new();
        for (group, names) in &self.0 {
            alike.entry(names).or_default().push(group);
        }
        let mut paragraphs: Vec<_> = alike.into_iter().map(|(names, of)| (of, names)).collect();
        paragraphs.sort();
        let mut text = HEAD.to_owned();
        for (groups, names) in paragraphs {
            let _ = writeln!(text, "{}:", groups.join(" "));
            names.iter().for_each(|name| text += &format!("  {name}\n"));
        }
        text
    }

    /// Where a run, which found `self`, differs from a list: `+` a name that the list has not, `-`
    /// one of those that were `expected` and are not there.
    pub fn differences<'a>(
        &self,
        listed: &BTreeMap<String, bool>,
        expected: impl Iterator<Item = &'a String>,
    ) -> Vec<String> {
        let new = self.names().filter(|name| !listed.contains_key(name));
        let gone = expected.filter(|name| !self.has(name));
        let new = new.map(|name| format!("+ {name}"));
        new.chain(gone.map(|name| format!("- {name}"))).collect()
    }
}

/// A name's group and the rest of it. The paths in names of examples have full stops, too.
fn parts(name: &str) -> (&str, &str) {
    match name.strip_prefix("host.doc.") {
        Some(rest) => ("host.doc", rest),
        None => name.rsplit_once('.').unwrap_or(("", name)),
    }
}

/// Whether a name that begins with `prefix` can match a pattern of `filter`: a beginning of the
/// pattern matches the prefix.
pub fn may_fit(filter: &str, prefix: &str) -> bool {
    filter.split(',').any(|pattern| {
        let mut ends = (0..=pattern.len()).filter_map(|end| pattern.get(..end));
        ends.any(|beginning| glob::matches(beginning, prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Known {
        let mut known = Known::default();
        names.iter().for_each(|name| known.add(name));
        known
    }

    #[test]
    fn groups_with_the_same_names_stand_once() {
        let names = ["a.x.one", "a.x.two", "a.y.one", "b.x.one", "b.x.two"];
        let known = known(&names);
        let text = known.text();
        assert_eq!(
            text.strip_prefix(HEAD),
            Some("a.x b.x:\n  one\n  two\na.y:\n  one\n")
        );
        assert_eq!(Known::parse(&text), known);
        assert!(known.has("b.x.two") && !known.has("a.y.two"));
    }

    #[test]
    fn what_a_run_finds_is_held_against_the_list() {
        let listed = known(&["a.one", "a.two", "b.one"]);
        let listed = listed.names();
        let listed = listed.map(|name| (name, true)).collect();
        let found = known(&["a.one", "a.three"]);
        let expected = ["a.one".to_owned(), "a.two".to_owned()];
        assert_eq!(
            found.differences(&listed, expected.iter()),
            ["+ a.three", "- a.two"]
        );
        // An example in a file whose name has a full stop.
        let example = "host.doc.kernel/mm/src/addr.rs:addr.Order";
        assert_eq!(parts(example).0, "host.doc");
    }

    #[test]
    fn levels_that_a_filter_can_mean() {
        assert!(may_fit("*", "host."));
        assert!(may_fit("*.buddy*", "kernel.x86_64."));
        assert!(may_fit("kernel.*", "kernel.aarch64."));
        assert!(!may_fit("kernel.*", "host."));
        assert!(may_fit("kernel.x86_64.mm.a,host.*", "host."));
        assert!(!may_fit(
            "user.x86_64.boot.no_init",
            "user.x86_64.programs."
        ));
    }
}
