//! Stacks read back as a program's start-up code does.

use super::*;
use proptest::prelude::*;

const TOP: u64 = 0x7fff_ffff_f000;

fn strings(args: &[&str], env: &[&str]) -> Strings {
    let own = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect();
    Strings {
        args: own(args),
        env: own(env),
    }
}

/// A stack as it stands in memory.
struct Image {
    stack: Stack,
    bytes: Vec<u8>,
}

impl Image {
    fn of(strings: &Strings, shift: u64) -> Image {
        let contents = Inputs {
            strings,
            name: b"/bin/x",
            platform: b"sim",
            seed: [7; 16],
        };
        let address = TOP;
        let vector = |addresses: Addresses| {
            [
                [31, addresses.name],
                [15, addresses.platform],
                [25, addresses.seed],
                [0, 0],
            ]
        };
        let top = Top { address, shift };
        let stack = Stack::build(&contents, top, vector, |_, _| Ok::<(), OutOfMemory>(()));
        let mut stack = stack.expect("there is memory");
        let bytes = stack.pieces(100).flatten().copied().collect();
        Image { stack, bytes }
    }

    fn from(&self, address: u64) -> &[u8] {
        &self.bytes[(address - self.stack.pointer) as usize..]
    }

    fn word(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.from(address)[..8].try_into().expect("eight bytes"))
    }

    fn string(&self, address: u64) -> &[u8] {
        let bytes = self.from(address);
        let end = bytes.iter().position(|b| *b == 0).expect("a NUL");
        &bytes[..end]
    }

    /// Strings of the pointers from `at` up to a null one; where the words after it stand.
    fn vector(&self, mut at: u64) -> (Vec<Vec<u8>>, u64) {
        let mut found = Vec::new();
        while self.word(at) != 0 {
            found.push(self.string(self.word(at)).to_vec());
            at += 8;
        }
        (found, at + 8)
    }
}

/// What every stack satisfies.
fn check(strings: &Strings, shift: u64) {
    let image = Image::of(strings, shift);
    let Stack {
        pointer,
        args,
        env,
        auxv,
        ..
    } = &image.stack;
    assert_eq!(pointer % 16, 0);
    assert_eq!(pointer + image.bytes.len() as u64, TOP);
    assert_eq!(image.word(*pointer), strings.args.len() as u64);
    let (found, after) = image.vector(pointer + 8);
    assert_eq!(found, strings.args);
    let (found, after) = image.vector(after);
    assert_eq!(found, strings.env);
    assert_eq!((after, auxv.end - auxv.start), (auxv.start, 4 * 16));
    // /proc/PID/cmdline and environ are the strings with their NULs, one after the other.
    for (range, strings) in [(args, &strings.args), (env, &strings.env)] {
        let all: Vec<u8> = strings
            .iter()
            .flat_map(|s| [s, &[0][..]].concat())
            .collect();
        assert_eq!(image.from(range.start)[..all.len()], all);
        assert_eq!(range.end - range.start, all.len() as u64);
    }
    assert!(args.end == env.start && env.end < TOP);
    let value = |n: u64| image.word(auxv.start + 16 * n + 8);
    assert_eq!(image.string(value(0)), b"/bin/x");
    assert_eq!(image.string(value(1)), b"sim");
    assert_eq!(image.from(value(2))[..16], [7; 16]);
    assert!(args.start - value(1) >= shift);
}

#[test]
fn a_program_finds_its_strings() {
    check(&strings(&["x", "-v", ""], &["A=1", "HOME=/"]), 0);
    check(&strings(&["x"], &[]), 8176);
    check(&strings(&[], &["A="]), 16);
}

#[test]
fn strings_may_take_a_quarter_of_the_stack() {
    let sized = |bytes: usize| Strings {
        args: alloc::vec![alloc::vec![b'x'; bytes - 9]],
        env: Vec::new(),
    };
    let quarter = 256 << 10;
    assert!(sized(quarter).fit(1 << 20));
    assert!(!sized(quarter + 1).fit(1 << 20));
    assert!(sized(128 << 10).fit(0) && !sized((128 << 10) + 1).fit(0));
    assert!(sized(MAX_STRINGS).fit(u64::MAX) && !sized(MAX_STRINGS + 1).fit(u64::MAX));
}

#[test]
fn an_error_of_the_pause_ends_it() {
    #[derive(PartialEq, Debug)]
    struct Stop;
    impl From<OutOfMemory> for Stop {
        fn from(_: OutOfMemory) -> Stop {
            Stop
        }
    }
    let strings = strings(&["x", "y"], &[]);
    let contents = Inputs {
        strings: &strings,
        name: b"x",
        platform: b"sim",
        seed: [0; 16],
    };
    let top = Top {
        address: TOP,
        shift: 0,
    };
    let mut left = 1;
    let stop_at_second = |_, _| {
        left -= 1;
        if left < 0 { Err(Stop) } else { Ok(()) }
    };
    let stack = Stack::build(&contents, top, |_| [[0, 0]], stop_at_second);
    assert_eq!(stack.err(), Some(Stop));
}

proptest! {
    #[test]
    fn any_strings_are_found(
        args in prop::collection::vec(prop::collection::vec(1u8.., 0..40), 0..20),
        env in prop::collection::vec(prop::collection::vec(1u8.., 0..40), 0..20),
        shift in 0u64..512,
    ) {
        check(&Strings { args, env }, shift * 16);
    }
}
