//! Open files in messages, SCM_RIGHTS of unix(7): they stay open on the way.
//!
//! A socket may be on its way into itself, or into one that is on its way into the first: nothing
//! leads to such a circle once its descriptors are closed, and nothing would close it. So the
//! sockets in flight are counted, and [`collect`] empties those that only messages hold, and only
//! messages of each other. It runs when a socket is closed, and before files take off once there
//! are twice as many as were left the last time.
//!
//! Files that land in no descriptor are closed one after the other, not one inside the other: a
//! socket that is closed closes what is in its messages. Why: `docs/decisions/0014`.

use super::endpoint_of;
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::open::file::OpenFile;
use crate::sched;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use fallible::SortedMap;
use mm::sync::Lock;

/// Files in flight at most, over all messages.
const MOST: usize = 2048;
/// Sockets among them: circles are looked for in one go.
const MOST_SOCKETS: usize = 512;
/// Fewer sockets in flight are not looked through before more files take off.
const FEW: usize = 16;

/// Open files in a message.
pub struct Rights(Vec<Arc<OpenFile>>);

/// An open file by its address: it lives as long as it is in flight.
type Address = usize;

struct Flight {
    /// The sockets among the files in flight, and how often each is in a message.
    sockets: SortedMap<Address, (Weak<OpenFile>, usize)>,
    /// Files in flight, those that landed included.
    files: usize,
    /// To be closed. There is room for all in flight.
    landed: Vec<Arc<OpenFile>>,
    /// Somebody closes them.
    closing: bool,
    /// A collection is under way.
    collecting: bool,
    /// So many of the sockets that were left by the last one may be there still.
    left: usize,
}

static FLIGHT: Lock<Flight, { ranks::OPEN_FILE }> = Lock::new(Flight {
    sockets: SortedMap::new(),
    files: 0,
    landed: Vec::new(),
    closing: false,
    collecting: false,
    left: 0,
});

fn address(file: &Arc<OpenFile>) -> Address {
    Arc::as_ptr(file).addr()
}

impl Flight {
    fn has_grown(&self) -> bool {
        self.sockets.len() >= FEW.max(2 * self.left)
    }

    /// There is room for it.
    fn enter(&mut self, file: &Arc<OpenFile>) {
        if endpoint_of(file).is_some() {
            let new = || (Arc::downgrade(file), 0);
            let socket = self.sockets.get_or_insert(address(file), new);
            socket.expect("room was made").1 += 1;
        }
    }

    fn leave(&mut self, file: &Arc<OpenFile>) {
        if let Some((_, count)) = self.sockets.get_mut(&address(file)) {
            *count -= 1;
            if *count == 0 {
                self.sockets.remove(&address(file));
                // Or what many have left behind would be the measure for few.
                self.left = self.left.min(self.sockets.len());
            }
        }
    }
}

impl Rights {
    /// Files take off. ETOOMANYREFS, ENOMEM.
    pub fn new(files: Vec<Arc<OpenFile>>) -> Result<Rights> {
        if FLIGHT.lock().has_grown() {
            collect();
        }
        let mut flight = FLIGHT.lock();
        let sum = flight.files + files.len();
        let sockets = files.iter().filter(|file| endpoint_of(file).is_some());
        let sockets = sockets.count();
        if sum > MOST || flight.sockets.len() + sockets > MOST_SOCKETS {
            return Err(Errno::ETOOMANYREFS);
        }
        fallible::reserve(&mut flight.sockets, sockets)?;
        let more = sum - flight.landed.len();
        fallible::reserve(&mut flight.landed, more)?;
        flight.files = sum;
        files.iter().for_each(|file| flight.enter(file));
        drop(flight);
        Ok(Rights(files))
    }

    /// The same once more, for MSG_PEEK.
    pub fn again(&self) -> Result<Vec<Arc<OpenFile>>> {
        Ok(fallible::copied(&self.0)?)
    }

