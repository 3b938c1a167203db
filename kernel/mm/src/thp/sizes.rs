//! Sets of folio sizes as text: `64K`, `16K-64K,2M` on the command line, `16kB 32kB 64kB` in files.

use super::ORDERS;
use super::policy::Orders;
use super::words::{BadValue, stripped};
use crate::addr::{Order, PAGE_SHIFT};
use core::fmt;

/// The text of a file: the sizes, named as in sysfs, or `all`, or `none`.
pub fn shown(orders: Orders) -> impl fmt::Display {
    fmt::from_fn(move |out| match orders {
        Orders::ALL => out.write_str("all"),
        Orders::NONE => out.write_str("none"),
        _ => {
            for (i, order) in orders.iter().enumerate() {
                let blank = if i == 0 { "" } else { " " };
                write!(out, "{blank}{}kB", order.bytes() >> 10)?;
            }
            Ok(())
        }
    })
}

/// Parses what a program writes to a file: `all`, `none`, or lists of sizes with blanks between.
pub fn parse(text: &str) -> Result<Orders, BadValue> {
    match stripped(text) {
        "all" => Ok(Orders::ALL),
        "none" => Ok(Orders::NONE),
        "" => Err(BadValue::Size),
        text => text
            .split_ascii_whitespace()
            .try_fold(Orders::NONE, |set, word| Ok(set.with(list(word)?))),
    }
}

/// Parses sizes and ranges of sizes with commas between: `16K-64K,256K`.
pub fn list(text: &str) -> Result<Orders, BadValue> {
    text.split(',').try_fold(Orders::NONE, |set, one| {
        let (from, to) = one.split_once('-').unwrap_or((one, one));
        let (from, to) = (order(from)?, order(to)?);
        if from > to {
            return Err(BadValue::Range);
        }
        let range = Orders::ALL.up_to(to).0 & !Orders::ALL.below(from).0;
        Ok(set.with(Orders(range)))
    })
}

/// The order of a size like `64K`, `64kB` or `2M`; a bare number counts bytes.
fn order(text: &str) -> Result<Order, BadValue> {
    let short = text.strip_suffix('B').filter(|short| unit(short).is_some());
    let text = short.unwrap_or(text);
    let (digits, shift) = match unit(text) {
        Some(shift) => (&text[..text.len() - 1], shift),
        None => (text, 0),
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

/// The power of two that the letter at the end stands for.
fn unit(text: &str) -> Option<u32> {
    match text.as_bytes().last()? {
        b'k' | b'K' => Some(10),
        b'm' | b'M' => Some(20),
        _ => None,
    }
}
