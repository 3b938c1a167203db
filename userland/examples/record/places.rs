//! Places of a trace: as near to each other as they may be, with the same alignment.
use std::collections::{BTreeMap, BTreeSet};
use userland::trace::{Pages, Step};

/// Pages of 1 GiB, by which everything moves.
const GIB: u64 = 1 << 18;

/// The same steps, with every GiB of addresses that none of them uses left out, but for one.
pub fn closer(steps: &[Step]) -> Vec<Step> {
    let mut used = BTreeSet::new();
    let mut note = |pages: Pages| used.extend(pages.at / GIB..pages.end().div_ceil(GIB));
    for step in steps {
        note(step.pages());
        if let Step::Move(_, to) = step {
            note(*to);
        }
    }
    let mut places = BTreeMap::new();
    let (mut place, mut last) = (0, None);
    for gib in used {
        place += match last {
            None => 0,
            Some(last) if last + 1 == gib => 1,
            Some(_) => 2,
        };
        places.insert(gib, place);
        last = Some(gib);
    }
    let near = |pages: Pages| Pages {
        at: places
            .get(&(pages.at / GIB))
            .map_or(0, |place| place * GIB + pages.at % GIB),
        ..pages
    };
    let moved = |step: &Step| match *step {
        Step::Map(pages, prot) => Step::Map(near(pages), prot),
        Step::Unmap(pages) => Step::Unmap(near(pages)),
        Step::Protect(pages, prot) => Step::Protect(near(pages), prot),
        Step::Advise(pages, advice) => Step::Advise(near(pages), advice),
        Step::Move(from, to) => Step::Move(near(from), near(to)),
        Step::Touch(pages) => Step::Touch(near(pages)),
    };
    steps.iter().map(moved).collect()
}

/// How often what happened.
pub fn summary(steps: &[Step]) -> String {
    let mut counts = BTreeMap::<String, (u64, u64)>::new();
    for step in steps {
        let name = match step {
            Step::Advise(_, advice) => format!("Advise {advice}"),
            other => format!("{other:?}")
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        let (times, pages) = counts.entry(name).or_default();
        (*times, *pages) = (*times + 1, *pages + step.pages().count);
    }
    let lines = counts
        .iter()
        .map(|(name, (times, pages))| format!("{name:<10}{times:>8} times{pages:>10} pages"));
    lines.collect::<Vec<_>>().join("\n")
}
