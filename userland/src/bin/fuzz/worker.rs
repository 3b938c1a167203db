//! One batch of calls in a process that may die of them.
use crate::short::Filling;
use crate::table::{CALLS, Call, FORBIDDEN, FORBIDDEN_REQUESTS, Kind, OLD_CALLS};
use userland::random::Random;
use userland::sys::mem::{ANON, PAGE, RW, mmap, store};
use userland::sys::{call_bare, file, proc, sig, time};

/// Pages of the arena: where valid pointers point.
pub const ARENA: usize = 256;

/// A worker's state.
pub struct Worker {
    pub random: Random,
    pub arena: usize,
    /// A page that may only be read.
    pub constant: usize,
    pub me: i32,
    trace: bool,
    /// Forks in forks are limited.
    depth: u32,
    /// The program runs on a user's Linux.
    guest: bool,
}

/// What a worker has to do.
pub struct Order<'a> {
    /// Of its random numbers.
    pub seed: u64,
    /// How many calls.
    pub calls: u64,
    /// A shared word that counts them.
    pub done: usize,
    /// The program runs on a user's Linux.
    pub guest: bool,
    /// /dev/null, opened before a call could remove it.
    pub null: i32,
    /// Print each call.
    pub trace: bool,
    /// From which heap allocation on its calls find no memory; 0 for none.
    pub heap_fail: u32,
    /// What memory is full of.
    pub filling: Option<&'a Filling>,
}

/// Where a trace goes: standard error, out of the way of random calls on small numbers.
const VOICE: i32 = 1000;

/// Makes its calls and ends.
pub fn run(order: &Order<'_>) -> ! {
    let &Order {
        seed,
        calls,
        done,
        guest,
        null,
        trace,
        heap_fail,
        filling,
    } = order;
    if let Some(Err(error)) = filling.map(Filling::leave) {
        crate::say(&format!("a worker cannot be ended for memory: {error}"));
        std::process::exit(1);
    }
    let mut random = Random::new(seed);
    if trace {
        let _ = file::dup2(2, VOICE);
    }
    for (which, limit) in [
        (libc::RLIMIT_FSIZE, 1u64 << 20),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_AS, 256 << 20),
    ] {
        let _ = proc::setrlimit(which, limit, limit);
    }
    // With room around it, so that calls on pages behind its end affect nothing else.
    let room = mmap(0, (ARENA + 128) * PAGE, libc::PROT_NONE, ANON, -1, 0).unwrap_or(0);
    let arena = mmap(
        room + 64 * PAGE,
        ARENA * PAGE,
        RW,
        ANON | libc::MAP_FIXED,
        -1,
        0,
    )
    .unwrap_or(0);
    let constant = mmap(0, PAGE, libc::PROT_READ, ANON, -1, 0).unwrap_or(0);
    if arena == 0 {
        proc::exit_now(3);
    }
    for word in 0..ARENA * PAGE / 8 / 4 {
        // Small numbers make times, counts and descriptors; others make nonsense; some point back
        // into the arena.
        let value = match random.below(10) {
            0..4 => random.below(16),
            4 => arena as u64 + random.below((ARENA * PAGE) as u64),
            5 => arena as u64 + random.below(ARENA as u64) * PAGE as u64,
            6 => random.below(16) * PAGE as u64,
            7 => random.below(1 << 32),
            _ => random.bits(),
        };
        store(arena + word * 8, value);
    }
    open_some(&mut random, null);
    let mut worker = Worker {
        random,
        arena,
        constant,
        me: proc::getpid(),
        depth: 0,
        trace,
        guest,
    };
    if heap_fail > 0 {
        userland::heap_fail::begin(heap_fail);
    }
    for n in 0..calls {
        if n % 64 == 0 {
            wake_up_calls();
        }
        worker.one();
        store(done, n + 1);
    }
    proc::exit_now(0)
}

/// Descriptors of every sort: 0 to 2 lead nowhere, so that nonsense does not reach the console; the
/// terminal can only be read, and does not block.
fn open_some(random: &mut Random, null: i32) {
    for n in 0..3 {
        let _ = file::dup2(null, n);
    }
    let _ = file::close(null);
    let _ = file::open(
        "/dev/console",
        libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY,
        0,
    );
    let _ = file::pipe(libc::O_NONBLOCK);
    let _ = file::pipe(0);
    let _ = file::open("/dev/zero", libc::O_RDWR, 0);
    let _ = file::open("/sys/kernel/debug/gup_test", libc::O_RDWR, 0);
    let _ = file::open(".", libc::O_RDONLY, 0);
    let name = ["a", "b", "c"][random.below(3) as usize];
    if let Ok(fd) = file::open(name, libc::O_RDWR | libc::O_CREAT, 0o700) {
        let _ = file::write(fd, &[0x5a; 10_000]);
    }
}

/// Calls that may have switched off the signals that end calls that wait.
const TIMERS: [i64; 5] = [
    libc::SYS_setitimer,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    ALARM,
    libc::SYS_sigaltstack,
];

#[cfg(target_arch = "x86_64")]
const ALARM: i64 = libc::SYS_alarm;
#[cfg(target_arch = "x86_64")]
const PAUSE: Option<i64> = Some(libc::SYS_pause);
#[cfg(target_arch = "aarch64")]
const ALARM: i64 = libc::SYS_setitimer;
#[cfg(target_arch = "aarch64")]
const PAUSE: Option<i64> = None;

