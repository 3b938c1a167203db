//! The words of the kernel's command line: `transparent_hugepage=always` and
//! `thp_anon=16K-64K:always;128K,512K:inherit;256K:madvise`, as in Linux's transhuge.rst.

use super::ORDERS;
use super::controls::{Controls, Enabled, SizeEnabled};
use super::words::Words;
use crate::addr::{Order, PAGE_SHIFT};

/// What is wrong with a value; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadValue {
    /// Not one of the words.
    Word,
    /// Not a size, or not one that a folio can have.
    Size,
    /// A range that ends before it starts.
    Range,
    /// No colon between sizes and word.
    Shape,
}

impl core::fmt::Display for BadValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            BadValue::Word => "an unknown word",
            BadValue::Size => "a size that is not one of 16K, 32K ... 2M",
            BadValue::Range => "a range of sizes that ends before it starts",
            BadValue::Shape => "not SIZES:WORD, with semicolons between",
        })
    }
}

type Sizes = [Option<SizeEnabled>; *ORDERS.end() as usize + 1];

/// `transparent_hugepage=`.
pub fn transparent_hugepage(controls: &Controls, value: &str) -> Result<(), BadValue> {
    let enabled = Enabled::parse(value).ok_or(BadValue::Word)?;
    controls.change(|settings| settings.enabled = enabled);
    Ok(())
}

/// `thp_anon=`. Sizes that it does not name are `never` from the first one on (`first`), the PMD size too.
pub fn thp_anon(controls: &Controls, value: &str, first: bool) -> Result<(), BadValue> {
    let named = sizes(value)?;
    controls.change(|settings| {
        for (size, named) in settings.sizes.iter_mut().zip(named) {
            match named {
                Some(word) => *size = word,
                None if first => *size = SizeEnabled::Never,
                None => {}
            }
        }
    });
    Ok(())
}

/// What a value of `thp_anon=` says of each order.
fn sizes(value: &str) -> Result<Sizes, BadValue> {
    let mut sizes = Sizes::default();
    for part in value.split(';') {
        let (list, word) = part.split_once(':').ok_or(BadValue::Shape)?;
        let word = SizeEnabled::parse(word).ok_or(BadValue::Word)?;
        for one in list.split(',') {
            let (from, to) = one.split_once('-').unwrap_or((one, one));
            let (from, to) = (order(from)?, order(to)?);
            if from > to {
                return Err(BadValue::Range);
            }
            sizes[from.0 as usize..=to.0 as usize].fill(Some(word));
        }
    }
    Ok(sizes)
}

/// The order of a size like `64K` or `2M`; a bare number counts bytes.
fn order(text: &str) -> Result<Order, BadValue> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let size: u64 = digits.parse().map_err(|_| BadValue::Size)?;
    let bytes = size.checked_mul(1 << shift).filter(|_| plain);
    let bytes = bytes
        .filter(|n| n.is_power_of_two())
        .ok_or(BadValue::Size)?;
    let order = bytes.trailing_zeros().checked_sub(PAGE_SHIFT);
    let order = order.filter(|o| ORDERS.contains(&(*o as u8)));
    Ok(Order(order.ok_or(BadValue::Size)? as u8))
}
