//! /proc/buddyinfo, pagetypeinfo, zoneinfo: the page allocator in Linux's formats, proc(5).

use crate::base::errno::Result;
use crate::base::machine::mm;
use crate::fs::kinds::pseudo::Text;
use mm::addr::Order;
use mm::frame::Mobility;
use mm::frame::meta::{MAX_ORDER, ORDERS};
use mm::frame::pageblock::PAGEBLOCK;
use mm::frame::zone::Zone;

fn row(out: &mut Text, blocks: impl Iterator<Item = u64>) {
    blocks.for_each(|n| out.put(format_args!("{n:>6} ")));
    out.line("");
}

/// Free blocks of each order, from 4 KiB up. What the per-CPU lists hold is not among them.
pub fn buddyinfo(out: &mut Text) -> Result {
    for zone in mm().allocator().zones() {
        let [movable, unmovable] = zone.look(|buddy| buddy.blocks());
        out.put(format_args!("Node 0, zone {:>8} ", zone.name));
        row(out, movable.iter().zip(unmovable).map(|(a, b)| a + b));
    }
    Ok(())
}

/// Linux lists the unmovable first.
const TYPES: [Mobility; Mobility::COUNT] = [Mobility::Unmovable, Mobility::Movable];

/// Free blocks by order and mobility, and what the pageblocks are for.
pub fn pagetypeinfo(out: &mut Text) -> Result {
    out.put(format_args!(
        "Page block order: {}\nPages per block:  {}\n\n",
        PAGEBLOCK.0,
        PAGEBLOCK.pages()
    ));
    out.put(format_args!(
        "{:<43} ",
        "Free pages count per migrate type at order"
    ));
    row(out, 0..=u64::from(MAX_ORDER.0));
    for zone in mm().allocator().zones() {
        let blocks: [[u64; ORDERS]; Mobility::COUNT] = zone.look(|buddy| buddy.blocks());
        for of in TYPES {
            let (zone, name) = (zone.name, of.name());
            out.put(format_args!(
                "Node {:>4}, zone {zone:>8}, type {name:>12} ",
                0
            ));
            row(out, blocks[of as usize].into_iter());
        }
    }
    out.put(format_args!("\n{:<23}", "Number of blocks type"));
    TYPES
        .iter()
        .for_each(|of| out.put(format_args!("{:>12} ", of.name())));
    out.line("");
    for zone in mm().allocator().zones() {
        let counts = zone.look(|buddy| buddy.pageblocks().counts());
        out.put(format_args!("Node 0, zone {:>8} ", zone.name));
        TYPES
            .iter()
            .for_each(|of| out.put(format_args!("{:>12} ", counts[*of as usize])));
        out.line("");
    }
    Ok(())
}

/// Each zone with its marks. The per-CPU lists stand in front of all zones; they are shown with the
/// last.
pub fn zoneinfo(out: &mut Text) -> Result {
    for zone in mm().allocator().zones() {
        zone_text(out, zone);
    }
    out.line("  pagesets");
    let mut cpu = None;
    for (of, list) in mm().allocator().lists() {
        if cpu != Some(of) {
            cpu = Some(of);
            out.put(format_args!("    cpu: {of}\n"));
        }
        let Order(order) = list.order;
        let (count, high, batch) = (list.len(), list.capacity(), list.batch());
        out.put(format_args!(
            "      order {order} {:?}\n              count: {count}\n              high:  {high}\n              batch: {batch}\n",
            list.mobility
        ));
    }
    Ok(())
}

fn zone_text(out: &mut Text, zone: &Zone) {
    let (free, marks, span) = (zone.look(|b| b.free_frames()), zone.marks(), zone.span);
    out.put(format_args!("Node 0, zone {:>8}\n", zone.name));
    out.put(format_args!("  pages free     {free}\n"));
    for (name, value) in [
        ("min", marks.min),
        ("low", marks.low),
        ("high", marks.high),
        ("spanned", span.len()),
        ("managed", zone.managed),
    ] {
        out.put(format_args!("        {name:<9}{value}\n"));
    }
    out.put(format_args!("      nr_free_pages {free}\n"));
    out.put(format_args!("  start_pfn:           {}\n", span.start.0));
}
