//! /sys/kernel/mm/quire: what Linux does not have.

use crate::errno::Errno;
use crate::fs::tree::Tree;
use crate::machine::mm;
use crate::thp::survey;
use alloc::format;
use mm::switch::{Switch, on_or_off};

/// Enters all of it.
pub fn register(tree: &Tree) {
    tree.show("kernel/mm/quire/counters", |out| {
        mm().for_each_event(&mut |name, value| out.line(format_args!("{name} {value}")));
        Ok(())
    });
    tree.show("kernel/mm/quire/folios", |out| {
        survey::folios(out);
        Ok(())
    });
    for &(switch, name) in Switch::ALL {
        tree.knob(
            &format!("kernel/mm/quire/{name}"),
            move |out| {
                out.is(if mm().switches().is_on(switch) {
                    "on"
                } else {
                    "off"
                })
            },
            move |text| {
                let on = on_or_off(text).ok_or(Errno::EINVAL)?;
                mm().switches().set(switch, on);
                Ok(())
            },
        );
    }
}
