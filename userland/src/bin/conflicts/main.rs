//! `conflicts [--op A,B] [--place P,Q]`: pairs of operations on memory, done one after the
//! other on two CPUs from one state, each between two marks, for the program behind `./run.sh
//! conflicts`, which sees by a plugin for QEMU which cache lines each of them touches.
//!
//! `--op` with several names chooses their pairs, with one name all pairs that have it.
//! A line of JSON for each cell says that both did what they are for, or why the
//! pair is none; the marks are named `FIRST SECOND PLACE 0` and `1`. Three CPUs are needed: on the
//! third is who tells the others when.
mod actor;
mod board;
mod conduct;
mod op;
mod plan;
mod site;

use board::Board;
use op::Op;
use plan::{Cell, Place};
use userland::controls::Controls;
use userland::marks::Marks;
use userland::measuring;
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, Result, cpus, time};

/// The size of folios that two operations share, in kB.
const FOLIO_KB: usize = 64;

/// The things of these names, separated by commas.
fn named<T: Copy>(words: &str, all: &[(T, &str)]) -> Option<Vec<T>> {
    let one = |word| Some(all.iter().find(|(_, name)| *name == word)?.0);
    words.split(',').map(one).collect()
}

fn main() {
    let (mut ops, mut places) = (Vec::new(), Vec::new());
    measuring::options("conflicts [--op A,B] [--place P,Q]", |option, value| {
        match option {
            "--op" => ops = named(value, &Op::ALL)?,
            "--place" => places = named(value, &Place::ALL)?,
            _ => return None,
        }
        Some(())
    });
    let cells = Cell::all(&ops, &places);
    measuring::run(time::counts_instructions(), || run(&cells));
}

fn run(cells: &[Cell]) -> Result<usize> {
    if !cpus::allowed(0)?.starts_with(&[0, 1, actor::ASIDE]) {
        return Err(measuring::wrong("it needs CPUs 0, 1 and 2"));
    }
    cpus::bind(0, &[actor::ASIDE])?;
    let controls = Controls::take();
    let (board, marks) = (Board::new()?, Marks::map()?);
    let mut size = 0;
    for cell in cells {
        let wanted = match cell.place {
            Place::Folio => FOLIO_KB,
            _ => 4,
        };
        if wanted != size && controls.only(wanted)? {
            size = wanted;
        }
        let how = match cell.why_not() {
            Some(why) => Err(why.to_owned()),
            None if wanted != size => Err(format!("no folios of {FOLIO_KB} kB here")),
            None => play(cell, board, &marks),
        };
        let [first, second] = cell.ops.map(Op::name);
        let place = cell.place.name();
        let how = match how {
            Ok(()) => "\"done\":true".to_owned(),
            Err(why) => format!("\"absent\":\"{why}\""),
        };
        println!("{{\"first\":\"{first}\",\"second\":\"{second}\",\"place\":\"{place}\",{how}}}");
    }
    Ok(cells.len())
}

/// Plays a cell in a process of its own; why it did not work, if so.
fn play(cell: &Cell, board: Board, marks: &Marks) -> std::result::Result<(), String> {
    board.clear();
    let pid = proc::child(|| {
        let how = conduct::play(*cell, board, marks);
        proc::exit_now(how.map_or_else(|error| error.0, |()| 0))
    });
    match pid.and_then(proc::wait_for) {
        Ok(Status::Exited(0)) => Ok(()),
        Ok(Status::Exited(number)) => Err(format!("failed: {}", Errno(number))),
        Ok(other) => Err(format!("failed: {other:?}")),
        Err(error) => Err(format!("failed: {error}")),
    }
}
