//! /proc/sys.

use crate::base::cmdline;
use crate::base::errno::{Errno, Result};
use crate::base::hostname;
use crate::base::machine::mm;
use crate::base::random;
use crate::fs::caller::MAX_OPEN_FILES;
use crate::fs::kinds::pipe::MAX_CAPACITY;
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::mounts::MAX_MOUNTS;
use crate::pressure::worker;
use crate::process::{core_dump, shm, task};
use crate::syscall;
use crate::syscall::ENABLE_SOFT_OFFLINE;
use crate::syscall::system::{RELEASE, VERSION};
use core::fmt::Display;
use core::ops::{Deref, RangeInclusive};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use mm::addr::PAGE_SIZE;
use mm::hugetlb::DEFAULT;
use mm::{MMAP_MIN_ADDR, Overcommit, Policy};

/// Enters all of them.
pub fn register(tree: &Tree) {
    virtual_memory(tree);
    kernel(tree);
    constant(tree, "sys/fs/pipe-max-size", MAX_CAPACITY);
    constant(tree, "sys/fs/file-max", i64::MAX);
    constant(tree, "sys/fs/nr_open", MAX_OPEN_FILES);
    constant(tree, "sys/fs/file-nr", "0\t0\t9223372036854775807");
    let most = i64::from(i32::MAX);
    setting(tree, "sys/fs/mount-max", &MAX_MOUNTS, 1..=most);
    tree.dir("sys/net");
    tree.show("sys/quire/unknown_syscalls", |out| {
        for (number, name, count) in syscall::unknown() {
            out.line(format_args!("{number} {name} {count}"));
        }
        Ok(())
    });
}

fn virtual_memory(tree: &Tree) {
    overcommit(tree);
    // What they would tune there is not.
    constant(tree, "sys/vm/panic_on_oom", 0);
    setting(tree, "sys/vm/swappiness", &worker::SWAPPINESS, 0..=200);
    constant(tree, "sys/vm/vfs_cache_pressure", 100);
    constant(tree, "sys/vm/dirty_ratio", 0);
    constant(tree, "sys/vm/mmap_min_addr", MMAP_MIN_ADDR);
    hugetlb(tree);
    setting(
        tree,
        "sys/vm/enable_soft_offline",
        &ENABLE_SOFT_OFFLINE,
        0..=1,
    );
    tree.knob(
        "sys/vm/min_free_kbytes",
        |out| {
            out.is(kbytes(mm().allocator().min_free()) + LESS_THAN_A_FRAME.load(Ordering::Relaxed))
        },
        |text| {
            // With more there would be little left for programs.
            let most = kbytes(mm().allocator().counts().total) / 2;
            let number = parse(text, &(0..=most as i64))?;
            mm().allocator().set_min_free(number as u64 / kbytes(1));
            LESS_THAN_A_FRAME.store(number as u64 % kbytes(1), Ordering::Relaxed);
            Ok(())
        },
    );
    constant(tree, "sys/vm/unprivileged_userfaultfd", 0);
    // What is locked moves, too, and is mapped again at once.
    constant(tree, "sys/vm/compact_unevictable_allowed", 1);
    tree.store("sys/vm/compact_memory", |text| {
        parse(text, &(1..=1))?;
        worker::compact_all();
        Ok(())
    });
    tree.knob(
        "sys/vm/drop_caches",
        |out| out.is(0),
        |text| {
            // Nothing is cached that could be dropped; what is dropped already is free afterwards.
            parse(text, &(1..=4))?;
            worker::settle();
            Ok(())
        },
    );
}

/// The rest of min_free_kbytes: it reads as it was written, and whole frames are kept free.
static LESS_THAN_A_FRAME: AtomicU64 = AtomicU64::new(0);

/// The size of so many frames, in kB.
const fn kbytes(frames: u64) -> u64 {
    frames * (PAGE_SIZE / 1024)
}

/// How much may be promised, and in how many areas.
fn overcommit(tree: &Tree) {
    let settings = || mm().overcommit();
    tree.knob(
        "sys/vm/overcommit_memory",
        move |out| out.is(settings().policy() as u64),
        move |text| {
            settings().set_policy(match parse(text, &(0..=2))? {
                0 => Policy::Heuristic,
                1 => Policy::Always,
                _ => Policy::Never,
            });
            Ok(())
        },
    );
    measure(
        tree,
        "overcommit_ratio",
        Overcommit::ratio,
        Overcommit::set_ratio,
    );
    measure(
        tree,
        "overcommit_kbytes",
        Overcommit::kbytes,
        Overcommit::set_kbytes,
    );
    measure(
        tree,
        "max_map_count",
        |settings| settings.areas() as u64,
        |settings, most| settings.set_areas(most as usize),
    );
}

/// A number among them.
fn measure(tree: &Tree, name: &str, get: fn(&Overcommit) -> u64, set: fn(&Overcommit, u64)) {
    tree.knob(
        &alloc::format!("sys/vm/{name}"),
        move |out| out.is(get(mm().overcommit())),
        move |text| {
            let number = parse(text, &(0..=i64::from(i32::MAX)))?;
            set(mm().overcommit(), number as u64);
            Ok(())
        },
    );
}

