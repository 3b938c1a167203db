//! Which switches of the memory manager are tried in pairs: in the kernel by their words on its command line, on the host by
//! the same words.

use crate::pairwise;
use alloc::string::String;
use alloc::vec::Vec;

/// Switches and their settings. Some of the account's are boot-only words of one of its schemes, so they stand together.
const SWITCHES: &[&[&str]] = &[
    &[
        "account=unified",
        "account=digits",
        "account=digits subids=lookup writer=shared seq=cmpxchg",
        "account=two-slot",
        "account=owner",
        "account=total",
        "account=per-page",
        "account=unified mapcounts=atomic",
        "account=total mapcounts=atomic",
        "account=digits mapcounts=atomic",
        "account=digits mapcounts=seqcount",
    ],
    &["fork=per-pte", "fork=batch", "fork=share"],
    &["zap=per-pte", "zap=batch"],
    &["refs=batch rmap=batch", "refs=per-pte", "rmap=per-pte"],
    &["split=per-pte", "split=batch"],
    &["cow=page", "cow=around"],
    &["reuse=page", "reuse=around"],
    &["ids=32766", "ids=1"],
    &["contpte=on", "contpte=off"],
];

/// The lines of a set in which each two settings meet: `NAME=WORD` for each switch. `contpte`: the machine has contiguous blocks;
/// without them their switch, the last, does nothing.
pub fn lines(contpte: bool) -> Vec<String> {
    let switches = &SWITCHES[..SWITCHES.len() - usize::from(!contpte)];
    let sizes: Vec<usize> = switches.iter().map(|settings| settings.len()).collect();
    let line = |row: Vec<usize>| {
        let words: Vec<&str> = row.iter().zip(switches).map(|(&n, s)| s[n]).collect();
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
            assert!((33..40).contains(&lines.len()), "{lines:#?}");
            let meet = |a: &str, b: &str| lines.iter().any(|l| l.contains(a) && l.contains(b));
            assert!(meet("account=two-slot", "fork=share"));
            assert!(meet("subids=lookup", "reuse=page"));
            assert_eq!(meet("contpte=off", "zap=per-pte"), contpte);
        }
    }
}
