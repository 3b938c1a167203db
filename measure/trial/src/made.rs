//! Streams that are made.
use counts::pages::{Access, Stream};

/// Of so many pages and accesses, from a seed that is not 0, with their names.
pub fn all(pages: u64, accesses: u64, mut seed: u64) -> [(&'static str, Stream); 4] {
    // xorshift64*, by Vigna; less than 2^32.
    let mut random = || {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    let sum = |rank: u64| (1..=rank).map(|rank| 1.0 / rank as f64).sum();
    let sums: Vec<f64> = (1..=pages).map(sum).collect();
    let mut zipf = |_| {
        let at = random() as f64 / (1u64 << 32) as f64 * sums[sums.len() - 1];
        // Neighbours in rank are none in memory.
        sums.partition_point(|sum| *sum <= at) as u64 * 7919 % pages
    };
    let zipf = Vec::from_iter((0..accesses).map(&mut zipf));
    let hot = pages / 4;
    let scan = |n| match n % 4 {
        0 => hot + n / 4 % (pages - hot),
        _ => (random() * hot) >> 32,
    };
    let scan = Vec::from_iter((0..accesses).map(scan));
    let all = [
        ("fill and read", (0..pages).chain(0..pages).collect()),
        ("loop", (0..accesses).map(|n| n % pages).collect()),
        ("zipf", zipf),
        ("hot set and scan", scan),
    ];
    all.map(|(name, pages)| {
        (
            name,
            Stream::new(&Vec::from_iter(pages.into_iter().map(Access::of))),
        )
    })
}
