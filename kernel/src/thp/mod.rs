//! Multi-size THP outside the memory manager: its settings on the command line, khugepaged, and
//! walks over all processes.

pub mod khugepaged;
pub mod owners;
pub mod spaces;
pub mod survey;

use crate::base::machine::mm;
use crate::fs::kinds::hugefile;
use mm::addr::Order;
use mm::hugetlb;
use mm::switch::Switch;
use mm::thp::boot;
use parts::cmdline::Setting;

/// Takes over `transparent_hugepage=`, `thp_anon=`, `hugepages=` and the switches (`contpte=off`),
/// in the order given. A bad value is logged and changes nothing.
pub fn from_command_line(settings: &[Setting]) {
    let (mut first, mut size) = (true, Some(hugetlb::DEFAULT));
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
            "hugepagesz" => {
                size = size_by_name(value);
                if size.is_none() {
                    log::error!("{name}={value} ignored: huge pages have no such size");
                }
            }
            "hugepages" => huge_pages(value, size),
            _ => set_switch(name, value),
        }
    }
    khugepaged::settings_changed();
}

/// `hugepagesz=2M`, on arm64 also `64K` and `32M`.
fn size_by_name(value: &str) -> Option<Order> {
    hugefile::size_where(|size| match size.bytes() >> 20 {
        0 => value == alloc::format!("{}K", size.bytes() >> 10),
        megabytes => value == alloc::format!("{megabytes}M"),
    })
}

/// `hugepages=N`, of the size named last.
fn huge_pages(value: &str, size: Option<Order>) {
    let Some(size) = size else {
        return;
    };
    let Ok(pages) = value.parse() else {
        return log::error!("hugepages={value} ignored: it is no number");
    };
    mm().resize_hugetlb(size, pages);
    let got = mm().hugetlb(size).total;
    if got < pages {
        log::warn!("hugepages={value}: there is memory for {got}");
    }
}

fn controls() -> &'static mm::thp::Controls {
    &mm().thp().controls
}

fn report(name: &str, value: &str, result: Result<(), boot::BadValue>) {
    if let Err(why) = result {
        log::error!("{name}={value} ignored: {why}");
    }
}

/// Whether mappings of single pages are counted once the switch is set to this.
fn needs_counts(switch: Switch, number: u32) -> bool {
    let word = switch.words()[number as usize];
    mm::switch::page_counts([(switch.name(), word)])
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
            log::error!("{name}={value} ignored: not one of {words}")
        }
    }
}
