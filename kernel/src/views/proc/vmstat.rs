//! /proc/vmstat: Linux's names in Linux's order, and private folios by size. What is not counted
//! here is 0.

use super::locked::{Mlocked, NotMlocked};
use crate::base::errno::Result;
use crate::base::machine::mm;
use crate::fs::kinds::pseudo::Text;
use crate::pressure;
use crate::thp::survey;
use mm::arch::Level;
use mm::thp::stats::Stat;

/// Event counters that programs look for.
const EVENTS: &[&str] = &[
    "pgpgin",
    "pgpgout",
    "pswpin",
    "pswpout",
    "pgalloc_normal",
    "pgfree",
    "pgactivate",
    "pgdeactivate",
    "pglazyfree",
    "pglazyfreed",
    "pgfault",
    "pgmajfault",
    "pgrefill",
    "pgreuse",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgscan_kswapd",
    "pgscan_direct",
    "workingset_refault_anon",
    "oom_kill",
    "numa_pte_updates",
    "numa_hint_faults",
    "pgmigrate_success",
    "pgmigrate_fail",
    "thp_migration_success",
    "thp_migration_fail",
    "thp_migration_split",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_isolated",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "htlb_buddy_alloc_success",
    "htlb_buddy_alloc_fail",
    "unevictable_pgs_mlocked",
    "unevictable_pgs_munlocked",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_fault_fallback_charge",
    "thp_collapse_alloc",
    "thp_collapse_alloc_failed",
    "thp_file_alloc",
    "thp_file_fallback",
    "thp_file_fallback_charge",
    "thp_file_mapped",
    "thp_split_page",
    "thp_split_page_failed",
    "thp_deferred_split_page",
    "thp_underused_split_page",
    "thp_split_pmd",
    "thp_scan_exceed_none_pte",
    "thp_scan_exceed_swap_pte",
    "thp_scan_exceed_share_pte",
    "thp_split_pud",
    "thp_zero_page_alloc",
    "thp_zero_page_alloc_failed",
    "thp_swpout",
    "thp_swpout_fallback",
    "swap_ra",
    "swap_ra_hit",
    "ksm_swpin_copy",
    "cow_ksm",
    "zswpin",
    "zswpout",
];

/// Linux's counters of huge pages are those of the size that a PMD entry maps.
fn thp(name: &str) -> Option<u64> {
    let stat = match name {
        "thp_fault_alloc" => Stat::AnonFaultAlloc,
        "thp_fault_fallback" => Stat::AnonFaultFallback,
        "thp_collapse_alloc" => Stat::CollapseAlloc,
        "thp_collapse_alloc_failed" => Stat::CollapseAllocFailed,
        "thp_split_page" => Stat::Split,
        "thp_split_page_failed" => Stat::SplitFailed,
        "thp_swpout" => Stat::SwpOut,
        "thp_swpout_fallback" => Stat::SwpOutFallback,
        "thp_deferred_split_page" => Stat::SplitDeferred,
        "thp_scan_exceed_none_pte" => Stat::CollapseExceedNonePte,
        "thp_scan_exceed_share_pte" => Stat::CollapseExceedSharedPte,
        _ => return None,
    };
    Some(mm().thp().stats.get(Level::Pmd.order(), stat))
}

/// The file.
pub fn show(out: &mut Text) -> Result {
    let locked = Mlocked::now()?;
    let c = mm().counts();
    let (shmem, shmem_mapped) = mm().thp().shmem();
    let NotMlocked { anon, object } = locked.others(&c);
    for (name, value) in [
        ("nr_free_pages", c.free),
        ("nr_zone_inactive_anon", object),
        ("nr_zone_active_anon", anon),
        ("nr_zone_inactive_file", 0),
        ("nr_zone_active_file", 0),
        ("nr_zone_unevictable", locked.total()),
        ("nr_mlock", locked.total()),
        ("nr_inactive_anon", object),
        ("nr_active_anon", anon),
        ("nr_inactive_file", 0),
        ("nr_active_file", 0),
        ("nr_unevictable", locked.total()),
        ("nr_slab_reclaimable", 0),
        ("nr_slab_unreclaimable", c.kernel),
        ("nr_anon_pages", c.anon),
        ("nr_mapped", 0),
        ("nr_file_pages", c.object),
        ("nr_dirty", 0),
        ("nr_writeback", 0),
        ("nr_shmem", c.object),
        ("nr_shmem_hugepages", shmem),
        ("nr_shmem_pmdmapped", shmem_mapped),
        ("nr_file_hugepages", 0),
        ("nr_file_pmdmapped", 0),
        ("nr_anon_transparent_hugepages", mm().thp().pmd_mappings()),
        ("nr_page_table_pages", c.page_tables),
        ("nr_swapcached", 0),
    ] {
        out.line(format_args!("{name} {value}"));
    }
    for name in EVENTS {
        let value = match *name {
            "oom_kill" => Some(pressure::kills()),
            "pgreuse" => mm().event("cow_reused"),
            // What comes back is stored no more: each is one.
            "workingset_refault_anon" => mm().event("pswpin"),
            name => thp(name).or_else(|| mm().event(name)),
        };
        out.line(format_args!("{name} {}", value.unwrap_or(0)));
    }
    for order in survey::private_orders() {
        let (kb, folios) = (order.bytes() >> 10, survey::private(order));
        out.line(format_args!("nr_anon_folios_{kb}kB {folios}"));
    }
    Ok(())
}
