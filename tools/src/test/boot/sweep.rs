//! `./run.sh sweep` with two combinations.
use crate::arch::Arch;
use crate::args::{Install, SweepArgs};
use crate::build::Built;
use crate::sweep::{self, Row};
use crate::test::outcome::Outcome;
use anyhow::{Context, Result, ensure};

/// Writes to pages that a child has, too, and says what one of them cost.
const PROGRAM: &str = "bench --op cow --size 64 --pages 512";
/// The counter that the setting decides about.
const COUNTER: &str = "cow_around_pages";
/// What the program says about the cost of a page.
const OWN: &str = "per_page";

/// `cow=page` copies no neighbours and costs more; both runs ended well and counted instructions.
pub fn check(arch: Arch, built: &Built) -> Result<Outcome> {
    let args = SweepArgs {
        add: Vec::new(),
        run: Some(PROGRAM.to_owned()),
        set: vec!["cow=page,around".to_owned()],
        smp: vec![1],
        arch: Some(arch),
        mem: "512M".to_owned(),
        repeat: 1,
        real_time: false,
        timeout: super::LIMIT.as_secs(),
        csv: None,
        json: None,
        yes: false,
        install: Install { no_install: true },
    };
    let rows = sweep::with_built(&args, built)?;
    let [page, around] = &rows[..] else {
        anyhow::bail!("{} runs", rows.len());
    };
    for row in &rows {
        ensure!(row.passed() && row.instructions, "{}", row.json());
    }
    let counter = |row: &Row| row.json()["counters"][COUNTER].as_u64().unwrap_or(0);
    ensure!(
        counter(page) == 0 && counter(around) > 0,
        "{COUNTER}: {} and {}",
        counter(page),
        counter(around)
    );
    let (page, around) = (own(page)?, own(around)?);
    ensure!(
        page > around,
        "a page costs {page} and {around} instructions"
    );
    Ok(Outcome::Passed)
}

/// What the program says.
fn own(row: &Row) -> Result<f64> {
    let line = row.json();
    let lines = line["own"].as_array().context("no lines")?;
    let found = lines.iter().find_map(|line| line[OWN].as_f64());
    found.with_context(|| line.to_string())
}
