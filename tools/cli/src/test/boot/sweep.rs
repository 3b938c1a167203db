//! `./run.sh sweep`: two values of a switch with one and with two CPUs, and ctrl-c.
use anyhow::{Context, Result, ensure};
use measure::sweep::{self, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use tools::args::{Install, SweepArgs};
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;

/// Writes to pages that a child has, too, and says what one of them cost.
const PROGRAM: &str = "bench --op cow --size 64 --pages 512";
/// The counter that the setting decides about.
const COUNTER: &str = "cow_around_pages";
/// What the program says about the cost of a page.
const OWN: &str = "per_page";

/// `cow=page` copies no neighbours and costs more, with one CPU and with two; all runs ended well
/// and counted instructions.
pub fn check(arch: Arch, built: &Built) -> Result<Outcome> {
    let args = SweepArgs {
        add: Vec::new(),
        run: Some(PROGRAM.to_owned()),
        set: vec!["cow=page,around".to_owned()],
        smp: vec![1, 2],
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
    ensure!(rows.len() == 4, "{} runs", rows.len());
    for (cpus, rows) in (1..).zip(rows.chunks_exact(2)) {
        for row in rows {
            ensure!(row.passed() && row.instructions, "{}", row.json());
            ensure!(row.json()["smp"] == cpus, "{}", row.json());
        }
        pays(&rows[0], &rows[1])?;
    }
    Ok(Outcome::Passed)
}

/// The first run copied no neighbours, the second did and was cheaper.
fn pays(page: &Row, around: &Row) -> Result<()> {
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
    Ok(())
}

/// SIGINT, which ctrl-c is, after the first of many runs: the table, a status of 130 and a file
/// with the runs that ended.
pub fn interrupted(arch: Arch) -> Result<Outcome> {
    let folder = Temporary::folder("sweep")?;
    let csv = folder.path().join("rows.csv");
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        "sweep",
        "--set",
        "cow=page,around",
        "--repeat",
        "50",
        "--yes",
    ]);
    command.args(["--run", PROGRAM, "--mem", "512M", "--no-install"]);
    command.args(["--arch", &arch.to_string()]);
    command.arg("--csv").arg(&csv);
    let (stdout, stderr) = (Stdio::piped(), Stdio::piped());
    let mut child = command.stdout(stdout).stderr(stderr).spawn()?;
    let mut said = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    let first = |line: &str| line.starts_with("run.sh: 1 of 100");
    let ran = said.any(|line| line.is_ok_and(|line| first(&line)));
    ensure!(ran, "it ended before its first run did");
    kill_process(Pid::from_child(&child), Signal::INT)?;
    let last = said.map_while(Result::ok).last().unwrap_or_default();
    let mut table = String::new();
    child
        .stdout
        .take()
        .context("no stdout")?
        .read_to_string(&mut table)?;
    let status = child.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    let rows = fs::read_to_string(&csv)?.lines().count() - 1;
    let words = format!("run.sh: interrupted after {rows} of 100 runs");
    ensure!(last == words && rows > 0, "{last:?}, not {words:?}");
    ensure!(table.contains("cow=page"), "{table}");
    Ok(Outcome::Passed)
}

/// What the program says.
fn own(row: &Row) -> Result<f64> {
    let line = row.json();
    let lines = line["own"].as_array().context("no lines")?;
    let found = lines.iter().find_map(|line| line[OWN].as_f64());
    found.with_context(|| line.to_string())
}
