//! What each frame is used for, and the size of its folio.
use crate::owners::Mapped;

/// kpageflags, pagemap.rst.
mod flag {
    pub const BUDDY: u64 = 1 << 10;
    pub const ANON: u64 = 1 << 12;
    pub const SWAPBACKED: u64 = 1 << 14;
    pub const HEAD: u64 = 1 << 15;
    pub const TAIL: u64 = 1 << 16;
    pub const NOPAGE: u64 = 1 << 20;
    pub const LRU: u64 = 1 << 5;
    pub const MMAP: u64 = 1 << 11;
    pub const PGTABLE: u64 = 1 << 26;
}

/// The largest free block: 2^18 frames here, 2^10 on Linux, where the next one is marked, too.
const LARGEST: usize = 1 << 18;

/// What a frame is used for; in the output by these names, in small letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no memory here that the kernel could give away.
    None,
    /// Free, as far as the flags tell: see [`states`].
    Free,
    /// Mapped by the first process.
    First,
    /// Mapped by the second process.
    Second,
    /// Mapped by both.
    Both,
    /// In a folio of theirs, but mapped by neither any more.
    Unmapped,
    /// Private memory of other processes.
    Other,
    /// Files in memory and shared memory.
    File,
    /// A page table.
    Table,
    /// The kernel's.
    Kernel,
}

/// Each frame's state and the size of its folio in frames.
///
/// The flags mark only the first frame of a free block. The block is at most as large as its first
/// frame's number is aligned, and the others have no flags; but neither have single frames of the
/// kernel, so one that lies behind a free block within that bound shows as free, and what the lists
/// of CPUs keep shows as the kernel's.
pub fn states(flags: &[u64], mapped: &Mapped) -> Vec<(State, usize)> {
    let mut states = Vec::with_capacity(flags.len());
    while let Some(word) = flags.get(states.len()) {
        let first = states.len();
        let tails = |most: usize, what: fn(u64) -> bool| {
            let rest = flags[first + 1..].iter().take(most - 1);
            1 + rest.take_while(|word| what(**word)).count()
        };
        if word & flag::BUDDY != 0 {
            let aligned = 1 << first.trailing_zeros().min(LARGEST.trailing_zeros());
            let frames = tails(aligned, |word| word == 0);
            states.extend((0..frames).map(|_| (State::Free, 1)));
        } else {
            let frames = match word & flag::HEAD {
                0 => 1,
                _ => tails(flags.len(), |word| word & flag::TAIL != 0),
            };
            folio(first, frames, flags, mapped, &mut states);
        }
    }
    states
}

/// Adds the frames of one folio, or a single frame.
fn folio(
    first: usize,
    frames: usize,
    flags: &[u64],
    mapped: &Mapped,
    states: &mut Vec<(State, usize)>,
) {
    let whose = |frame| match (mapped[0].contains(&frame), mapped[1].contains(&frame)) {
        (true, true) => Some(State::Both),
        (true, false) => Some(State::First),
        (false, true) => Some(State::Second),
        (false, false) => None,
    };
    let theirs = (first..first + frames).any(|frame| whose(frame).is_some());
    let used = used(flags[first]);
    let rest = match used {
        State::Other if theirs => State::Unmapped,
        used => used,
    };
    states.extend((first..first + frames).map(|frame| (whose(frame).unwrap_or(rest), frames)));
}

/// By its flags alone.
fn used(flags: u64) -> State {
    match flags {
        _ if flags & flag::NOPAGE != 0 => State::None,
        _ if flags & flag::PGTABLE != 0 => State::Table,
        _ if flags & flag::ANON != 0 => State::Other,
        _ if flags & (flag::SWAPBACKED | flag::LRU | flag::MMAP) != 0 => State::File,
        _ => State::Kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn states_by_flags_and_pagemaps() {
        let anon = flag::ANON | flag::SWAPBACKED;
        let mut flags = vec![flag::NOPAGE, 0, flag::PGTABLE, flag::SWAPBACKED];
        // A folio of four frames, one of which is mapped by nobody any more.
        flags.extend([anon | flag::HEAD, anon | flag::TAIL, anon | flag::TAIL]);
        flags.extend([anon | flag::TAIL, flag::BUDDY, 0, flag::BUDDY, 0, 0, anon]);
        let set = |frames: &[usize]| frames.iter().copied().collect::<BTreeSet<_>>();
        let states = states(&flags, &[set(&[4, 5]), set(&[5, 6])]);
        let one = |state| (state, 1);
        let four = |state| (state, 4);
        let wanted = [
            one(State::None),
            one(State::Kernel),
            one(State::Table),
            one(State::File),
            four(State::First),
            four(State::Both),
            four(State::Second),
            four(State::Unmapped),
            one(State::Free),
            one(State::Free),
            // Frame 10 begins a block of two at most.
            one(State::Free),
            one(State::Free),
            one(State::Kernel),
            one(State::Other),
        ];
        assert_eq!(states, wanted);
    }
}
