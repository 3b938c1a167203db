//! What all labs have in common.

/// Makes a lab of the trait of its solutions. Each function of the trait is one of the student's
/// `solution.rs`; the lab has the modules `solution` and `tests` (the student's), `public` (the
/// tests that come with it), `broken_solutions` and, with the feature, `answer_key` and `held_back`
/// (tests that a handout does not have).
#[allow(unused_macros, reason = "a build without a lab makes none")]
macro_rules! lab {
    (
        $(#[$doc:meta])*
        pub trait $Lab:ident {
            $(
                $(#[$what:meta])*
                fn $function:ident(&self $(, $name:ident: $type:ty)*) $(-> $answer:ty)?;
            )+
        }
    ) => {
        $(#[$doc])*
        pub trait $Lab {
            $(
                $(#[$what])*
                fn $function(&self $(, $name: $type)*) $(-> $answer)?;
            )+
        }

        pub use subject::Subject;

        mod subject {
            use super::*;

            /// What tests are given: a solution of which nothing can be told but its answers, for
            /// all have this type.
            pub struct Subject(&'static dyn $Lab);

            impl Subject {
                pub(super) fn of(solution: &'static dyn $Lab) -> Self {
                    Subject(solution)
                }
                $(
                    $(#[$what])*
                    pub fn $function(&self $(, $name: $type)*) $(-> $answer)? {
                        self.0.$function($($name),*)
                    }
                )+
            }

            // For what takes any solution.
            impl $Lab for Subject {
                $(
                    fn $function(&self $(, $name: $type)*) $(-> $answer)? {
                        self.0.$function($($name),*)
                    }
                )+
            }
        }

        /// A test of this lab.
        pub type Test = crate::Test<Subject>;

        use alloc::boxed::Box;

        /// A mutant at work.
        struct Broken {
            name: &'static str,
            /// Picks where it breaks, if it can choose.
            seed: u64,
            /// What it is made from.
            right: &'static dyn $Lab,
        }

        /// The broken solutions.
        pub const MUTANTS: &[crate::Mutant] = broken_solutions::ALL;

        /// The tests with this name: those that come with the lab are `public`, those that a
        /// handout does not have `held-back`, and the student's `own`.
        pub fn tests_by_name(name: &str) -> Option<&'static [Test]> {
            match name {
                "public" => Some(public::TESTS),
                #[cfg(feature = "answer")]
                "held-back" => Some(held_back::TESTS),
                #[cfg(not(feature = "answer"))]
                "held-back" => Some(&[]),
                "own" => Some(tests::TESTS),
                _ => None,
            }
        }

        /// The student's.
        pub struct Solution;

        impl $Lab for Solution {
            $(
                fn $function(&self $(, $name: $type)*) $(-> $answer)? {
                    solution::$function($($name),*)
                }
            )+
        }

        /// Calls `run` with the solution that has this name: `solution`, `answer` where there is
        /// one, or a mutant, which breaks the best that there is. `seed` picks where those break
        /// that can choose.
        pub fn subject_by_name(name: &str, seed: u64, run: &mut dyn FnMut(&Subject)) -> bool {
            /// Nothing outside of this function can name it.
            #[cfg(feature = "answer")]
            struct Answer;

            #[cfg(feature = "answer")]
            impl $Lab for Answer {
                $(
                    fn $function(&self $(, $name: $type)*) $(-> $answer)? {
                        answer_key::$function($($name),*)
                    }
                )+
            }

            #[cfg(feature = "answer")]
            let right: &'static dyn $Lab = &Answer;
            #[cfg(not(feature = "answer"))]
            let right: &'static dyn $Lab = &Solution;
            let mutant = MUTANTS.iter().find(|mutant| mutant.0 == name);
            // There is one whoever is asked for, and all are handed over from here.
            let broken = Box::leak(Box::new(Broken {
                name: mutant.map_or("", |mutant| mutant.0),
                seed,
                right,
            }));
            run(&Subject::of(match (name, mutant) {
                ("solution", _) => &Solution,
                ("answer", _) => right,
                (_, Some(_)) => broken,
                (_, None) => return false,
            }));
            true
        }
    };
}
