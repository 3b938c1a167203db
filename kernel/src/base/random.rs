//! Random bytes for getrandom(2), /dev/urandom, AT_RANDOM and ASLR: ChaCha20 seeded from the CPU's
//! generator, or from the clock where there is none.

use crate::arch;
use crate::base::ranks;
use mm::sync::Lock;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

static GENERATOR: Lock<Option<ChaCha20Rng>, { ranks::RANDOM }> = Lock::new(None);

/// Bytes that are made at once for programs: each takes some 10 instructions.
pub const PIECE: usize = 2048;

/// Fills `bytes`.
pub fn fill(bytes: &mut [u8]) {
    GENERATOR
        .lock()
        .get_or_insert_with(seeded)
        .fill_bytes(bytes);
}

/// 64 random bits.
pub fn u64() -> u64 {
    GENERATOR.lock().get_or_insert_with(seeded).next_u64()
}

fn seeded() -> ChaCha20Rng {
    let mut seed = [0; 32];
    for (i, word) in seed.chunks_exact_mut(8).enumerate() {
        let bits =
            arch::cpu::random().unwrap_or_else(|| arch::timer::now().rotate_left(16 * i as u32));
        word.copy_from_slice(&bits.to_le_bytes());
    }
    ChaCha20Rng::from_seed(seed)
}
