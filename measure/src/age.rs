//! `./run.sh age`: a machine's life with each policy of page blocks (`measure/trial/src/age`).
use crate::{columns, trial};
use anyhow::{Context, Result};
use tools::args::AgeArgs;

/// Lives and prints a table, a row for each policy.
pub fn age(args: &AgeArgs) -> Result<u8> {
    let events = match args.long {
        true => args.events.saturating_mul(10),
        false => args.events,
    };
    let [events, seed] = [events, args.seed].map(|number| number.to_string());
    let csv = args.csv.as_deref();
    trial::run("age", &[&events, &seed], csv, "living", table)
}

fn mean(figures: &[f64]) -> f64 {
    // A sum of none is -0.
    figures.iter().fold(0.0, |sum, it| sum + it) / figures.len().max(1) as f64
}

/// The headings; the figures of a life are means of its rows.
const HEADINGS: [&str; 9] = [
    "policy", "2 MiB", "at last", "64 kB", "spoiled", "at least", "GiB", "moved", "in vain",
];

/// A row for each policy: percent of the blocks wanted that were had, in all and in the last
/// quarter; pageblocks with memory that stays, those that this would fill, and GiB with some of it;
/// frames moved, in thousands, and percent of them in vain.
fn table(text: &str) -> Result<String> {
    let mut rows = vec![(HEADINGS.map(str::to_owned).to_vec(), String::new())];
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let (mut lives, mut last) = (Vec::<(String, Vec<[f64; 11]>)>::new(), String::new());
    for record in reader.records() {
        let record = record?;
        let mut row = [0.0; 11];
        for (to, from) in row.iter_mut().zip(record.iter().skip(1)) {
            *to = from.parse()?;
        }
        if last != record[0] {
            last = record[0].to_owned();
            lives.push((last.clone(), Vec::new()));
        }
        lives.last_mut().context("a life has a name")?.1.push(row);
    }
    for (name, life) in lives {
        let had = |rows: &[[f64; 11]], wanted: usize| {
            let rows = rows.iter().filter(|row| row[wanted] != 0.0);
            let ratios = Vec::from_iter(rows.map(|row| row[wanted + 1] / row[wanted]));
            format!("{:.1}", 100.0 * mean(&ratios))
        };
        let mean_of = |at: usize| {
            let figures = Vec::from_iter(life.iter().map(|row| row[at]));
            format!("{:.0}", mean(&figures))
        };
        let [.., moved, in_vain] = life.last().copied().unwrap_or_default();
        let cells = vec![
            name,
            had(&life, 2),
            had(&life[life.len() * 3 / 4..], 2),
            had(&life, 4),
            mean_of(6),
            mean_of(8),
            mean_of(7),
            format!("{:.0}", moved / 1e3),
            format!("{:.1}", 100.0 * in_vain / moved.max(1.0)),
        ];
        rows.push((cells, String::new()));
    }
    Ok(columns::aligned(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_a_row() {
        let text = "policy,event,used,huge,huge_had,mid,mid_had,spoiled,gigabytes,least,moved,in_vain\n\
                    one,1,9,4,4,2,1,10,2,5,1000,100\n\
                    one,2,9,0,0,2,2,20,4,5,4000,400\n\
                    two,2,9,4,1,2,2,20,4,5,0,0\n";
        let expected = "policy  2 MiB  at last  64 kB  spoiled  at least  GiB  moved  in vain\n\
                        one     100.0      0.0   75.0       15         5    3      4     10.0\n\
                        two      25.0     25.0  100.0       20         5    4      0      0.0\n";
        assert_eq!(table(text).unwrap(), expected);
    }
}
