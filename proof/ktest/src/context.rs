//! The context of a running test: diagnostics, the machine under test, and ways to fail.
use core::any::Any;
use core::fmt::{self, Write};

/// The result of a test.
pub type Outcome = Result<(), Failure>;

/// The reason why a test did not pass.
#[derive(Debug)]
pub enum Failure {
    /// A check did not hold; the values are already printed as diagnostics.
    Failed,
    /// The test does not apply here, for this reason.
    Skipped(&'static str),
}

/// The context that every test gets.
pub struct Context<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) machine: Option<&'a dyn Any>,
    pub(crate) frames: &'a dyn Fn() -> u64,
}

impl<'a> Context<'a> {
    /// Prints a diagnostic: each line with `# ` before it.
    pub fn diag(&mut self, text: fmt::Arguments<'_>) {
        // An error of the console can be shown nowhere.
        let _ = ktap::diagnostics(self.out, text);
    }

    /// Free frames now.
    pub fn free_frames(&self) -> u64 {
        (self.frames)()
    }

    /// The machine under test as its harness handed it over, when it is a `T`.
    pub fn machine<T: Any>(&self) -> Option<&'a T> {
        self.machine?.downcast_ref()
    }

    /// Prints why a check did not hold; what the `check` macros call.
    #[doc(hidden)]
    pub fn fail(&mut self, file: &str, line: u32, text: fmt::Arguments<'_>) -> Failure {
        self.diag(format_args!("{file}:{line}: {text}"));
        Failure::Failed
    }
}

/// `diag!(ctx, "format", ...)`: a diagnostic line.
#[macro_export]
macro_rules! diag {
    ($ctx:expr, $($text:tt)+) => { $ctx.diag(format_args!($($text)+)) };
}

/// `check!(ctx, condition)` or `check!(ctx, condition, "format", ...)`: fails the test when the
/// condition is false.
#[macro_export]
macro_rules! check {
    ($ctx:expr, $condition:expr $(,)?) => {
        $crate::check!($ctx, $condition, "{}", stringify!($condition))
    };
    ($ctx:expr, $condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($ctx.fail(file!(), line!(), format_args!($($text)+)));
        }
    };
}

/// `check_eq!(ctx, left, right)`: fails the test, with both values, when they differ.
#[macro_export]
macro_rules! check_eq {
    ($ctx:expr, $left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => $crate::check!(
                $ctx,
                *left == *right,
                "{} is {:?}, but {} is {:?}",
                stringify!($left),
                left,
                stringify!($right),
                right
            ),
        }
    };
}

/// `check_ok!(ctx, expression)`: the value of an `Ok` (or `Some`); fails the test otherwise.
#[macro_export]
macro_rules! check_ok {
    ($ctx:expr, $result:expr $(,)?) => {
        match $result {
            Ok(value) => value,
            Err(error) => {
                return Err($ctx.fail(
                    file!(),
                    line!(),
                    format_args!("{}: {:?}", stringify!($result), error),
                ));
            }
        }
    };
}

/// `skip!("reason")`: ends the test, which then counts as skipped.
#[macro_export]
macro_rules! skip {
    ($reason:expr) => {
        return Err($crate::Failure::Skipped($reason))
    };
}
