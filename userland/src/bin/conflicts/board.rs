//! The words by which the actors and their conductor agree: a page that all processes share, with a
//! line for each word. All wait awake, in user mode, so that no kernel works for those who wait.
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::sys::{Errno, Result, cpus, mem};

/// Bytes between two words.
const LINE: usize = 128;

/// Of one cell after the other.
#[derive(Clone, Copy)]
pub struct Board(usize);

/// What an actor is told to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Its operation elsewhere, so that what is made once is there.
    Rehearse = 1,
    /// What its operation finds (an actor with a space of its own).
    Prepare,
    /// Its operation.
    Perform,
    /// Its end.
    End,
}

impl Board {
    /// Maps it.
    pub fn new() -> Result<Board> {
        mem::shared_page().map(Board)
    }

    fn word(self, n: usize) -> &'static AtomicU32 {
        mem::word32(self.0 + n * LINE)
    }

    /// The number of orders that an actor got, times 8, and the last of them.
    fn order(self, actor: usize) -> &'static AtomicU32 {
        self.word(actor)
    }

    /// The last order that an actor has obeyed, as above.
    fn obeyed(self, actor: usize) -> &'static AtomicU32 {
        self.word(2 + actor)
    }

    /// How an actor failed: an error number; 0 if it did not.
    fn failure(self, actor: usize) -> &'static AtomicU32 {
        self.word(4 + actor)
    }

    /// The child that an actor made, once it is out of the way.
    pub fn child(self, actor: usize) -> &'static AtomicU32 {
        self.word(6 + actor)
    }

    /// Not 0 as long as an actor is there that is a thread.
    pub fn alive(self, actor: usize) -> &'static AtomicU32 {
        self.word(8 + actor)
    }

    /// Begins a cell.
    pub fn clear(self) {
        (0..10).for_each(|n| self.word(n).store(0, SeqCst));
    }

    /// Gives an order, and does not wait.
    pub fn begin(self, actor: usize, order: Order) {
        let next = (self.order(actor).load(SeqCst) / 8 + 1) * 8 + order as u32;
        self.order(actor).store(next, SeqCst);
    }

    /// Gives an order, and waits until it is obeyed. `watch` is asked now and then, and ends the
    /// wait by an error.
    pub fn order_and_wait(
        self,
        actor: usize,
        order: Order,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.begin(actor, order);
        self.wait_until_obeyed(actor, watch)
    }

    /// Waits until the last order is obeyed.
    pub fn wait_until_obeyed(
        self,
        actor: usize,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        const PATIENCE: u32 = 100_000;
        let (order, obeyed) = (self.order(actor).load(SeqCst), self.obeyed(actor));
        let mut rounds = 0;
        while obeyed.load(SeqCst) != order {
            cpus::relax();
            rounds = (rounds + 1) % PATIENCE;
            if rounds == 0 {
                watch()?;
            }
        }
        match self.failure(actor).load(SeqCst) {
            0 => Ok(()),
            number => Err(Errno(number as i32)),
        }
    }

    /// The next order for an actor, which has obeyed `last`. Waits without a call: one writes to
    /// the stack, which faults after a fork by the other.
    pub fn next(self, actor: usize, last: &mut u32) -> Order {
        let (order, before) = (self.order(actor), *last);
        let mut now = order.load(SeqCst);
        while now == before {
            cpus::relax();
            now = order.load(SeqCst);
        }
        *last = now;
        let orders = [Order::Rehearse, Order::Prepare, Order::Perform, Order::End];
        orders[now as usize % 8 - 1]
    }

    /// Says how obeying went.
    pub fn obey(self, actor: usize, order: u32, how: Result<()>) {
        if let Err(error) = how {
            self.failure(actor).store(error.0 as u32, SeqCst);
        }
        self.obeyed(actor).store(order, SeqCst);
    }
}
