//! The table of pairs of settings of the memory manager's switches: which of its lines a run tries.
use ktest::settings;
use std::collections::BTreeSet;
use tools::host::arch::Arch;

/// The name of the case with a line of the table of pairs.
pub fn name(arch: Arch, line: usize) -> String {
    format!("user.{arch}.settings.pairs_{line:02}")
}

/// The pairs that the default tries, as few as have every setting of every switch; another `seed`
/// chooses others.
pub fn drawn(seed: u64) -> BTreeSet<String> {
    let of = |arch: Arch| {
        let lines = settings::lines(arch == Arch::Aarch64);
        let cover = cover(&lines, seed);
        cover.into_iter().map(move |line| name(arch, line))
    };
    Arch::ALL.into_iter().flat_map(of).collect()
}

/// Lines that have every word of all of them: always the one with most words that are still
/// missing, of those the first from one on that the seed chooses.
fn cover(lines: &[String], seed: u64) -> Vec<usize> {
    let words = |line: usize| lines[line].split(' ');
    let mut missing: BTreeSet<&str> = (0..lines.len()).flat_map(words).collect();
    let first = (seed % lines.len().max(1) as u64) as usize;
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let order = (0..lines.len()).map(|n| (first + n) % lines.len());
        let gain = |line: &usize| words(*line).filter(|word| missing.contains(word)).count();
        // The last of equal ones is taken.
        let Some(line) = order.rev().max_by_key(gain) else {
            break;
        };
        words(line).for_each(|word| {
            missing.remove(word);
        });
        chosen.push(line);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_every_switch_is_drawn() {
        for contpte in [false, true] {
            let lines = settings::lines(contpte);
            let all: BTreeSet<&str> = lines.iter().flat_map(|line| line.split(' ')).collect();
            let mut seen = BTreeSet::new();
            for seed in [0, 1, 7, u64::MAX] {
                let cover = cover(&lines, seed);
                let words = cover.iter().flat_map(|line| lines[*line].split(' '));
                assert_eq!(words.collect::<BTreeSet<_>>(), all);
                assert!(cover.len() < lines.len() / 3, "{cover:?}");
                seen.extend(cover);
            }
            assert!(seen.len() > lines.len() / 5, "other seeds choose others");
        }
    }
}
