//! `trial FOLDER [--all]`: plays the streams in a folder and the made ones, and prints figures as
//! CSV, a row for each policy with each share of memory.
#![forbid(unsafe_code)]

mod ideal;
mod made;
mod model;
mod replay;

use counts::pages::Stream;
use mm::switch::SwapIn;
use model::{Figures, Policy, WANT};
use replay::Setup;
use std::{env, fs, thread};

/// Pages and accesses of made streams, and their seed.
const MADE: (u64, u64, u64) = (2048, 40_000, 1);
/// Percent of a stream's pages that memory has room for: first the few.
const SHARES: [usize; 7] = [30, 50, 20, 40, 60, 75, 90];
/// Frames that no page gets, beside page tables.
const OTHERS: usize = 16;

fn main() {
    let folder = env::args().nth(1).unwrap_or_default();
    let all = env::args().any(|word| word == "--all");
    let mut streams: Vec<(String, Stream)> = Vec::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let stream = fs::read(file.path())
            .ok()
            .and_then(|file| Stream::unpack(&file));
        streams.extend(stream.map(|stream| (file.file_name().display().to_string(), stream)));
    }
    streams.sort_by(|one, other| one.0.cmp(&other.0));
    let made = made::all(MADE.0, MADE.1, MADE.2).into_iter();
    streams.extend(made.map(|(name, stream)| (name.to_owned(), stream)));
    println!("stream,accesses,pages,memory,policy,again,brought,over,looked,overshoot,longest");
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
    let shares = if all { &SHARES[..] } else { &SHARES[..2] };
    shares
        .iter()
        .map(|share| rows_with(name, stream, *share, all))
        .collect()
}

fn rows_with(name: &str, stream: &Stream, share: usize, all: bool) -> String {
    let (accesses, pages) = (stream.accesses.len(), stream.pages.len());
    let ratio = |part: u64, whole: u64| match whole {
        0 => String::new(),
        whole => format!("{:.2}", part as f64 / whole as f64),
    };
    let mut text = String::new();
    let mut add = |memory: u64, policy: &str, figures: Figures| {
        #[rustfmt::skip]
        let Figures { again, brought, gone, looked, overshoot, longest } = figures;
        let over = ratio(brought, ideal::belady(stream, memory as usize));
        let looked = ratio(looked, gone);
        text += &format!(
            "{name},{accesses},{pages},{memory},{policy},{again},{brought},{over},{looked},{overshoot},{longest}\n"
        );
    };
    let ways = [
        ("page", SwapIn::Page),
        ("adaptive", SwapIn::Adaptive),
        ("whole", SwapIn::Whole),
    ];
    let orders: &[u8] = if all { &[4, 9] } else { &[4] };
    let large = orders
        .iter()
        .flat_map(|order| ways.map(|way| (*order, way)));
    let mut memory = 0;
    for (order, (way, swap_in)) in [(0, ways[0])].into_iter().chain(large) {
        let frames = pages * share / 100 + OTHERS;
        let played = replay::run(
            stream,
            Setup {
                frames,
                order,
                swap_in,
            },
        );
        let Some((figures, most)) = played else {
            eprintln!(
                "{name}: no memory with {frames} frames in folios of {} kB",
                4 << order
            );
            continue;
        };
        match order {
            0 => (memory, _) = (most, add(most, "built: 4 kB", figures)),
            _ => add(
                most,
                &format!("built: {} kB swapin={way}", 4 << order),
                figures,
            ),
        }
    }
    if memory <= WANT {
        return text;
    }
    for policy in Policy::all(!all) {
        add(memory, &policy.name(), model::run(policy, stream, memory));
    }
    for (name, of) in [
        ("LRU", ideal::lru as fn(&Stream, usize) -> u64),
        ("Belady", ideal::belady),
    ] {
        let again = of(stream, memory as usize);
        add(
            memory,
            name,
            Figures {
                again,
                brought: again,
                ..Figures::default()
            },
        );
    }
    text
}
