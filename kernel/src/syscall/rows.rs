//! What is known of a call besides its function, in one row for each: [`rows`].

bitflags::bitflags! {
    /// How a call is made.
    #[derive(Clone, Copy)]
    pub struct How: u8 {
        /// Without the kernel lock, on several CPUs at once: what it uses has locks of its own, or
        /// is the calling thread's. Where it needs more (files, other processes, memory that has to
        /// be made free), it takes the kernel lock for that.
        const PARALLEL = 1 << 0;
        /// Repeated after ENOMEM once memory is free: a repetition finds what the first attempt has
        /// done. mremap(2), which moves mappings one by one, continues by itself where it stopped.
        const NEEDS_MEMORY = 1 << 1;
        /// Ends with EINTR when a handler has run, whatever SA_RESTART says, signal(7).
        const NOT_RESTARTED = 1 << 2;
    }
}

/// A call's names, and how it is made.
pub type Row = (&'static [syscalls::Sysno], How);

/// A family of calls: `function, otherwise; name => handler, HOW | HOW; ...`.
///
/// Makes the function that answers a call of the family and hands others to `otherwise`, and `ROWS`
/// for [`Calls::of`]. Calls of several names share a row.
macro_rules! rows {
    (
        $(#[$doc:meta])* $function:ident, $otherwise:path;
        $($(#[$cfg:meta])* $($name:ident)|+ => $handler:expr $(, $($how:ident)|+)?;)*
    ) => {
        /// How the calls of this family are made.
        pub(in $crate::syscall) const ROWS: &[$crate::syscall::rows::Row] = &[$(
            $(#[$cfg])*
            (&[$(syscalls::Sysno::$name),+], $crate::syscall::rows::How::empty()
                $($(.union($crate::syscall::rows::How::$how))+)?),
        )*];

        $(#[$doc])*
        pub(in $crate::syscall) fn $function(
            sysno: syscalls::Sysno,
            call: $crate::syscall::Call<'_>,
        ) -> $crate::base::errno::Result<u64> {
            match sysno {
                $($(#[$cfg])* $(syscalls::Sysno::$name)|+ => call.run($handler),)*
                _ => $otherwise(sysno, call),
            }
        }
    };
}

pub(super) use rows;

/// How the calls of all families are made, by number.
pub struct Calls([How; 512]);

impl Calls {
    /// Those of these rows.
    pub const fn of(families: &[&[Row]]) -> Calls {
        let mut all = [How::empty(); 512];
        let mut family = 0;
        while family < families.len() {
            let mut row = 0;
            while row < families[family].len() {
                let (mut names, how) = families[family][row];
                while let [sysno, rest @ ..] = names {
                    all[*sysno as usize] = how;
                    names = rest;
                }
                row += 1;
            }
            family += 1;
        }
        Calls(all)
    }

    /// How the call of this number is made; empty for one that is none.
    #[inline]
    pub fn how(&self, number: u64) -> How {
        let how = self.0.get(number as usize);
        how.copied().unwrap_or(How::empty())
    }
}
