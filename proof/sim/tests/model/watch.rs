//! Asynchronous write protection by userfaultfd: what the model expects, and what really is.

use super::*;
use mm::Registration;

const WATCHER: Registration = Registration {
    monitor: 1,
    flags: VmaFlags::UFFD_WP
        .union(VmaFlags::UFFD_WP_ASYNC)
        .union(VmaFlags::UFFD_WP_UNPOPULATED),
};

impl<F: PteFormat> Bench<F> {
    /// Write-protects what is mapped of some pages, present or not; or ends that.
    pub(super) fn watch(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        on: bool,
    ) {
        let range = VirtRange::new(self.start(at), self.start(at + len));
        let any = model.pages.range(at..at + len).next().is_some();
        let refused = !any;
        let expected = if refused { Err(Error::Inval) } else { Ok(()) };
        let result = match on {
            true => process.userfault_register(range, WATCHER),
            false => process.userfault_unregister(range, WATCHER.monitor),
        };
        assert_eq!(result, expected);
        if refused {
            return;
        }
        if on {
            process.userfault_protect_async(range).unwrap();
        }
        for (_, page) in model.pages.range_mut(at..at + len) {
            page.protected = Some(on && !page.guard);
        }
    }

    /// Pages are write-protected as the model says.
    pub(super) fn check_protection(&self) {
        for (process, model) in self.processes.iter().flatten() {
            for (n, page) in &model.pages {
                let is = process.page_info(self.spot(*n)).write_protected;
                let as_expected = page.protected.is_none_or(|expected| expected == is);
                assert!(as_expected, "page {n}: {:?}, is {is}", page.protected);
            }
        }
    }
}
