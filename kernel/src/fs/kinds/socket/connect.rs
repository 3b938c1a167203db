//! Connections: listen(2), connect(2), accept(2), and pairs.

use super::{Backlog, Endpoint, How, Style};
use crate::base::errno::{Errno, Result};
use crate::fs::caller::Creator;
use crate::fs::open::ops::Ready;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// The longest queue of listen(2) (/proc/sys/net/core/somaxconn).
const LONGEST: usize = 4096;

/// Two sockets that are connected. ENOMEM.
pub fn pair(style: Style, creator: Creator) -> Result<[Arc<Endpoint>; 2]> {
    let both = [Endpoint::new(style)?, Endpoint::new(style)?];
    both[0].join(&both[1], Some(creator));
    both[1].join(&both[0], Some(creator));
    Ok(both)
}

impl Endpoint {
    fn join(&self, other: &Endpoint, process: Option<Creator>) {
        let mut state = self.state.lock();
        state.peer = Some(other.me.clone());
        state.peer_process = process;
    }

    /// listen(2): the queue's length may be changed later. EOPNOTSUPP, EINVAL: without a name, or
    /// connected.
    pub fn listen(&self, most: i32, process: Creator) -> Result {
        if self.style == Style::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut state = self.state.lock();
        if state.name.is_none() || state.peer.is_some() {
            return Err(Errno::EINVAL);
        }
        // Linux takes a negative number for the most.
        let most = usize::try_from(most).unwrap_or(LONGEST).min(LONGEST);
        // One more than was asked for may wait.
        match &mut state.backlog {
            Some(backlog) => backlog.most = most + 1,
            none => {
                *none = Some(Backlog {
                    waiting: VecDeque::new(),
                    most: most + 1,
                });
            }
        }
        state.peer_process = Some(process);
        drop(state);
        self.changed.wake_all();
        Ok(())
    }

    /// connect(2). EPROTOTYPE: another style; ECONNREFUSED: it does not listen; EISCONN, EINVAL:
    /// this one listens; EAGAIN: the queue is full; EPERM: it takes datagrams from another alone.
    pub fn connect(&self, to: &Arc<Endpoint>, how: How, process: Creator) -> Result {
        if to.style != self.style {
            return Err(Errno::EPROTOTYPE);
        }
        if self.style == Style::Datagram {
            to.check_takes_from(self)?;
            self.join(to, Some(process));
            self.changed.wake_all();
            return Ok(());
        }
        self.check_connectable()?;
        let new = Endpoint::new(self.style)?;
        let (server, name) = {
            let state = to.state.lock();
            (state.peer_process, state.name.clone())
        };
        new.join(self, Some(process));
        new.state.lock().name = name;
        let timeout = self.options(|options| options.send_timeout());
        to.wait(how, timeout, || {
            // Another thread may have connected it while this one waited.
            if let Err(error) = self.check_connectable() {
                return Some(Err(error));
            }
            to.enqueue(&new).inspect(|result| {
                if result.is_ok() {
                    self.join(&new, server);
                }
            })
        })?;
        to.tell(Ready::IN);
        self.changed.wake_all();
        Ok(())
    }

    /// EISCONN; EINVAL: it listens.
    fn check_connectable(&self) -> Result {
        let state = self.state.lock();
        match (&state.backlog, &state.peer) {
            (Some(_), _) => Err(Errno::EINVAL),
            (_, Some(_)) => Err(Errno::EISCONN),
            _ => Ok(()),
        }
    }

    /// EPERM: it takes datagrams from another alone.
    pub(super) fn check_takes_from(&self, sender: &Endpoint) -> Result {
        let connected = self.state.lock().peer.is_some();
        match connected && !self.is_peer(sender) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// connect(2) to no address: datagrams go nowhere and come from everybody.
    pub fn disconnect(&self) -> Result {
        if self.style != Style::Datagram {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        (state.peer, state.peer_process) = (None, None);
        Ok(())
    }

    /// Adds a connection to the queue; `None`: it is full. ECONNREFUSED.
    fn enqueue(&self, new: &Arc<Endpoint>) -> Option<Result> {
        let state = &mut *self.state.lock();
        let Some(backlog) = state.backlog.as_mut().filter(|_| !state.receive_shutdown) else {
            return Some(Err(Errno::ECONNREFUSED));
        };
        if backlog.waiting.len() >= backlog.most {
            return None;
        }
        let room = fallible::reserve(&mut backlog.waiting, 1);
        if room.is_ok() {
            backlog.waiting.push_back(new.clone());
        }
        Some(room.map_err(Errno::from))
    }

    /// accept(2): the next connection. EOPNOTSUPP, EINVAL: it does not listen; EAGAIN.
    pub fn accept(&self, how: How) -> Result<Arc<Endpoint>> {
        if self.style == Style::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let timeout = self.options(|options| options.receive_timeout());
        let mut taken = None;
        self.wait(how, timeout, || {
            let state = &mut *self.state.lock();
            match &mut state.backlog {
                None => Some(Err(Errno::EINVAL)),
                Some(backlog) => {
                    taken = backlog.waiting.pop_front();
                    match taken {
                        Some(_) => Some(Ok(())),
                        None => state.receive_shutdown.then_some(Err(Errno::EINVAL)),
                    }
                }
            }
        })?;
        self.tell(Ready::OUT);
        taken.ok_or(Errno::EINVAL)
    }
}
