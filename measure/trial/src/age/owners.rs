//! Who has which frames: what a policy looks up before it moves them.

use crate::{GIGABYTE, HUGE};

/// Whether frames can be moved, and whether they can be had back otherwise (Linux's migrate types).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mobility {
    /// Reached through page tables or a file.
    Movable,
    /// The kernel's own, reached by address; pinned memory is, too.
    Unmovable,
    /// The kernel's own, and freed when asked: caches of inodes.
    Reclaimable,
}

/// A folio, or another block of 2^order frames.
#[derive(Clone, Copy)]
pub struct Object {
    /// Its first frame.
    pub first: u32,
    /// log2 of its frames.
    pub order: u8,
    /// What may be done with it.
    pub mobility: Mobility,
}

/// All blocks in use, by number and by frame.
pub struct Owners {
    objects: Vec<Object>,
    unused: Vec<u32>,
    /// The number of the object that begins at a frame, and 1; 0: none does.
    by_frame: Vec<u32>,
    /// Frames in use.
    pub used: u64,
    /// Frames that were moved, and those of them whose pageblock is not free by that.
    pub moved: u64,
    pub in_vain: u64,
}

impl Owners {
    /// Nobody has any of so many frames.
    pub fn new(frames: u32) -> Owners {
        Owners {
            objects: Vec::new(),
            unused: Vec::new(),
            by_frame: vec![0; frames as usize],
            used: 0,
            moved: 0,
            in_vain: 0,
        }
    }
    /// The number of a new object.
    pub fn begin(&mut self, object: Object) -> u32 {
        let id = self.unused.pop().unwrap_or(self.objects.len() as u32);
        match self.objects.get_mut(id as usize) {
            Some(place) => *place = object,
            None => self.objects.push(object),
        }
        let before = std::mem::replace(&mut self.by_frame[object.first as usize], id + 1);
        assert!(before == 0, "frame {} was given twice", object.first);
        self.used += 1 << object.order;
        id
    }
    /// What the object was, which is gone.
    pub fn end(&mut self, id: u32) -> Object {
        let object = self.objects[id as usize];
        self.by_frame[object.first as usize] = 0;
        self.unused.push(id);
        self.used -= 1 << object.order;
        object
    }
    /// The object with this number.
    pub fn get(&self, id: u32) -> Object {
        self.objects[id as usize]
    }
    /// The object that begins at a frame.
    pub fn at(&self, first: u32) -> Option<Object> {
        let id = self.by_frame[first as usize].checked_sub(1)?;
        Some(self.objects[id as usize])
    }
    /// It cannot be moved any more.
    pub fn pin(&mut self, id: u32) {
        self.objects[id as usize].mobility = Mobility::Unmovable;
    }
    /// The object at `first` has the frames from `to` on from now on.
    pub fn move_to(&mut self, first: u32, to: u32) {
        let id = std::mem::take(&mut self.by_frame[first as usize]);
        let object = &mut self.objects[id as usize - 1];
        object.first = to;
        self.moved += 1 << object.order;
        let before = std::mem::replace(&mut self.by_frame[to as usize], id);
        assert!(before == 0, "frame {to} was given twice");
    }

    /// How many pageblocks and how many GiB have a frame that cannot be moved, and how many
    /// pageblocks these frames would fill.
    pub fn spoiled(&self) -> [u64; 3] {
        let mut stay = vec![0_u32; self.by_frame.len() >> HUGE];
        for id in self.by_frame.iter().filter_map(|id| id.checked_sub(1)) {
            let object = self.objects[id as usize];
            if object.mobility != Mobility::Movable {
                stay[object.first as usize >> HUGE] += 1 << object.order;
            }
        }
        let gigabytes = stay.chunks(1 << (GIGABYTE - HUGE));
        let sum = stay.iter().map(|frames| u64::from(*frames)).sum::<u64>();
        [
            stay.iter().filter(|frames| **frames != 0).count() as u64,
            gigabytes
                .filter(|blocks| blocks.iter().any(|frames| *frames != 0))
                .count() as u64,
            sum.div_ceil(1 << HUGE),
        ]
    }
}
