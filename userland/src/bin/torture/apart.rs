//! Threads that share nothing but their address space: each maps memory, writes a part of it, moves
//! it or changes its rights, checks it and unmaps it; now and then one forks. What a program with
//! many threads and a heap of its own for each does all day.
use crate::board::Op;
use crate::page::wrong;
use crate::play::{Part, Player};
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result};

/// The most pages of one mapping.
const MOST: u64 = 600;
/// One page of so many is written, at the fewest.
const STRIDE: u64 = 4;
/// Turns from one fork to the next.
const FORKS: u64 = 64;

/// Plays with the threads of this process.
pub fn play(part: &Part) {
    part.run(|mut player| {
        let mut turns = 0;
        while player.goes_on() {
            turns += 1;
            match turn(&mut player, turns % FORKS == 0) {
                // The other processes of the run may have it all.
                Ok(()) | Err(Errno(libc::ENOMEM)) => {}
                Err(why) => wrong(0, &format!("a call of a thread by itself gives {why:?}")),
            }
        }
    });
}

/// The memory of one turn.
struct Memory {
    at: usize,
    pages: usize,
    stride: usize,
    /// In the upper half of each word.
    mark: u64,
}

impl Memory {
    fn len(&self) -> usize {
        self.pages * PAGE
    }
    fn word(&self, page: usize) -> u64 {
        self.mark << 32 | page as u64
    }
    fn write(&self) {
        (0..self.pages)
            .step_by(self.stride)
            .for_each(|page| mem::store(self.at + page * PAGE, self.word(page)));
    }
    fn check(&self) {
        for page in 0..self.pages {
            let (at, is_written) = (self.at + page * PAGE, page.is_multiple_of(self.stride));
            let expected = if is_written { self.word(page) } else { 0 };
            let found = mem::load(at);
            if found != expected {
                wrong(at, &format!("it is {found:#x}, not {expected:#x}"));
            }
        }
    }
    /// To a place that something else had.
    fn move_away(&mut self) -> Result<()> {
        let to = mem::mmap(0, self.len(), libc::PROT_NONE, ANON, -1, 0)?;
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        self.at = mem::mremap(self.at, self.len(), self.len(), how, to)?;
        Ok(())
    }
    fn protect_and_back(&self) -> Result<()> {
        mem::mprotect(self.at, self.len(), libc::PROT_READ)?;
        mem::mprotect(self.at, self.len(), RW)
    }
    fn check_in_child(&self) -> Result<()> {
        match proc::fork()? {
            Fork::Child => proc::exit_now(i32::from(mem::load(self.at) != self.word(0))),
            Fork::Parent(pid) => match proc::wait_for(pid)? {
                Status::Exited(0) => Ok(()),
                how => wrong(
                    self.at,
                    &format!("a child that looks at it ends with {how:?}"),
                ),
            },
        }
    }
}

fn turn(player: &mut Player, forks: bool) -> Result<()> {
    let pages = 1 + player.random.below(MOST) as usize;
    let stride = 1 + player.random.below(STRIDE) as usize;
    let mut memory = Memory {
        at: mem::mmap(0, pages * PAGE, RW, ANON, -1, 0)?,
        pages,
        stride,
        mark: player.place as u64 + 1,
    };
    player.seat.count(Op::Map);
    memory.write();
    match player.random.below(3) {
        1 => {
            memory.move_away()?;
            player.seat.count(Op::Move);
        }
        2 => {
            memory.protect_and_back()?;
            player.seat.count(Op::Protect);
        }
        _ => {}
    }
    memory.check();
    if forks {
        memory.check_in_child()?;
        player.seat.count(Op::Fork);
    }
    mem::munmap(memory.at, memory.len())?;
    player.seat.count(Op::Unmap);
    Ok(())
}
