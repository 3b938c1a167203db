//! The linker section that every test puts one [`Test`] into.
use crate::{Context, Outcome};
use core::cmp::Ordering;
use core::fmt;

/// A registered test.
pub struct Test {
    /// The module, from `module_path!()`.
    pub module: &'static str,
    /// The function's name.
    pub name: &'static str,
    /// Frames that the test may keep in use after it ends (for caches that it fills).
    pub slack: u64,
    /// The test itself.
    pub body: fn(&mut Context<'_>) -> Outcome,
}

/// All tests of the program, in the linker's order.
#[linkme::distributed_slice]
#[linkme(crate = linkme)]
pub static TESTS: [Test];

/// The dotted name, without modules called `tests`: `mm::frame::buddy::tests::splits` prints as
/// `mm.frame.buddy.splits`.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for room in self.module.split("::").filter(|room| *room != "tests") {
            write!(f, "{room}.")?;
        }
        f.write_str(self.name)
    }
}

impl Test {
    /// The order in which tests run: by name.
    pub(crate) fn order(&self, other: &Test) -> Ordering {
        (self.module, self.name).cmp(&(other.module, other.name))
    }
}

/// The tests in order of their names. Each step searches for the next one, since there may be no
/// heap to sort them.
pub(crate) fn in_order(tests: &[Test]) -> impl Iterator<Item = &Test> {
    let mut last: Option<&Test> = None;
    core::iter::from_fn(move || {
        last = tests
            .iter()
            .filter(|test| last.is_none_or(|last| test.order(last).is_gt()))
            .min_by(|a, b| a.order(b));
        last
    })
    .fuse()
}

/// Registers a test: `ktest! { fn name(ctx) { ... } }`, or
/// `ktest! { #[slack(2)] fn name(ctx) { ... } }` for one that may keep two frames. Attributes and
/// documentation go in front.
#[macro_export]
macro_rules! ktest {
    ($(#[doc = $doc:expr])* #[slack($slack:expr)] fn $name:ident($ctx:ident) $body:block) => {
        $crate::ktest!(@ $slack, $(#[doc = $doc])* fn $name($ctx) $body);
    };
    ($(#[doc = $doc:expr])* fn $name:ident($ctx:ident) $body:block) => {
        $crate::ktest!(@ 0, $(#[doc = $doc])* fn $name($ctx) $body);
    };
    (@ $slack:expr, $(#[doc = $doc:expr])* fn $name:ident($ctx:ident) $body:block) => {
        $(#[doc = $doc])*
        fn $name($ctx: &mut $crate::Context<'_>) -> $crate::Outcome {
            #[allow(unsafe_code)]
            #[$crate::linkme::distributed_slice($crate::TESTS)]
            #[linkme(crate = $crate::linkme)]
            static REGISTRATION: $crate::Test = $crate::Test {
                module: module_path!(),
                name: stringify!($name),
                slack: $slack,
                body: $name,
            };
            let _ = &*$ctx;
            $body
            #[allow(unreachable_code)]
            Ok(())
        }
    };
}
