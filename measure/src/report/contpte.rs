//! What contiguous entries of aarch64 gain in walks of page tables, and what they cost in
//! instructions.
use super::chart::{self, Bar, Ink};
use super::data::{Data, Figure};
use super::html::{self, distinct, number};
use anyhow::Result;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::words;

/// The setting without them.
pub const OFF: &str = "contpte=off";
/// The machine that has them.
const ARCH: Arch = Arch::Aarch64;
/// Pixels for the names of operations.
const NAMES: u32 = 92;

/// One operation at one size: with contiguous entries, without.
struct Pair<'a> {
    on: &'a Figure,
    off: &'a Figure,
}

impl Pair<'_> {
    fn instructions(&self) -> [f64; 2] {
        [self.on.instructions, self.off.instructions]
    }

    fn walks(&self) -> Option<[f64; 2]> {
        Some([self.on.count("walks")?, self.off.count("walks")?])
    }
}

fn pairs(data: &Data) -> Vec<Pair<'_>> {
    let off = data
        .figures
        .iter()
        .filter(|figure| figure.words == OFF && figure.is_usual());
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for off in off.filter(|figure| figure.arch == ARCH) {
        let with_walks =
            |figure| Some(figure).filter(|figure: &&Figure| figure.count("walks").is_some());
        let find = |words: &str| {
            let place = (ARCH, Side::Quire, words);
            let (op, kb) = (&off.key.op, off.key.kb);
            data.find(place, op, kb, with_walks)
                .or_else(|| data.find(place, op, kb, Some))
        };
        let on = find("").or_else(|| find("contpte=on"));
        pairs.retain(|pair| pair.off.key != off.key);
        pairs.extend(on.map(|on| Pair { on, off }));
    }
    pairs
}

/// The command that measures a side.
pub fn command(append: &str, sizes: &[u64]) -> String {
    let append = match append {
        "" => String::new(),
        append => format!(" --append {append}"),
    };
    format!(
        "./run.sh compare --only quire --arch {ARCH} --model cortex-a76 --op {OPS} --size {}{append} --json FILE",
        words::list(sizes)
    )
}

/// One contiguous block.
pub const SIZE: u64 = 64;
/// What is measured for it.
const OPS: &str = "fault,fork,cow-byte,munmap,dontneed,protect,reach";

/// The section.
pub fn section(data: &Data) -> Result<String> {
    let pairs = pairs(data);
    if pairs.is_empty() {
        return Ok(html::missing(&command(OFF, &[SIZE])));
    }
    let sizes = distinct(pairs.iter().map(|pair| pair.off.key.kb));
    let core = data.models.get(&ARCH).and_then(|cores| cores.last());
    let core = core.map_or("no core", String::as_str);
    let mut text = format!(
        "<p>Sixteen entries of a table that map 64 KiB side by side may be marked contiguous: a TLB keeps them as one. \
         To write them so costs instructions where entries change, and saves walks where memory is read. \
         Walks are those of a model of {}; <em>reach</em> reads at random over 64 MiB, and its figures are for each read, \
         all others for each page.</p>\n",
        html::escape(core)
    );
    text += &html::legend(&[("f1", "contpte=on"), ("f2", "contpte=off")]);
    for &kb in &sizes {
        let here: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.off.key.kb == kb).collect();
        text += &of_size(kb, &here)?;
    }
    text += &html::commands(&[command("", &sizes), command(OFF, &sizes)]);
    let heads = [
        "operation",
        "folio",
        "instructions on",
        "off",
        "more",
        "walks on",
        "off",
        "fewer",
    ];
    let rows: Vec<Vec<String>> = pairs.iter().map(row).collect();
    Ok(text + &html::numbers(heads, &rows))
}

fn of_size(kb: u64, pairs: &[&Pair<'_>]) -> Result<String> {
    let bars = |value: &dyn Fn(&Pair<'_>) -> Option<[f64; 2]>| -> Vec<Bar> {
        let both = pairs.iter().filter_map(|pair| Some((pair, value(pair)?)));
        let bars = both.flat_map(|(pair, [on, off])| {
            [
                Bar::new(&pair.off.key.op, on, Ink::QUIRE),
                Bar::new("", off, Ink::LINUX),
            ]
        });
        bars.collect()
    };
    let mut panels = Vec::new();
    for (name, bars) in [
        ("instructions", bars(&|pair| Some(pair.instructions()))),
        ("walks of page tables", bars(&|pair| pair.walks())),
    ] {
        if !bars.is_empty() {
            let about = format!("{name}, with and without contiguous entries, folios of {kb} kB");
            panels.push(html::panel(name, &chart::bars(&about, &bars, NAMES)?));
        }
    }
    let head = format!("<h3>{ARCH}, folios of {}</h3>\n", html::size(kb));
    Ok(head + &html::panels(&panels) + &gain(pairs))
}

/// In a sentence: what the first writes cost more, and after how many reads that is regained in
/// walks.
fn gain(pairs: &[&Pair<'_>]) -> String {
    let find = |op: &str| pairs.iter().find(|pair| pair.off.key.op == op);
    let walks = find("reach").and_then(|pair| pair.walks());
    let (Some(fault), Some([on, off])) = (find("fault"), walks) else {
        return String::new();
    };
    let [with, without] = fault.instructions();
    format!(
        "<p>A first write costs {} instructions with contiguous entries and {} without; of 1,000 reads at random {} need a \
         walk with them and {} without.</p>\n",
        number(with),
        number(without),
        number(on * 1000.0),
        number(off * 1000.0)
    )
}

fn row(pair: &Pair<'_>) -> Vec<String> {
    let [on, off] = pair.instructions();
    let mut cells = vec![pair.off.key.op.clone(), html::size(pair.off.key.kb)];
    cells.extend([on, off, on - off].map(number));
    match pair.walks() {
        Some([on, off]) => cells.extend([on, off, off - on].map(number)),
        None => cells.extend(["-"; 3].map(str::to_owned)),
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;

    fn lines(words: &str, cost: u32, walks: u32) -> String {
        let line = |op: &str, walks: u32| {
            format!(
                r#"{{"op":"{op}","folio_kb":64,"per_page":{cost},"pages":1000,"walks":{walks},"arch":"aarch64","kernel":"quire"}}"#
            )
        };
        let header = format!(r#"{{"compare":{{"words":"{words}"}}}}"#);
        format!(
            "{header}\n{}\n{}\n",
            line("fault", 1000),
            line("reach", walks)
        )
    }

    #[test]
    fn both_sides_of_each_operation() {
        let mut data = Data::of(&lines("", 60, 1));
        assert!(section(&data).unwrap().contains("--append contpte=off"));
        data.read("off", &lines(OFF, 50, 920)).unwrap();
        let text = section(&data).unwrap();
        has(
            &text,
            "of 1,000 reads at random 1 need a walk with them and 920 without",
        );
        let row = "<th scope=\"row\">reach</th><td>64k</td><td>60</td><td>50</td><td>10</td><td>0.001</td>";
        has(&text, row);
    }
}
