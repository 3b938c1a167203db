//! /proc/PID/maps.

use super::areas::Areas;
use super::observed::Observed;
use super::query;
use super::subject::Subject;
use crate::base::errno::Result;
use crate::fs::kinds::records::{RecordFile, Records};
use crate::fs::open::ops::FileOps;
use alloc::sync::Arc;
use parts::text::Text;

/// Areas that are copied at once: some 2 kB of text.
const AREAS: usize = 32;

struct Maps(Observed);

/// Opens /proc/PID/maps.
pub fn open_maps(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(Maps(Observed::new(subject)))
}

impl Records for Maps {
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
        self.0.check_process()?;
        let Some(space) = self.0.space() else {
            return Ok(None);
        };
        let areas = Areas::from(&space, from, AREAS)?;
        drop(space);
        for vma in &areas.vmas {
            areas.line(vma, out)?;
        }
        Ok(areas.end())
    }
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        query::ioctl(&self.0, command, argument)
    }
}
