//! One boot: the program's lines as they come, with what the plugin has of each.
use super::cell::Cell;
use super::names::Names;
use crate::counting::Counted;
use crate::kernels::Kernels;
use crate::lines::Stream;
use crate::store::Store;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::machine::console;

/// Limit for one boot.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
/// A boot that prints nothing for this long hangs: Linux boots quietly, and each access is looked
/// at.
const SILENCE: Duration = Duration::from_secs(900);
/// One for each operation, and one for who tells them when.
const CPUS: u32 = 3;
/// Memory of the machine.
const MIB: u64 = 1024;

/// What is booted: the program, on which kernel of which machine.
pub type Job<'a> = (Arch, Side, &'a str);

/// Boots, and keeps each cell.
///
/// # Errors
///
/// When the program did not get to its end.
pub fn run(kernels: &Kernels, job: Job<'_>, store: &Store<Vec<Cell>>) -> Result<()> {
    let (arch, side, program) = job;
    let counting = kernels.counting.as_ref().context("lines are counted")?;
    let mut machine = kernels.machine(arch, side, MIB, CPUS, program)?;
    if side == Side::Quire {
        // Its image has the programs, and no memory is taken by another copy of them.
        machine.initramfs = None;
    }
    let elf = std::fs::read(&kernels.built[&arch].elf)?;
    let mut listener = Listener {
        arch,
        side,
        names: match side {
            Side::Linux => Names::none(),
            Side::Quire => Names::of(&elf)?,
        },
        store,
        counted: counting.boot(),
        version: String::new(),
        cells: 0,
        end: None,
    };
    machine.plugin = Some(listener.counted.plugin());
    let mut stream = Stream::default();
    let boot = console::watch_patiently(&machine, LIMIT, SILENCE, |piece| {
        stream
            .hear(piece)
            .iter()
            .for_each(|line| listener.line(line));
    })?;
    ensure!(
        listener.end == Some(listener.cells),
        "{} on {arch} did not get to its end ({:?})\n{}",
        side.title(),
        boot.end,
        boot.text
    );
    Ok(())
}

struct Listener<'a> {
    arch: Arch,
    side: Side,
    names: Names<'a>,
    store: &'a Store<Vec<Cell>>,
    counted: Counted,
    version: String,
    cells: u64,
    /// How many cells the program says that it printed.
    end: Option<u64>,
}

impl Listener<'_> {
    fn line(&mut self, line: &Value) {
        if line["begin"] == true {
            let version = line["release"].as_str().unwrap_or_default();
            version.clone_into(&mut self.version);
            return;
        }
        let record = |name: &str| self.counted.take(name);
        match Cell::read(self.arch, self.side, line, record, &self.names) {
            Some(cell) => {
                self.cells += 1;
                self.store.step(1);
                let line = cell.to_value(&self.version);
                self.store.add(&line, |cells| cells.push(cell));
            }
            None if line["done"] == true => self.end = line["cells"].as_u64(),
            None => {}
        }
    }
}
