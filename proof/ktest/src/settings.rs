//! The settings of the memory manager that are tried in pairs: in the kernel by their words on its
//! command line, on the host by the same words.

use crate::pairwise;
use alloc::string::String;
use alloc::vec::Vec;
use switches::{Pairs, Switch};

/// The settings of each switch that has some of its own.
fn settings(contpte: bool) -> Vec<&'static [&'static str]> {
    let switches = Switch::all().filter(|switch| contpte || *switch != Switch::Contpte);
    let settings = switches.filter_map(|switch| match switch.pairs() {
        Pairs::Settings(settings) => Some(settings),
        Pairs::With(_) => None,
    });
    settings.collect()
}

/// The lines of a set in which each two settings meet: `NAME=WORD` for each switch. `contpte`: the
/// machine has contiguous blocks; without them their switch does nothing.
pub fn lines(contpte: bool) -> Vec<String> {
    let settings = settings(contpte);
    let sizes: Vec<usize> = settings.iter().map(|one| one.len()).collect();
    let line = |row: Vec<usize>| {
        let words: Vec<&str> = row.iter().zip(&settings).map(|(&n, s)| s[n]).collect();
        words.join(" ")
    };
    pairwise::rows(&sizes).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_with_every_setting() {
        for contpte in [false, true] {
            let lines = lines(contpte);
            assert!((44..52).contains(&lines.len()), "{lines:#?}");
            let meet = |a: &str, b: &str| lines.iter().any(|l| l.contains(a) && l.contains(b));
            assert!(meet("account=two-slot", "fork=share"));
            assert!(meet("account=owner", "move=pmd") && meet("move=pud", "fork=share"));
            assert!(meet("subids=lookup", "reuse=page"));
            assert_eq!(meet("contpte=off", "zap=per-pte"), contpte);
        }
    }
}
