//! Options of the kernel's command line: `transparent_hugepage=always` and
//! `thp_anon=16K-64K:always;128K,512K:inherit;256K:madvise`, as in Linux's transhuge.rst.

use super::controls::{Controls, Enabled, SizeEnabled};
pub use super::words::BadValue;
use super::words::Choice;
use super::{SIZES, sizes};

type Sizes = [Option<SizeEnabled>; SIZES];

/// `transparent_hugepage=`.
pub fn transparent_hugepage(controls: &Controls, value: &str) -> Result<(), BadValue> {
    let enabled = Enabled::parse(value).ok_or(BadValue::Word)?;
    controls.change(|settings| settings.enabled = enabled);
    Ok(())
}

/// `thp_anon=`. Sizes that it does not name are `never` from the first one on (`first`), the PMD
/// size too.
pub fn thp_anon(controls: &Controls, value: &str, first: bool) -> Result<(), BadValue> {
    let named = named(value)?;
    controls.change(|settings| {
        for (size, named) in settings.sizes.iter_mut().zip(named) {
            match named {
                Some(word) => *size = word,
                None if first => *size = SizeEnabled::Never,
                None => {}
            }
        }
    });
    Ok(())
}

/// The words that a value of `thp_anon=` gives to orders.
fn named(value: &str) -> Result<Sizes, BadValue> {
    let mut named = Sizes::default();
    for part in value.split(';') {
        let (list, word) = part.split_once(':').ok_or(BadValue::Shape)?;
        let word = SizeEnabled::parse(word).ok_or(BadValue::Word)?;
        for order in sizes::list(list)?.iter() {
            named[order.0 as usize] = Some(word);
        }
    }
    Ok(named)
}