/// The pool of the default size.
fn hugetlb(tree: &Tree) {
    let figures = || mm().hugetlb(DEFAULT);
    let pages = |text: &str| text.parse::<u64>().map_err(|_| Errno::EINVAL);
    for name in ["sys/vm/nr_hugepages", "sys/vm/nr_hugepages_mempolicy"] {
        tree.knob(
            name,
            move |out| out.is(figures().persistent()),
            move |text| {
                mm().resize_hugetlb(DEFAULT, pages(text)?);
                Ok(())
            },
        );
    }
    tree.knob(
        "sys/vm/nr_overcommit_hugepages",
        move |out| out.is(figures().overcommit),
        move |text| {
            mm().set_hugetlb_overcommit(DEFAULT, pages(text)?);
            Ok(())
        },
    );
}

fn kernel(tree: &Tree) {
    constant(tree, "sys/kernel/ostype", "Linux");
    // Nothing goes on after a fault of the kernel.
    constant(tree, "sys/kernel/tainted", 0);
    constant(tree, "sys/kernel/osrelease", RELEASE);
    constant(tree, "sys/kernel/version", VERSION);
    constant(tree, "sys/kernel/domainname", "(none)");
    setting(
        tree,
        "sys/kernel/pid_max",
        &task::PID_MAX,
        task::PID_MAX_RANGE,
    );
    // A thread's kernel stack is eight pages.
    let most = mm().total_frames() as i64 / 8;
    task::THREADS_MAX.store(most, Ordering::Relaxed);
    setting(
        tree,
        "sys/kernel/threads-max",
        &task::THREADS_MAX,
        task::THREADS_MAX_RANGE,
    );
    shared_memory(tree);
    constant(tree, "sys/kernel/cap_last_cap", 40);
    constant(tree, "sys/kernel/ngroups_max", 65536);
    constant(tree, "sys/kernel/overflowuid", 65534);
    constant(tree, "sys/kernel/overflowgid", 65534);
    tree.knob(
        "sys/kernel/core_pattern",
        core_dump::show_pattern,
        core_dump::set_pattern,
    );
    constant(tree, "sys/kernel/printk", "7\t4\t1\t7");
    constant(tree, "sys/kernel/panic", 0);
    constant(tree, "sys/kernel/random/poolsize", 256);
    constant(tree, "sys/kernel/random/entropy_avail", 256);
    constant(
        tree,
        "sys/kernel/randomize_va_space",
        if cmdline::get().norandmaps { 0 } else { 2 },
    );
    let boot_id = uuid();
    constant(tree, "sys/kernel/random/boot_id", boot_id);
    tree.show("sys/kernel/random/uuid", |out| out.is(uuid()));
    tree.knob(
        "sys/kernel/hostname",
        |out| out.is(alloc::string::String::from_utf8_lossy(&hostname::get())),
        |text| hostname::set(text.as_bytes()),
    );
}

/// Limits of shared memory of System V, sysvipc(7).
fn shared_memory(tree: &Tree) {
    limit(tree, "shmmax", u64::MAX, |limits| &mut limits.max_size);
    limit(tree, "shmall", u64::MAX, |limits| &mut limits.all_pages);
    limit(tree, "shmmni", shm::MAX_SEGMENTS, |limits| {
        &mut limits.segments
    });
}

/// One of them, up to `most`.
fn limit(tree: &Tree, name: &str, most: u64, of: fn(&mut shm::Limits) -> &mut u64) {
    tree.knob(
        &alloc::format!("sys/kernel/{name}"),
        move |out| out.is(*of(&mut shm::limits())),
        move |text| {
            let number = text.parse().ok().filter(|number| *number <= most);
            let number = number.ok_or(Errno::EINVAL)?;
            shm::set_limits(|limits| *of(limits) = number);
            Ok(())
        },
    );
}

/// A file that always says the same.
fn constant(tree: &Tree, path: &str, value: impl Display + Send + Sync + 'static) {
    tree.show(path, move |out: &mut Text| out.is(&value));
}

/// A number that is read and written.
fn setting<N>(tree: &Tree, path: &str, value: N, range: RangeInclusive<i64>)
where
    N: Deref<Target = AtomicI64> + Clone + Send + Sync + 'static,
{
    let shown = value.clone();
    tree.knob(
        path,
        // Relaxed: the number stands for itself.
        move |out| out.is(shown.load(Ordering::Relaxed)),
        move |text| {
            value.store(parse(text, &range)?, Ordering::Relaxed);
            Ok(())
        },
    );
}

fn parse(text: &str, range: &RangeInclusive<i64>) -> Result<i64> {
    text.parse()
        .ok()
        .filter(|value| range.contains(value))
        .ok_or(Errno::EINVAL)
}

/// A random UUID (RFC 4122, version 4).
fn uuid() -> alloc::string::String {
    let (high, low) = (random::u64(), random::u64());
    let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 2 << 62);
    alloc::format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
