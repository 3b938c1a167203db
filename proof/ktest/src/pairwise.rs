//! Pairwise covering sets: few combinations of settings in which every two settings of different
//! switches meet.
//!
//! Most mistakes that need a combination need one of two settings (Kuhn, Wallace, Gallo: "Software
//! Fault Interactions and Implications for Software Testing", IEEE TSE 30(6), 2004), and all
//! combinations would be too many to try.

use alloc::vec;
use alloc::vec::Vec;

/// Combinations for switches with `sizes[i]` settings each, as rows of one setting a switch. Each
/// two settings of different switches occur in at least one row. Greedy, the same on every call;
/// about as many rows as the two largest sizes multiplied.
pub fn rows(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut left = pairs(sizes);
    let mut rows = Vec::new();
    while let Some(&(first, second)) = left.first() {
        let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
        (row[first.0], row[second.0]) = (Some(first.1), Some(second.1));
        for switch in 0..sizes.len() {
            if row[switch].is_none() {
                row[switch] = best(&left, &row, switch, sizes[switch]);
            }
        }
        let row: Vec<usize> = row.into_iter().map(Option::unwrap_or_default).collect();
        left.retain(|(a, b)| row[a.0] != a.1 || row[b.0] != b.1);
        rows.push(row);
    }
    rows
}

/// A switch and one of its settings.
type Setting = (usize, usize);

/// Every two settings of different switches.
fn pairs(sizes: &[usize]) -> Vec<(Setting, Setting)> {
    let all = |switch: usize| (0..sizes[switch]).map(move |setting| (switch, setting));
    let mut pairs = Vec::new();
    for low in 0..sizes.len() {
        for high in low + 1..sizes.len() {
            pairs.extend(all(low).flat_map(|a| all(high).map(move |b| (a, b))));
        }
    }
    pairs
}

/// The setting of `switch` that covers most of the remaining pairs with the settings that the row
/// has.
fn best(
    left: &[(Setting, Setting)],
    row: &[Option<usize>],
    switch: usize,
    settings: usize,
) -> Option<usize> {
    let met = |setting: usize| {
        let has = |s: &Setting| *s == (switch, setting);
        let meets = |s: &Setting| row[s.0] == Some(s.1);
        left.iter()
            .filter(|(a, b)| has(a) && meets(b) || meets(a) && has(b))
            .count()
    };
    // Of equals the first: the set is the same every time.
    (0..settings).rev().max_by_key(|&setting| met(setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[usize]) -> usize {
        let rows = rows(sizes);
        for row in &rows {
            assert!(row.len() == sizes.len() && row.iter().zip(sizes).all(|(n, size)| n < size));
        }
        for (a, b) in pairs(sizes) {
            let together = rows.iter().any(|row| row[a.0] == a.1 && row[b.0] == b.1);
            assert!(together, "{a:?} and {b:?} of {sizes:?} never meet");
        }
        rows.len()
    }

    #[test]
    fn every_two_settings_meet() {
        assert_eq!(check(&[2, 3]), 6);
        assert_eq!(check(&[4]), 0);
        assert_eq!(check(&[]), 0);
        assert!(check(&[2; 8]) <= 9);
        assert!(check(&[5, 3, 2, 2, 2]) <= 17);
        assert!(check(&[5, 3, 2, 2, 2, 2]) <= 18);
        assert!(check(&[2, 2, 3, 5]) <= 17);
    }

    #[test]
    fn the_same_every_time() {
        assert_eq!(rows(&[3, 2, 2]), rows(&[3, 2, 2]));
    }
}
