//! Multi-size THP outside the memory manager: its settings on the command line, khugepaged, and
//! walks over all processes.

pub mod khugepaged;
pub mod owners;
pub mod spaces;
pub mod survey;

use crate::base::machine::mm;
use mm::switch::Switch;
use mm::thp::boot;
use parts::cmdline::Setting;

/// Takes over `transparent_hugepage=`, `thp_anon=` and the switches (`contpte=off`), in the order
/// given. A bad value is logged and changes nothing.
pub fn from_command_line(settings: &[Setting]) {
    let mut first = true;
    for Setting { name, value } in settings {
        match name.as_str() {
            "transparent_hugepage" => {
                report(name, value, boot::transparent_hugepage(controls(), value))
            }
            "thp_anon" => {
                let result = boot::thp_anon(controls(), value, first);
                first &= result.is_err();
                report(name, value, result);
            }
            _ => set_switch(name, value),
        }
    }
    khugepaged::settings_changed();
}

fn controls() -> &'static mm::thp::Controls {
    &mm().thp().controls
}

fn report(name: &str, value: &str, result: Result<(), boot::BadValue>) {
    if let Err(why) = result {
        log::warn!("{name}={value} ignored: {why}");
    }
}

/// Whether mappings of single pages are counted once the switch is set to this.
fn needs_counts(switch: Switch, number: u32) -> bool {
    let word = switch.words()[number as usize];
    mm::switch::page_counts(&alloc::format!("{}={word}", switch.name()))
}

fn set_switch(name: &str, value: &str) {
    let Some(switch) = Switch::by_name(name) else {
        return;
    };
    match switch.number(value) {
        // `boot::take_over`, which makes room for the counts, does not see words in quotes.
        Some(number) if needs_counts(switch, number) && !mm().frames().counts_pages() => {
            log::warn!(
                "{name}={value} ignored: there is no room for counts of pages; write it without quotes"
            )
        }
        Some(number) => mm().switches().set(switch, number),
        None => {
            let words = switch.words().join(", ");
            log::warn!("{name}={value} ignored: not one of {words}")
        }
    }
}
