//! One process of the run and its threads.
use crate::board::{Board, Seat};
use crate::page::Stamp;
use userland::random::Random;
use userland::sys::{proc, time};

/// When the threads of a process end.
#[derive(Clone, Copy)]
pub enum Until {
    /// At this time of the monotonic clock, in nanoseconds.
    Time(u64),
    /// After so many turns of each.
    Turns(u64),
}

/// What a process of the run has to do.
pub struct Part {
    pub board: Board,
    /// Its first seat.
    pub first: usize,
    pub threads: usize,
    pub seed: u64,
    pub until: Until,
}

/// One thread of a process.
pub struct Player {
    /// Among the threads of the process.
    pub number: usize,
    /// Among those of all processes.
    pub place: usize,
    pub seat: Seat,
    pub random: Random,
    until: Until,
    /// The process that writes.
    process: u32,
    written: u32,
}

impl Part {
    /// Runs `play` in each of the threads until all have returned.
    pub fn run(&self, play: impl Fn(Player) + Sync) {
        std::thread::scope(|scope| {
            for number in 0..self.threads {
                let (player, play) = (self.player(number), &play);
                scope.spawn(move || play(player));
            }
        });
    }

    /// The player of one thread.
    pub fn player(&self, number: usize) -> Player {
        let place = self.first + number;
        Player {
            number,
            place,
            seat: self.board.seat(place),
            random: Random::new(self.seed + place as u64),
            until: self.until,
            process: proc::getpid() as u32,
            written: 0,
        }
    }
}

impl Player {
    /// Whether there is another turn.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = match &mut self.until {
            Until::Time(end) => time::now() < *end,
            Until::Turns(0) => false,
            Until::Turns(left) => {
                *left -= 1;
                true
            }
        };
        if !goes_on {
            self.seat.finish();
        }
        goes_on
    }

    /// Continues in a forked child; the child's process number.
    pub fn enter_child(&mut self) -> u32 {
        self.process = proc::getpid() as u32;
        self.process
    }

    /// A word that this thread has not written before.
    pub fn stamp(&mut self) -> Stamp {
        self.written += 1;
        Stamp::new(self.process, self.number as u8, self.written)
    }
}
