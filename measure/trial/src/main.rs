//! `trial FOLDER [--all]`: plays the streams in a folder and the made ones, and prints figures as
//! CSV, a row for each policy with each share of memory.
#![forbid(unsafe_code)]

mod ideal;
mod made;
mod model;
mod replay;

use counts::pages::Stream;
use mm::switch::Switch;
use model::{Figures, Policy, WANT};
use std::iter::once;
use std::{env, fs, thread};

/// Pages and accesses of made streams, and their seed.
const MADE: (u64, u64, u64) = (8192, 160_000, 1);
/// Percent of a stream's pages that memory has room for.
const SHARES: [usize; 5] = [20, 30, 50, 67, 80];
/// Frames that no page gets, beside page tables.
const OTHERS: usize = 16;

fn main() {
    let folder = env::args().nth(1).unwrap_or_default();
    let all = env::args().any(|word| word == "--all");
    let mut streams: Vec<(String, Stream)> = Vec::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name().display().to_string();
        let bytes = fs::read(file.path()).unwrap_or_default();
        streams.extend(Stream::unpack(&bytes).map(|stream| (name, stream)));
    }
    streams.sort_by(|one, other| one.0.cmp(&other.0));
    let made = made::all(MADE.0, MADE.1, MADE.2).into_iter();
    streams.extend(made.map(|(name, stream)| (name.to_owned(), stream)));
    println!(
        "stream,accesses,pages,memory,policy,again,brought,faults,over,looked,overshoot,longest"
    );
    thread::scope(|scope| {
        let rows = |(name, stream)| scope.spawn(move || rows(name, stream, all));
        let threads = Vec::from_iter(streams.iter().map(|(name, stream)| rows((name, stream))));
        for thread in threads {
            print!("{}", thread.join().expect("its own panic was printed"));
        }
    });
}

/// All rows of a stream.
fn rows(name: &str, stream: &Stream, all: bool) -> String {
    let rows = SHARES.map(|share| rows_with(name, stream, share, all));
    rows.concat()
}

fn rows_with(name: &str, stream: &Stream, share: usize, all: bool) -> String {
    let (accesses, pages) = (stream.accesses.len(), stream.pages.len());
    let ratio = |part: u64, whole: u64| match whole {
        0 => String::new(),
        whole => format!("{:.2}", part as f64 / whole as f64),
    };
    let mut text = String::new();
    let mut add = |memory: u64, policy: &str, it: Figures| {
        let over = ratio(it.brought, ideal::belady(stream, memory as usize));
        let of = format!("{name},{accesses},{pages},{memory},{policy}");
        let (looked, more) = (ratio(it.looked, it.gone), it.overshoot);
        let faults = it.faults.unwrap_or(pages as u64 + it.again);
        text += &format!(
            "{of},{},{},{faults},{over},{looked},{more},{}\n",
            it.again, it.brought, it.longest
        );
    };
    let frames = pages * share / 100 + OTHERS;
    let (orders, ways) = ([4, 9], Switch::SwapIn.words().iter());
    let orders = orders.iter().filter(|order| all || **order == 4);
    let large = orders.flat_map(|order| ways.clone().map(|way| (*order, *way)));
    let mut memory = 0;
    for (order, way) in once((0, "adaptive")).chain(large) {
        let Some((figures, most)) = replay::run(stream, frames, order, way) else {
            eprintln!(
                "{name}: {frames} frames are too few for folios of {} kB",
                4 << order
            );
            continue;
        };
        match order {
            0 => (memory, _) = (most, add(most, "built: 4 kB", figures)),
            _ => add(most, &format!("built: {} kB {way}", 4 << order), figures),
        }
    }
    if memory <= WANT {
        return text;
    }
    for policy in Policy::all(!all) {
        add(memory, &policy.name(), model::run(policy, stream, memory));
    }
    let figures = Figures::by_page;
    add(memory, "LRU", figures(ideal::lru(stream, memory as usize)));
    add(
        memory,
        "Belady",
        figures(ideal::belady(stream, memory as usize)),
    );
    text
}
