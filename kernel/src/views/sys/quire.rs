//! /sys/kernel/mm/quire: what Linux does not have.

use crate::base::errno::Errno;
use crate::base::heap::fail;
use crate::base::machine::mm;
use crate::base::stretch;
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::process::task;
use crate::thp::{owners, survey};
use alloc::format;
use core::sync::atomic::Ordering::Relaxed;
use mm::switch::Switch;

/// Enters all of it.
pub fn register(tree: &Tree) {
    tree.show("kernel/mm/quire/counters", |out| {
        mm().for_each_event(&mut |name, value| out.line(format_args!("{name} {value}")));
        Ok(())
    });
    tree.show("kernel/mm/quire/folios", |out| {
        survey::folios(out)?;
        owners::table(out)
    });
    survey::register(tree, "kernel/mm/quire");
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
