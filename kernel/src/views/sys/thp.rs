//! /sys/kernel/mm/transparent_hugepage: the files of `mm::thp`, with Linux's names (transhuge.rst).

use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::thp::khugepaged;
use alloc::format;
use mm::addr::Order;
use mm::thp::controls::Settings;
use mm::thp::khugepaged::Knob;
use mm::thp::stats::Stat;
use mm::thp::words::{Choice, number};
use mm::thp::{ORDERS, PMD_ORDER};

const ROOT: &str = "kernel/mm/transparent_hugepage";

/// Statistics that Linux has and for which there is nothing to count here: no swap, and no limits
/// by group.
const NEVER: &[&str] = &[
    "anon_fault_fallback_charge",
    "collapse_exceed_swap_pte",
    "swpin",
    "swpin_fallback",
    "swpin_fallback_charge",
    "swpout",
    "swpout_fallback",
    "zswpout",
];

/// Enters all of it.
pub fn register(tree: &Tree) {
    word(tree, "enabled", |s| s.enabled, |s, to| s.enabled = to);
    word(tree, "defrag", |s| s.defrag, |s, to| s.defrag = to);
    word(tree, "shmem_enabled", |s| s.shmem, |s, to| s.shmem = to);
    flag(tree, "use_zero_page", |s| &mut s.use_zero_page);
    flag(tree, "shrink_underused", |s| &mut s.shrink_underused);
    tree.show(&format!("{ROOT}/hpage_pmd_size"), |out| {
        out.is(PMD_ORDER.bytes())
    });
    for order in ORDERS.map(Order) {
        size(tree, order);
    }
    khugepaged_files(tree);
}

/// `hugepages-<size>kB`.
fn size(tree: &Tree, order: Order) {
    let (dir, index) = (
        format!("hugepages-{}kB", order.bytes() >> 10),
        usize::from(order.0),
    );
    word(
        tree,
        &format!("{dir}/enabled"),
        move |s| s.sizes[index],
        move |s, to| s.sizes[index] = to,
    );
    word(
        tree,
        &format!("{dir}/shmem_enabled"),
        move |s| s.shmem_sizes[index],
        move |s, to| s.shmem_sizes[index] = to,
    );
    for &(stat, name) in Stat::ALL {
        tree.show(&format!("{ROOT}/{dir}/stats/{name}"), move |out| {
            out.is(mm().thp().stats.get(order, stat))
        });
    }
    for name in NEVER {
        tree.show(&format!("{ROOT}/{dir}/stats/{name}"), |out| out.is(0));
    }
}

/// A file of words.
fn word<W: Choice>(
    tree: &Tree,
    path: &str,
    get: impl Fn(&Settings) -> W + Send + Sync + 'static,
    set: impl Fn(&mut Settings, W) + Send + Sync + 'static,
) {
    tree.knob(
        &format!("{ROOT}/{path}"),
        move |out| out.is(get(&mm().thp().controls.settings()).shown()),
        move |text| {
            let to = W::parse(text).ok_or(Errno::EINVAL)?;
            mm().thp().controls.change(|settings| set(settings, to));
            khugepaged::settings_changed();
            Ok(())
        },
    );
}

/// A file that holds 0 or 1.
fn flag(tree: &Tree, path: &str, place: fn(&mut Settings) -> &mut bool) {
    tree.knob(
        &format!("{ROOT}/{path}"),
        move |out| {
            let mut settings = mm().thp().controls.settings();
            out.is(u8::from(*place(&mut settings)))
        },
        move |text| {
            let to = parse(text, 1)? == 1;
            mm().thp().controls.change(|settings| *place(settings) = to);
            Ok(())
        },
    );
}

fn parse(text: &str, max: u32) -> Result<u32> {
    number(text, max).ok_or(Errno::EINVAL)
}

/// `khugepaged`.
fn khugepaged_files(tree: &Tree) {
    for &(knob, name) in Knob::ALL {
        tree.knob(
            &format!("{ROOT}/khugepaged/{name}"),
            move |out| out.is(mm().thp().khugepaged.get(knob)),
            move |text| {
                let value = parse(text, u32::MAX)?;
                if !mm().thp().khugepaged.set(knob, value) {
                    return Err(Errno::EINVAL);
                }
                khugepaged::settings_changed();
                Ok(())
            },
        );
    }
    tree.show(&format!("{ROOT}/khugepaged/full_scans"), |out| {
        out.is(mm().thp().khugepaged.counts().0)
    });
    tree.show(&format!("{ROOT}/khugepaged/pages_collapsed"), |out| {
        out.is(mm().thp().khugepaged.counts().1)
    });
}
