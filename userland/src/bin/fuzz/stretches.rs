//! How long the kernel kept the machine for one call, asserted after each batch where the clock
//! counts instructions.
use crate::say;
use userland::stretch::Record;

/// The kernel's record, and what was wrong with it.
pub struct Stretches {
    record: Option<Record>,
    faults: u64,
}

impl Stretches {
    /// Opens the record, before a worker can unmount it.
    pub fn open() -> Self {
        Stretches {
            record: Record::open(),
            faults: 0,
        }
    }

    /// Before a batch.
    pub fn begin(&mut self, batch: u64) {
        let begun = self.record.as_ref().map_or(Ok(()), Record::begin);
        self.judge(batch, begun);
    }

    /// After a batch: prints the call that took too long in it.
    pub fn end(&mut self, batch: u64) {
        let longest = self.record.as_mut().map(Record::end).transpose();
        let judged = longest.and_then(|longest| longest.map_or(Ok(()), |longest| longest.judge()));
        self.judge(batch, judged);
    }

    fn judge(&mut self, batch: u64, result: Result<(), String>) {
        if let Err(why) = result {
            self.faults += 1;
            say(&format!("batch {batch}: {why}"));
        }
    }

    /// Prints the longest of all batches; `false` if one was too long.
    pub fn sound(self) -> bool {
        if let Some(record) = &self.record {
            say(&record.summary());
        }
        self.faults == 0
    }
}
