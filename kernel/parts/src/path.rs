//! Path splitting: the names in a path, one after the other, and the targets of links in front of
//! the rest.

use alloc::vec::Vec;
use fallible::OutOfMemory;

/// Longest name of one file.
pub const NAME_MAX: usize = 255;
/// Longest path with its NUL.
pub const PATH_MAX: usize = 4096;

/// What is left of a path.
pub struct Rest {
    path: Vec<u8>,
    at: usize,
}

impl Rest {
    /// The whole path.
    #[inline]
    pub fn of(path: &[u8]) -> Rest {
        Rest {
            path: path.to_vec(),
            at: 0,
        }
    }

    /// Whether the path, or the link in front of it, starts at the root.
    #[inline]
    pub fn is_absolute(&self) -> bool {
        self.path.first() == Some(&b'/')
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == self.path.len()
    }

    /// The next name; `None` behind the last one. A name that is too long is cut one byte behind
    /// [`NAME_MAX`], which is enough to see it.
    #[inline]
    pub fn next_name(&mut self) -> Option<Vec<u8>> {
        self.skip_slashes();
        let rest = &self.path[self.at..];
        let len = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
        let name = rest[..len.min(NAME_MAX + 1)].to_vec();
        self.at += len;
        (len > 0).then_some(name)
    }

    /// Whether there was a slash.
    #[inline]
    pub fn skip_slashes(&mut self) -> bool {
        let before = self.at;
        while self.path.get(self.at) == Some(&b'/') {
            self.at += 1;
        }
        self.at > before
    }

    /// Continues with a link's target, then with what is left; `slash` stood behind the link.
    pub fn follow(&mut self, mut target: Vec<u8>, slash: bool) -> Result<(), OutOfMemory> {
        let rest = &self.path[self.at..];
        fallible::reserve(&mut target, rest.len() + 1)?;
        if slash {
            target.push(b'/');
        }
        target.extend_from_slice(rest);
        (self.path, self.at) = (target, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn names(rest: &mut Rest) -> Vec<String> {
        let text = |name: Vec<u8>| String::from_utf8(name).expect("text");
        core::iter::from_fn(|| rest.next_name().map(text)).collect()
    }

    #[test]
    fn slashes_divide_names_however_many_they_are() {
        for (path, wanted) in [
            ("", &[][..]),
            ("/", &[]),
            ("a", &["a"]),
            ("/a//b/", &["a", "b"]),
            ("..//./a.b", &["..", ".", "a.b"]),
        ] {
            let mut rest = Rest::of(path.as_bytes());
            assert_eq!(rest.is_absolute(), path.starts_with('/'), "{path}");
            assert_eq!(names(&mut rest), wanted, "{path}");
            assert!(rest.is_empty(), "{path}");
        }
    }

    #[test]
    fn a_slash_at_the_end_is_seen() {
        let mut rest = Rest::of(b"a/b//");
        assert_eq!(rest.next_name().as_deref(), Some(&b"a"[..]));
        assert!(rest.skip_slashes() && !rest.is_empty());
        assert_eq!(rest.next_name().as_deref(), Some(&b"b"[..]));
        assert!(rest.skip_slashes() && rest.is_empty());
        assert!(!rest.skip_slashes());
    }

    #[test]
    fn a_name_that_is_too_long_is_seen_as_one() {
        for (len, wanted) in [(255, 255), (256, 256), (300, 256), (4095, 256)] {
            let mut path = alloc::vec![b'x'; len];
            path.extend_from_slice(b"/y");
            let mut rest = Rest::of(&path);
            assert_eq!(rest.next_name().map(|name| name.len()), Some(wanted));
            assert_eq!(names(&mut rest), ["y"]);
        }
    }

    #[test]
    fn a_link_comes_before_the_rest() {
        let mut rest = Rest::of(b"/link/x/y");
        rest.next_name();
        assert!(rest.skip_slashes());
        rest.follow(b"/t/u".to_vec(), true).expect("memory");
        assert!(rest.is_absolute());
        assert_eq!(names(&mut rest), ["t", "u", "x", "y"]);
        let mut last = Rest::of(b"link");
        last.next_name();
        last.follow(b"t".to_vec(), false).expect("memory");
        assert!(!last.is_absolute());
        assert_eq!(names(&mut last), ["t"]);
    }
}