    /// The files, which have arrived.
    pub fn land(mut self) -> Vec<Arc<OpenFile>> {
        let files = core::mem::take(&mut self.0);
        let mut flight = FLIGHT.lock();
        flight.files -= files.len();
        files.iter().for_each(|file| flight.leave(file));
        files
    }

    fn sockets(&self) -> impl Iterator<Item = Address> {
        let sockets = self.0.iter().filter(|file| endpoint_of(file).is_some());
        sockets.map(address)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        let mut flight = FLIGHT.lock();
        for file in self.0.drain(..) {
            flight.leave(&file);
            flight.landed.push(file);
        }
        if core::mem::replace(&mut flight.closing, true) {
            return;
        }
        while let Some(file) = flight.landed.pop() {
            drop(flight);
            drop(file);
            sched::breathe();
            flight = FLIGHT.lock();
            flight.files -= 1;
        }
        flight.closing = false;
        drop(flight);
        collect();
    }
}

/// A socket in flight, while circles are looked for.
struct Suspect {
    at: Address,
    file: Weak<OpenFile>,
    /// How often it is in a message of something else than a suspect.
    outside: usize,
    /// Something leads to it.
    alive: bool,
}

/// Calls `f` with each socket in a socket's messages; those of its connections that wait to be
/// accepted included.
fn each_held(holder: &Weak<OpenFile>, f: &mut dyn FnMut(Address)) {
    let file = holder.upgrade();
    if let Some(endpoint) = file.as_ref().and_then(endpoint_of) {
        endpoint.each_inbox(&mut |inbox| {
            let held = inbox.rights().flat_map(Rights::sockets);
            held.for_each(&mut *f);
        });
    }
}

/// Empties sockets that nothing but messages of each other holds. Of sockets that are closed one
/// after the other only the last one looks for them.
pub fn collect() {
    let mut flight = FLIGHT.lock();
    if flight.sockets.is_empty() || flight.collecting || flight.closing {
        return;
    }
    let Ok(circles) = circles(&flight) else {
        // Without memory the next one finds them.
        return;
    };
    flight.collecting = true;
    drop(flight);
    for endpoint in circles.iter().filter_map(endpoint_of) {
        endpoint.empty();
    }
    drop(circles);
    let mut flight = FLIGHT.lock();
    (flight.collecting, flight.left) = (false, flight.sockets.len());
}

/// The sockets that only messages hold and to which no other socket's messages lead.
fn circles(flight: &Flight) -> Result<Vec<Arc<OpenFile>>> {
    let mut suspects = Vec::new();
    fallible::reserve(&mut suspects, flight.sockets.len())?;
    for (at, (file, count)) in flight.sockets.iter() {
        if file.strong_count() == *count {
            suspects.push(Suspect {
                at: *at,
                file: file.clone(),
                outside: *count,
                alive: false,
            });
        }
    }
    let find = |suspects: &[Suspect], at| suspects.binary_search_by_key(&at, |it| it.at).ok();
    for n in 0..suspects.len() {
        let holder = suspects[n].file.clone();
        each_held(&holder, &mut |at| {
            if let Some(held) = find(&suspects, at) {
                suspects[held].outside -= 1;
            }
        });
    }
    let mut reached = Vec::new();
    fallible::reserve(&mut reached, suspects.len())?;
    for (n, suspect) in suspects.iter_mut().enumerate() {
        if suspect.outside > 0 {
            suspect.alive = true;
            reached.push(n);
        }
    }
    while let Some(n) = reached.pop() {
        let holder = suspects[n].file.clone();
        each_held(&holder, &mut |at| {
            if let Some(held) = find(&suspects, at)
                && !suspects[held].alive
            {
                suspects[held].alive = true;
                reached.push(held);
            }
        });
    }
    let dead = suspects.iter().filter(|it| !it.alive);
    Ok(fallible::collect(dead.filter_map(|it| it.file.upgrade()))?)
}
