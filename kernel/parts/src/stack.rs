//! The stack that a program starts with: strings at the top; below them the auxiliary vector, the
//! environment, the arguments and their count, as the psABI and Linux lay them out.

use alloc::vec::Vec;
use core::ops::Range;
use fallible::OutOfMemory;
use mm::addr::PAGE_SIZE;

/// Size of one string with its NUL, at most (MAX_ARG_STRLEN).
pub const MAX_STRING: usize = 32 * PAGE_SIZE as usize;
/// Size of all strings, at most, whatever the stack limit.
pub const MAX_STRINGS: usize = 6 << 20;
/// Size of all strings that the smallest stack limit allows.
const MIN_STRINGS: u64 = 128 << 10;
/// Alignment of the stack pointer.
const ALIGN: u64 = 16;
/// Bytes of a pointer.
const WORD: u64 = 8;

/// Arguments and environment, without the NULs.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    /// argv
    pub args: Vec<Vec<u8>>,
    /// envp
    pub env: Vec<Vec<u8>>,
}

impl Strings {
    fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.args.iter().chain(&self.env)
    }

    /// Bytes that the strings take with their NULs and pointers.
    fn size(&self) -> u64 {
        self.all()
            .map(|string| string.len() as u64 + 1 + WORD)
            .sum()
    }

    /// Whether strings and pointers take at most a quarter of the stack limit, execve(2).
    pub fn fit(&self, stack_limit: u64) -> bool {
        self.size() <= (stack_limit / 4).clamp(MIN_STRINGS, MAX_STRINGS as u64)
    }
}

/// What a stack is made of.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// argv and envp.
    pub strings: &'a Strings,
    /// AT_EXECFN: the path that was executed.
    pub name: &'a [u8],
    /// AT_PLATFORM.
    pub platform: &'a [u8],
    /// AT_RANDOM.
    pub seed: [u8; 16],
}

/// One past a stack, and what moves the pointer below its strings.
#[derive(Clone, Copy, Debug)]
pub struct Top {
    /// One past the highest byte; a multiple of 16.
    pub address: u64,
    /// Bytes between the strings and what is below them.
    pub shift: u64,
}

/// Addresses on the stack that the auxiliary vector holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// [`Inputs::name`].
    pub name: u64,
    /// [`Inputs::platform`].
    pub platform: u64,
    /// [`Inputs::seed`].
    pub seed: u64,
}

/// A stack that is ready to be written.
#[derive(Debug)]
pub struct Stack {
    /// The stack pointer to start with, a multiple of 16; the lowest address written.
    pub pointer: u64,
    /// The argument strings.
    pub args: Range<u64>,
    /// The environment strings.
    pub env: Range<u64>,
    /// The auxiliary vector.
    pub auxv: Range<u64>,
    /// In reverse: the first byte is the highest.
    reversed: Vec<u8>,
}

impl Stack {
    /// Lays out a stack whose auxiliary vector, pairs of key and value, `auxiliary` makes. `pause`
    /// is called between strings and words with the bytes done before and after; its error, and
    /// that there is no memory, end it.
    pub fn build<const N: usize, E: From<OutOfMemory>>(
        contents: &Inputs<'_>,
        top: Top,
        auxiliary: impl FnOnce(Addresses) -> [[u64; 2]; N],
        mut pause: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<Stack, E> {
        let Inputs { strings, .. } = *contents;
        let mut builder = Builder::new(contents, top)?;
        builder.push(&[0; WORD as usize]);
        let name = builder.push_string(contents.name);
        let env = builder.push_strings(&strings.env, &mut pause)?;
        let args = builder.push_strings(&strings.args, &mut pause)?;
        builder.skip_to((builder.pointer() - top.shift) & !(ALIGN - 1));
        let platform = builder.push_string(contents.platform);
        let seed = builder.push(&contents.seed);
        let auxiliary = auxiliary(Addresses {
            name,
            platform,
            seed,
        });

        let mut words = Vec::new();
        let count = args.addresses.len() + env.addresses.len() + 3 + 2 * N;
        fallible::reserve(&mut words, count)?;
        words.push(args.addresses.len() as u64);
        words.extend(&args.addresses);
        words.push(0);
        words.extend(&env.addresses);
        words.push(0);
        let auxv_at = words.len() as u64 * WORD;
        words.extend(auxiliary.iter().flatten());
        let pointer = builder.push_words(&words, &mut pause)?;
        Ok(Stack {
            pointer,
            args: args.range,
            env: env.range,
            auxv: pointer + auxv_at..pointer + words.len() as u64 * WORD,
            reversed: builder.reversed,
        })
    }

    /// The bytes from [`Self::pointer`] up, in pieces of at most `size`.
    pub fn pieces(&mut self, size: usize) -> impl Iterator<Item = &[u8]> {
        self.reversed.rchunks_mut(size).map(|piece| {
            piece.reverse();
            &*piece
        })
    }
}

/// Strings that were pushed: the address of each, and the range of all.
struct Pushed {
    addresses: Vec<u64>,
    range: Range<u64>,
}

/// Bytes that grow downwards from the top of the stack.
struct Builder {
    top: u64,
    reversed: Vec<u8>,
}

impl Builder {
    /// With room for all of `contents`: what is not counted takes less than a page.
    fn new(contents: &Inputs<'_>, top: Top) -> Result<Builder, OutOfMemory> {
        let more = contents.name.len() + contents.platform.len() + top.shift as usize;
        let size = contents.strings.size() as usize + more + PAGE_SIZE as usize;
        let mut reversed = Vec::new();
        fallible::reserve(&mut reversed, size)?;
        Ok(Builder {
            top: top.address,
            reversed,
        })
    }

    fn pointer(&self) -> u64 {
        self.top - self.reversed.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.reversed.extend(bytes.iter().rev());
        self.pointer()
    }

    fn push_string(&mut self, string: &[u8]) -> u64 {
        self.reversed.push(0);
        self.push(string)
    }

    /// Pushes strings so that the first is the lowest.
    fn push_strings<E: From<OutOfMemory>>(
        &mut self,
        strings: &[Vec<u8>],
        pause: &mut impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<Pushed, E> {
        let end = self.pointer();
        let mut addresses = Vec::new();
        fallible::reserve(&mut addresses, strings.len())?;
        for string in strings.iter().rev() {
            let before = self.reversed.len();
            addresses.push(self.push_string(string));
            pause(before, self.reversed.len())?;
        }
        addresses.reverse();
        let range = self.pointer()..end;
        Ok(Pushed { addresses, range })
    }

    /// Pushes words so that the first is the lowest and aligned; its address.
    fn push_words<E>(
        &mut self,
        words: &[u64],
        pause: &mut impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<u64, E> {
        let size = words.len() as u64 * WORD;
        let pointer = (self.pointer() - size) & !(ALIGN - 1);
        self.skip_to(pointer + size);
        for word in words.iter().rev() {
            let before = self.reversed.len();
            self.push(&word.to_le_bytes());
            pause(before, self.reversed.len())?;
        }
        Ok(pointer)
    }

    /// Zeros down to an address.
    fn skip_to(&mut self, pointer: u64) {
        let len = (self.top - pointer) as usize;
        self.reversed.resize(len, 0);
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
