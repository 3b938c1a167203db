//! The answers of processes to the file layer (`fs::caller`).

use crate::base::Pid;
use crate::base::above::Above;
use crate::base::errno::Result;
use crate::fs::caller::{Caller, Creator, Ids};
use crate::process::signal::{self, SigInfo};
use crate::process::task::{Resource, current, is_orphaned, session_of, with_current};
use crate::process::userfault;
use crate::sched;

impl Caller for Above {
    #[inline]
    fn open_files_limit() -> u64 {
        current().process().limits().soft(Resource::OpenFiles)
    }

    #[inline]
    fn file_size_limit() -> Option<u64> {
        let task = sched::current()?;
        Some(task.process().limits().soft(Resource::FileSize))
    }

    #[inline]
    fn signal(signo: i32) {
        with_current(|task| signal::send_task(task, SigInfo::kernel(signo)));
    }

    #[inline]
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

    #[inline]
    fn creator() -> Creator {
        let task = current();
        let process = task.process();
        process.credentials(|it| Creator {
            pid: process.pid(),
            uid: it.euid(),
            gid: it.egid(),
        })
    }

    #[inline]
    fn is_unstoppable(signo: i32) -> bool {
        with_current(|task| {
            let process = task.process();
            process.handlers().get(signo).ignores(signo)
                || task.blocked() & signal::bit(signo) != 0
                || is_orphaned(process.pgid())
        })
    }

    #[inline]
    fn signal_group(pgid: Pid, signo: i32) {
        signal::send_group(pgid, signo);
    }

    #[inline]
    fn session_of(pgid: Pid) -> Option<Pid> {
        session_of(pgid)
    }

    #[inline]
    fn userfaultfd(flags: u64) -> Result<u64> {
        userfault::open(&current(), flags)
    }
}
