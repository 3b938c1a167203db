//! What arguments look like: mostly right, often at an edge, sometimes nonsense.
use crate::table::{Kind, PATHS, REQUESTS};
use crate::worker::{ARENA, Worker, run};
use userland::sys::mem::PAGE;

impl Worker {
    /// One argument of this kind, seldom something else.
    pub fn argument(&mut self, kind: Kind) -> usize {
        if self.random.one_in(50) && kind != Kind::Pid {
            return self.wild();
        }
        let r = &mut self.random;
        match kind {
            Kind::Fd => match r.below(10) {
                0 => r.below(1024) as usize,
                1 => usize::MAX,
                _ => r.below(24) as usize,
            },
            Kind::Dir => match r.below(8) {
                0 => r.below(24) as usize,
                _ => libc::AT_FDCWD as usize,
            },
            Kind::Ptr => self.pointer(),
            Kind::Path => match r.below(20) {
                0 => self.pointer(),
                _ => r.pick(PATHS).as_ptr() as usize,
            },
            Kind::Len => match r.below(10) {
                0 => r.pick(&[
                    usize::MAX,
                    1 << 63,
                    (1 << 31) - 1,
                    1 << 31,
                    1 << 32,
                    0x7fff_ffff_ffff_ffff,
                ]),
                1 => 0,
                2..5 => r.below(64) as usize,
                _ => r.below(20_000) as usize,
            },
            Kind::Page => match r.below(20) {
                0 => 0,
                1 => self.arena + r.below((ARENA * PAGE) as u64) as usize,
                _ => self.arena + r.below(ARENA as u64) as usize * PAGE,
            },
            Kind::Pages => match r.below(100) {
                0 => r.pick(&[0, usize::MAX, usize::MAX - PAGE, 1 << 47, 1 << 40, 1]),
                _ => (1 + r.below(16) as usize) * PAGE,
            },
            Kind::Off => match r.below(8) {
                0 => r.pick(&[usize::MAX, 1 << 63, 1 << 62, 1 << 40, 0x7fff_ffff_ffff_f000]),
                1 => r.below(100_000) as usize,
                _ => r.below(16) as usize * PAGE,
            },
            Kind::Flags => match r.below(4) {
                0 => r.bits() as u32 as usize,
                1 => 1 << r.below(32),
                2 => (1 << r.below(32)) | (1 << r.below(32)),
                _ => r.below(8) as usize,
            },
            Kind::Prot => r.below(8) as usize,
            Kind::Map => self.map_flags(),
            Kind::Open => {
                let base = r.below(3) as usize;
                let extra = [
                    libc::O_CREAT,
                    libc::O_EXCL,
                    libc::O_TRUNC,
                    libc::O_APPEND,
                    libc::O_NONBLOCK,
                ];
                let more = [
                    libc::O_DIRECTORY,
                    libc::O_CLOEXEC,
                    libc::O_NOFOLLOW,
                    libc::O_PATH,
                    libc::O_TMPFILE,
                    0,
                    0,
                ];
                base | r.pick(&extra) as usize | r.pick(&more) as usize
            }
            Kind::Pid => self.process(),
            Kind::Sig => r.below(66) as usize,
            Kind::Small => r.below(40) as usize,
            Kind::Advice => match r.below(8) {
                0 => 100 + r.below(5) as usize,
                _ => r.below(28) as usize,
            },
            Kind::Family => match r.below(8) {
                0 => r.below(48) as usize,
                _ => libc::AF_UNIX as usize,
            },
            Kind::Request => match r.below(8) {
                0 | 1 => r.bits() as u32 as usize,
                2 | 3 => r.pick(REQUESTS),
                _ => 0x5400 + r.below(64) as usize,
            },
            Kind::SetSize => match r.below(10) {
                0 => r.below(32) as usize,
                _ => 8,
            },
        }
    }

    fn map_flags(&mut self) -> usize {
        let r = &mut self.random;
        let base = r.pick(&[libc::MAP_PRIVATE, libc::MAP_SHARED, libc::MAP_PRIVATE, 0, 3]);
        let anon = r.pick(&[libc::MAP_ANONYMOUS, libc::MAP_ANONYMOUS, 0]);
        let more = [
            0,
            0,
            libc::MAP_FIXED,
            libc::MAP_FIXED_NOREPLACE,
            libc::MAP_POPULATE,
            libc::MAP_NORESERVE,
        ];
        let fixed = r.pick(&more);
        (base | anon | fixed) as usize
    }

    /// Only this process, nobody, or its own group: never the supervisor.
    fn process(&mut self) -> usize {
        match self.random.below(8) {
            0 => 0,
            1 => 0x3f_fff0,
            2 => i32::MIN as usize,
            _ => self.me as usize,
        }
    }

    fn pointer(&mut self) -> usize {
        let r = &mut self.random;
        let size = (ARENA * PAGE) as u64;
        match r.below(40) {
            0..4 => self.wild(),
            4 => self.constant,
            // Across the edge of a page, and of the arena.
            5..9 => self.arena + (1 + r.below(ARENA as u64)) as usize * PAGE - r.below(16) as usize,
            9..14 => self.arena + r.below(size) as usize,
            _ => self.arena + r.below(size / 4) as usize / 8 * 8,
        }
    }

    /// An unused address or number.
    fn wild(&mut self) -> usize {
        const LIST: [usize; 12] = [
            0,
            1,
            PAGE,
            0x0000_7fff_ffff_f000,
            0x0000_8000_0000_0000,
            0x0000_ffff_ffff_fff8,
            0x4000_0000_0000_0000,
            0xffff_8000_0000_0000,
            0xffff_8000_0010_0000,
            0xffff_c000_0000_0000,
            0xffff_ffff_8020_0000,
            usize::MAX,
        ];
        match self.random.below(4) {
            0 => self.random.bits() as usize,
            // Now and then its own code.
            1 if self.random.one_in(100) => run as *const () as usize,
            _ => self.random.pick(&LIST),
        }
    }
}
