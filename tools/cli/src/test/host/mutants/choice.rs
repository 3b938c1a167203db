
/// Which of the breaks that were drawn is on.
#[allow(missing_docs, dead_code, unused)]
pub(crate) mod drawn {
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    /// A mark, and behind it the number; none has the last one.
    static CHOSEN: [AtomicU32; 4] = [
        AtomicU32::new(0x5175_6972),
        AtomicU32::new(0x6d75_7461),
        AtomicU32::new(0x6e74_2064),
        AtomicU32::new(u32::MAX),
    ];

    #[cfg(target_os = "none")]
    pub fn on(number: u32) -> bool {
        // Nothing in the program writes it: the compiler must not know.
        core::hint::black_box(&CHOSEN)[3].load(Ordering::Relaxed) == number
    }

    #[cfg(not(target_os = "none"))]
    extern crate std;

    #[cfg(not(target_os = "none"))]
    pub fn on(number: u32) -> bool {
        use std::io::Write;
        static REACHED: AtomicU64 = AtomicU64::new(0);
        static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
        let bit = 1 << number;
        if REACHED.load(Ordering::Relaxed) & bit == 0
            && REACHED.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            let _ = std::io::stderr().write_all(std::format!("\nreached: {number}\n").as_bytes());
        }
        let of_environment = || std::env::var("DRAWN").ok()?.parse().ok();
        *CHOSEN.get_or_init(of_environment) == Some(number)
    }
}
