//! Files that can be written below /proc/sys and /sys: none takes a setting and does nothing.
use crate::hugetlb::HUGE;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use userland::check_err;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, skip};
use userland::sh::expand::glob;
use userland::sys::mem::{RW, mmap, munmap};
use userland::sys::proc;
use userland::{check, check_eq};

userland::tests![
    settings_have_an_effect,
    settings_of_threads,
    settings_of_mounts,
    settings_of_surplus_pages,
];

/// What shows the effect of a setting.
enum Shown {
    /// A test of this program.
    By(&'static str),
    /// Another program, which the row names.
    Elsewhere,
    /// It is written for what happens then: any word will do.
    Anything,
    /// Nothing, for the reason that the row gives.
    NotAtAll,
}
use Shown::{Anything, By, Elsewhere, NotAtAll};

/// The end of a path, and what shows its effect. The first that fits counts.
const SETTINGS: &[(&str, Shown)] = &[
    ("fs/mount-max", By("settings_of_mounts")),
    // `abuse crowd`.
    ("kernel/pid_max", Elsewhere),
    ("kernel/threads-max", By("settings_of_threads")),
    ("kernel/shm*", By("shm_limits")),
    // `abuse larger`.
    ("vm/swappiness", Elsewhere),
    // Nothing is cached, so all of it has gone.
    ("vm/drop_caches", NotAtAll),
    ("vm/compact_memory", By("thp_memory_is_compacted")),
    ("vm/enable_soft_offline", By("hwpoison_refuses")),
    ("vm/max_map_count", By("promises_of_areas")),
    ("vm/min_free_kbytes", By("promises_of_free_memory")),
    ("/nr_hugepages*", By("hugetlb_figures")),
    ("/nr_overcommit_hugepages", By("settings_of_surplus_pages")),
    ("vm/overcommit_memory", By("promises_without_a_limit")),
    ("vm/overcommit_*", By("promises_limit_is_set_in_two_ways")),
    // What files are called: `core_file_by_a_pattern`.
    ("kernel/core_pattern", Anything),
    // A name, which uname(2) says.
    ("kernel/hostname", Anything),
    ("zram0/comp_algorithm", By("zram_refuses_settings")),
    ("zram0/*", By("zram_is_set_up_again")),
    ("debug/gup_test", By("gup_pin_sees_writes")),
    ("debug/split_huge_pages", By("folio_split_by_hand")),
    ("quire/check", Anything),
    ("quire/contention", Anything),
    ("quire/heap_reserve", Anything),
    ("quire/longest_stretch", Anything),
    // `selftests --heap-fail`.
    ("quire/heap_fail", Elsewhere),
    // The switches: `bench` counts what each saves.
    ("quire/*", Elsewhere),
    // Linux's own test programs end if they cannot write these: memory is taken as it is.
    ("/defrag", NotAtAll),
    ("khugepaged/max_ptes_swap", NotAtAll),
    ("shrink_underused", NotAtAll),
    ("khugepaged/max_ptes_*", By("vmstat_scan_exceed")),
    ("khugepaged/*", By("folio_khugepaged")),
    ("use_zero_page", By("folio_read_first")),
    ("shmem_enabled", By("folio_shared_*")),
    ("/enabled", By("folio_sizes_follow_settings")),
];

/// Calls `f` with each file below `dir` that its owner may write.
fn each_setting(dir: &Path, f: &mut dyn FnMut(&str) -> Outcome) -> Outcome {
    for entry in fs::read_dir(dir)? {
        let (path, kind) = {
            let entry = entry?;
            (entry.path(), entry.file_type()?)
        };
        if kind.is_dir() {
            each_setting(&path, f)?;
        } else if kind.is_file() && fs::metadata(&path)?.permissions().mode() & 0o200 != 0 {
            f(path.to_str().unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Every setting has a row, whose test there is, and refuses what it does not know.
fn settings_have_an_effect() -> Outcome {
    if !on_quire() {
        return skip("its settings are Linux's own");
    }
    let known = |name: &str| {
        let mut tests = crate::FAMILIES.iter().flat_map(|family| family.iter());
        tests.any(|test| glob(name, test.name))
    };
    let mut check_one = |path: &str| {
        let fits = |(end, _): &&(&str, Shown)| glob(&format!("*{end}"), path);
        let Some((_, shown)) = SETTINGS.iter().find(fits) else {
            return Err(Stop::Fail(format!("nothing shows the effect of {path}")));
        };
        if let By(test) = shown {
            check!(known(test), "{path}: there is no {test}");
        }
        if matches!(shown, Anything) {
            return Ok(());
        }
        let before = fs::read(path).ok();
        check!(fs::write(path, "no such word").is_err(), "{path}");
        check_eq!(fs::read(path).ok(), before);
        Ok(())
    };
    each_setting(Path::new("/proc/sys"), &mut check_one)?;
    each_setting(Path::new("/sys"), &mut check_one)
}

/// A file that is written, and as it was when this is dropped. A host's settings are its owner's,
/// who may say SELFTESTS_SET=1.
pub struct Setting {
    path: String,
    before: String,
}

impl Setting {
    /// Skips the test where the file is not, or may not be written.
    pub fn new(path: &str, value: usize) -> Result<Self, Stop> {
        if !on_quire() && std::env::var_os("SELFTESTS_SET").is_none() {
            return Err(Stop::Skip("a host's settings are its owner's".into()));
        }
        let Ok(before) = fs::read_to_string(path) else {
            return Err(Stop::Skip(format!("no {path}")));
        };
        let path = path.to_owned();
        match fs::write(&path, format!("{value}\n")) {
            Ok(()) => Ok(Setting { path, before }),
            Err(_) => Err(Stop::Skip(format!("{path} cannot be written"))),
        }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Writes a setting for the time of `act`.
fn with<R>(path: &str, value: usize, act: impl FnOnce() -> R) -> Result<R, Stop> {
    let _setting = Setting::new(path, value)?;
    Ok(act())
}

fn settings_of_threads() -> Outcome {
    let refused = with("/proc/sys/kernel/threads-max", 1, proc::fork)?;
    check_err!(refused.map(|_| ()), EAGAIN);
    Ok(())
}

fn settings_of_mounts() -> Outcome {
    let mounts = fs::read_to_string("/proc/mounts")?.lines().count();
    fs::create_dir("mount")?;
    let mount = || proc::mount("none", "mount", "tmpfs", 0);
    check_err!(with("/proc/sys/fs/mount-max", mounts, mount)?, ENOSPC);
    with("/proc/sys/fs/mount-max", mounts + 1, mount)??;
    userland::sys::call(
        libc::SYS_umount2,
        [c"mount".as_ptr() as usize, 0, 0, 0, 0, 0],
    )?;
    Ok(())
}

fn settings_of_surplus_pages() -> Outcome {
    const SIZE: usize = 2 << 20;
    let map = || mmap(0, SIZE, RW, HUGE, -1, 0);
    check_err!(map(), ENOMEM);
    let at = with("/proc/sys/vm/nr_overcommit_hugepages", 1, map)??;
    Ok(munmap(at, SIZE)?)
}
