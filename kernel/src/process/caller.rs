//! What the file layer asks of processes.

use crate::base::Pid;
use crate::base::above::Above;
use crate::base::machine::AddressSpace;
use crate::fs::caller::{Caller, Ids};
use crate::process::signal::{self, SigInfo};
use crate::process::task::{
    Resource, current, for_each_space, is_orphaned, session_of, with_current,
};
use crate::sched;

impl Caller for Above {
    fn open_files_limit() -> u64 {
        current().process().limits().soft(Resource::OpenFiles)
    }

    fn file_size_limit() -> Option<u64> {
        let task = sched::current()?;
        Some(task.process().limits().soft(Resource::FileSize))
    }

    fn signal(signo: i32) {
        with_current(|task| signal::send_task(task, SigInfo::kernel(signo)));
    }

    fn ids() -> Ids {
        with_current(|task| {
            let process = task.process();
            Ids {
                pid: process.pid(),
                pgid: process.pgid(),
                sid: process.sid(),
            }
        })
    }

    fn is_unstoppable(signo: i32) -> bool {
        with_current(|task| {
            let process = task.process();
            process.handlers().get(signo).ignores(signo)
                || task.blocked() & signal::bit(signo) != 0
                || is_orphaned(process.pgid())
        })
    }

    fn signal_group(pgid: Pid, signo: i32) {
        signal::send_group(pgid, signo);
    }

    fn session_of(pgid: Pid) -> Option<Pid> {
        session_of(pgid)
    }

    fn for_each_space(f: impl FnMut(&AddressSpace)) {
        for_each_space(f);
    }
}
