//! /sys/kernel/mm/hugepages: the pools of huge pages, with Linux's names (hugetlbpage.rst). All of
//! memory is one node's.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{huge_sizes, mm};
use crate::fs::kinds::pseudo_tree::Tree;
use alloc::format;
use mm::addr::Order;
use mm::hugetlb::Figures;

/// Files that are only read.
type Row = (&'static str, fn(&Figures) -> u64);
const SHOWN: [Row; 3] = [
    ("free_hugepages", |f| f.free),
    ("resv_hugepages", |f| f.reserved),
    ("surplus_hugepages", |f| f.surplus),
];

/// Enters all of it.
pub fn register(tree: &Tree) {
    for &order in huge_sizes() {
        let size = format!("hugepages-{}kB", order.bytes() >> 10);
        let all = format!("kernel/mm/hugepages/{size}");
        for (name, figure) in SHOWN {
            show(tree, &format!("{all}/{name}"), order, figure);
        }
        for name in ["nr_hugepages", "nr_hugepages_mempolicy"] {
            pages(tree, &format!("{all}/{name}"), order);
        }
        tree.knob(
            &format!("{all}/nr_overcommit_hugepages"),
            move |out| out.is(mm().hugetlb(order).overcommit),
            move |text| {
                mm().set_hugetlb_overcommit(order, parse(text)?);
                Ok(())
            },
        );
        let node = format!("devices/system/node/node0/hugepages/{size}");
        for (name, figure) in SHOWN.into_iter().filter(|row| row.0 != "resv_hugepages") {
            show(tree, &format!("{node}/{name}"), order, figure);
        }
        pages(tree, &format!("{node}/nr_hugepages"), order);
    }
}

fn show(tree: &Tree, path: &str, order: Order, figure: fn(&Figures) -> u64) {
    tree.show(path, move |out| out.is(figure(&mm().hugetlb(order))));
}

/// The pages of a pool, those above its size included: vm.nr_hugepages tells of that alone.
fn pages(tree: &Tree, path: &str, order: Order) {
    tree.knob(
        path,
        move |out| out.is(mm().hugetlb(order).total),
        move |text| {
            mm().resize_hugetlb(order, parse(text)?);
            Ok(())
        },
    );
}

fn parse(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Errno::EINVAL)
}
