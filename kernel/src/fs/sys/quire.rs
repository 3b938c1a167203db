//! /sys/kernel/mm/quire: what Linux does not have.

use crate::errno::Errno;
use crate::fs::pseudo::Text;
use crate::fs::tree::Tree;
use crate::machine::mm;
use crate::thp::{owners, survey};
use alloc::format;
use mm::switch::Switch;

/// Enters all of it.
pub fn register(tree: &Tree) {
    tree.show("kernel/mm/quire/counters", |out| {
        mm().for_each_event(&mut |name, value| out.line(format_args!("{name} {value}")));
        Ok(())
    });
    tree.show("kernel/mm/quire/folios", |out| {
        survey::folios(out);
        owners::table(out);
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