/// A signal every millisecond ends calls that wait; set again and again, since calls change that
/// too.
fn wake_up_calls() {
    let _ = sig::count(libc::SIGALRM, 0, &[]);
    let _ = sig::mask(libc::SIG_UNBLOCK, &[libc::SIGALRM]);
    let _ = time::itimer(1_000, 1_000);
}

impl Worker {
    fn one(&mut self) {
        let (nr, kinds) = match self.random.below(20) {
            0 => (self.any_number(), &[Kind::Ptr; 6][..]),
            1..4 if !OLD_CALLS.is_empty() => self.random.pick::<Call>(OLD_CALLS),
            _ => self.random.pick::<Call>(CALLS),
        };
        let mut a = [0usize; 6];
        for (n, slot) in a.iter_mut().enumerate() {
            *slot = match kinds.get(n) {
                Some(&kind) => self.argument(kind),
                None => self.random.bits() as usize,
            };
        }
        if !self.allowed(nr, &a) {
            return;
        }
        if self.trace {
            let _ = file::write(
                VOICE,
                format!("fuzz: {} call {nr} {a:x?}\n", self.me).as_bytes(),
            );
        }
        match nr {
            libc::SYS_clone => self.fork(a),
            n if is_fork(n) => self.fork([libc::SIGCHLD as usize, 0, 0, 0, 0, 0]),
            _ => drop(std::hint::black_box(call_bare(nr as usize, a))),
        }
        if TIMERS.contains(&nr) {
            wake_up_calls();
        }
    }

    fn any_number(&mut self) -> i64 {
        let nr = match self.random.below(4) {
            0 => self.random.bits() as i64,
            _ => self.random.below(480) as i64,
        };
        // The kernel takes the low half; anything with arguments of its own is left to the tables.
        let low = (nr as u32) as i64;
        let known = CALLS.iter().chain(OLD_CALLS).any(|c| c.0 == low);
        if known || is_vfork(low) { -1 } else { nr }
    }

    /// Whether the call leaves the supervisor, and mostly this process, alive.
    fn allowed(&mut self, nr: i64, a: &[usize; 6]) -> bool {
        let low = (nr as u32) as i64;
        if FORBIDDEN.contains(&low) {
            return false;
        }
        match low {
            libc::SYS_exit | libc::SYS_exit_group | libc::SYS_rt_sigreturn => {
                self.random.one_in(200)
            }
            // Half of all signals end the process.
            libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill => self.random.one_in(50),
            // With a random mask they may wait for ever: the supervisor has to see to it, which
            // takes time.
            libc::SYS_ppoll
            | libc::SYS_pselect6
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait => self.random.one_in(20),
            // They only take time.
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_futex => {
                self.random.one_in(4)
            }
            _ if Some(low) == PAUSE => self.random.one_in(4),
            libc::SYS_execve | libc::SYS_execveat => self.random.one_in(20),
            // What follows is done with fewer rights, or elsewhere.
            libc::SYS_setuid
            | libc::SYS_setreuid
            | libc::SYS_setresuid
            | libc::SYS_setfsuid
            | libc::SYS_capset
            | libc::SYS_chroot
            | libc::SYS_setrlimit
            | libc::SYS_close_range => self.random.one_in(50),
            // Those above 5 say what the kernel prints on the console.
            libc::SYS_syslog => a[0] as u32 <= 5,
            libc::SYS_mount | libc::SYS_umount2 => !self.guest && self.random.one_in(50),
            libc::SYS_ioctl => !FORBIDDEN_REQUESTS.contains(&(a[1] as u32 as u64)),
            // Handing memory to the kernel for good, or filters that forbid exit.
            libc::SYS_prctl => ![libc::PR_SET_SECCOMP, libc::PR_SET_MM].contains(&(a[0] as i32)),
            _ => true,
        }
    }

    /// A process; a child that shares this one's memory ends at once, one with a copy goes on a
    /// little.
    fn fork(&mut self, mut a: [usize; 6]) {
        if self.depth >= 2 || !self.random.one_in(8) {
            return;
        }
        if self.random.one_in(2) {
            a[0] = libc::SIGCHLD as usize;
        } else if !self.random.one_in(4) {
            // The signal at its end would mostly end this process too.
            a[0] = a[0] & !0xff | libc::SIGCHLD as usize;
        }
        if proc::clone_raw(a) == 0 {
            self.depth += 1;
            self.me = call_bare(libc::SYS_getpid as usize, [0; 6]) as i32;
            self.random = Random::new(self.random.bits() ^ self.me as u64);
            for _ in 0..self.random.below(50) {
                self.one();
            }
            call_bare(libc::SYS_exit_group as usize, [0; 6]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_fork(nr: i64) -> bool {
    nr == libc::SYS_fork
}

#[cfg(target_arch = "x86_64")]
fn is_vfork(nr: i64) -> bool {
    nr == libc::SYS_vfork
}

#[cfg(target_arch = "aarch64")]
fn is_fork(_: i64) -> bool {
    false
}

#[cfg(target_arch = "aarch64")]
fn is_vfork(_: i64) -> bool {
    false
}
