//! The limit of waiting for a transmitter: a port may have no clock, or not exist.

use core::sync::atomic::{AtomicU32, Ordering};

/// Looks before a transmitter that never takes a byte is given up: many times what a byte takes at
/// 115200 baud.
const MOST: u32 = 1 << 20;

/// Looks that are left for the next byte: a port that was waited for in vain is looked at once for
/// each byte from then on, until it takes one. Else each byte would take a tenth of a second, and a
/// boot that a screen shows minutes.
pub struct Patience(AtomicU32);

impl Patience {
    /// A port that has not been waited for yet.
    pub const fn new() -> Self {
        Patience(AtomicU32::new(MOST))
    }

    /// Looks until there is room for a byte, or for as long as it makes sense.
    pub fn wait(&self, mut has_room: impl FnMut() -> bool) {
        let looks = 0..self.0.load(Ordering::Relaxed);
        let found = looks.into_iter().any(|_| {
            core::hint::spin_loop();
            has_room()
        });
        self.0
            .store(if found { MOST } else { 1 }, Ordering::Relaxed);
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_port_costs_its_time_once() {
        let patience = Patience::new();
        let looks = |until: u32| {
            let mut looks = 0;
            patience.wait(|| {
                looks += 1;
                looks == until
            });
            looks
        };
        assert_eq!(looks(5), 5);
        assert_eq!(looks(u32::MAX), MOST);
        assert_eq!(looks(u32::MAX), 1);
        assert_eq!(looks(1), 1);
        assert_eq!(looks(7), 7, "it is alive again");
    }
}
