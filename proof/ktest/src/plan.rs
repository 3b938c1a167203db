//! The choice of tests, from the kernel's command line.
use crate::{Test, glob};
use core::fmt::{self, Write};

/// A choice of tests. Names and patterns are dotted, as in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// `quire.test=GLOB`: tests to run; `*` for all.
    pub filter: &'a str,
    /// `quire.test.skip=GLOB,GLOB`: tests to leave out.
    pub skip: &'a str,
    /// `quire.test.after=NAME`: leave out everything up to and including NAME, to continue a run
    /// after a test that ended the machine.
    pub after: Option<&'a str>,
    /// `quire.test.list`: print the names instead of running.
    pub list: bool,
}

impl Plan<'static> {
    /// All tests.
    pub const ALL: Self = Plan {
        filter: "*",
        skip: "",
        after: None,
        list: false,
    };
}

impl<'a> Plan<'a> {
    /// The plan that a kernel command line asks for by these words and their values, or `None`
    /// without any for tests.
    pub fn of(words: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut plan = Plan::ALL;
        let mut asked = false;
        for word in words {
            match word {
                ("quire.test", filter) => {
                    asked = true;
                    plan.filter = if filter.is_empty() { "*" } else { filter };
                }
                ("quire.test.list", _) => {
                    asked = true;
                    plan.list = true;
                }
                ("quire.test.skip", skip) => plan.skip = skip,
                ("quire.test.after", name) => plan.after = Some(name),
                _ => {}
            }
        }
        asked.then_some(plan)
    }

    /// Whether a test that prints as `name` is chosen (by all but `after`, which depends on the
    /// order).
    pub(crate) fn wants(&self, name: &str) -> bool {
        glob::matches(self.filter, name) && !glob::matches(self.skip, name)
    }
}

/// A test's printed name in a buffer of its own: matching needs text, and there may be no heap.
pub(crate) struct PrintedName {
    bytes: [u8; 160],
    len: usize,
}

impl PrintedName {
    pub(crate) fn of(test: &Test) -> Self {
        let mut name = PrintedName {
            bytes: [0; 160],
            len: 0,
        };
        // Fails only for a name that is too long: matched by its beginning then.
        let _ = write!(name, "{test}");
        name
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for PrintedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self
            .bytes
            .get_mut(self.len..self.len + text.len())
            .ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn command_line() {
        let plan = |words: &[(&'static str, &'static str)]| Plan::of(words.iter().copied());
        assert_eq!(plan(&[("quire.test.skip", "a")]), None);
        assert_eq!(plan(&[("quire.test", "")]), Some(Plan::ALL));
        let words = [
            ("quire.test", "mm.*"),
            ("quire.test.skip", "a,b"),
            ("quire.test.after", "mm.x"),
        ];
        assert_eq!(
            plan(&words),
            Some(Plan {
                filter: "mm.*",
                skip: "a,b",
                after: Some("mm.x"),
                list: false
            })
        );
        let list = plan(&[("quire.test.list", "")]);
        assert!(list.is_some_and(|plan| plan.list && plan.filter == "*"));
    }
}
