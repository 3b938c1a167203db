//! /sys/kernel/mm/quire: what Linux does not have.

use crate::base::errno::{Errno, Result};
use crate::base::heap::fail;
use crate::base::machine::mm;
use crate::base::ranks;
use crate::base::stretch;
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::process::{check, task};
use crate::sched::kernel_lock;
use crate::thp::{owners, survey};
use alloc::format;
use arch_boot::online;
use core::sync::atomic::Ordering::Relaxed;
use locks::Contention;
use mm::switch::Switch;
use mm::sync::rank;

/// Enters all of it.
pub fn register(tree: &Tree) {
    tree.show("kernel/mm/quire/counters", |out| {
        mm().for_each_event(&mut |name, value| out.line(format_args!("{name} {value}")));
        let waits = kernel_lock::cost().waits + locks::contention().map(|of| of.waits).sum::<u64>();
        out.line(format_args!("cpu_interrupts {}", online::interrupts()));
        out.line(format_args!("cpu_flush_requests {}", online::flushes()));
        out.line(format_args!("lock_waits {waits}"));
        Ok(())
    });
    tree.show("kernel/mm/quire/folios", |out| {
        survey::folios(out)?;
        owners::table(out)
    });
    survey::register(tree, "kernel/mm/quire");
    tree.knob(
        "kernel/mm/quire/check",
        |out| out.is(check::count()),
        |_| {
            let done = check::all();
            // However long it takes is not the kernel's usual way.
            task::with_current(|task| task.sched.times.leave_kernel_unseen());
            done
        },
    );
    tree.knob(
        "kernel/mm/quire/heap_fail",
        |out| {
            let process = task::current().process().clone();
            out.is(process.heap_fail.load(Relaxed))
        },
        |text| {
            let from = fail::parse(text).ok_or(Errno::EINVAL)?;
            task::set_heap_fail(task::current().process(), from);
            Ok(())
        },
    );
    tree.knob(
        "kernel/mm/quire/heap_reserve",
        |out| {
            out.put(format_args!("{}", fail::figures()));
            Ok(())
        },
        |_| {
            fail::reset();
            Ok(())
        },
    );
    let show = |out: &mut Text| {
        out.put(format_args!("{}", stretch::longest()));
        Ok(())
    };
    tree.knob("kernel/mm/quire/longest_stretch", show, |_| {
        stretch::forget();
        // The call that does this is not counted but for what is left of it.
        task::with_current(|task| task.sched.times.leave_kernel_unseen());
        Ok(())
    });
    tree.knob("kernel/mm/quire/contention", contention, |_| {
        locks::forget_contention();
        kernel_lock::forget();
        Ok(())
    });
    for switch in Switch::all() {
        let path = format!("kernel/mm/quire/{}", switch.name());
        let show = move |out: &mut Text| out.is(mm().switches().word(switch));
        if switch.boot() {
            tree.chosen_at_boot(&path, show);
            continue;
        }
        tree.knob(&path, show, move |text| {
            let number = switch.number(text).ok_or(Errno::EINVAL)?;
            mm().switches().set(switch, number);
            Ok(())
        });
    }
}

/// A line for each rank: its name, how often a lock of it was not free, looks until it was. That of
/// the kernel lock says, too, how often it was taken.
fn contention(out: &mut Text) -> Result {
    let kernel_lock::Cost {
        waits,
        looks,
        taken,
    } = kernel_lock::cost();
    out.line(format_args!("kernel {waits} {looks} {taken}"));
    for (rank, name) in ranks::NAMES.iter().chain(rank::NAMES) {
        let Contention { waits, spins, .. } = Contention::of(*rank);
        let name = name.to_ascii_lowercase();
        out.line(format_args!("{name} {waits} {spins}"));
    }
    Ok(())
}
