//! Instructions of aarch64 as flushes. The words are what an assembler makes of the text beside them.

use models::{Flush, Tables, Tlbi};

fn flush(word: u32, value: u64) -> Flush {
    Tlbi::decode(word).expect("a TLBI").flush(value)
}

fn pages(address: u64, bytes: u64, tag: Option<u16>, tables: Tables) -> Flush {
    Flush::Pages {
        address,
        bytes,
        tag,
        globals: true,
        tables,
    }
}

#[test]
fn all_and_tags() {
    assert_eq!(flush(0xd508_831f, 0), Flush::All); // tlbi vmalle1is
    assert_eq!(flush(0xd508_871f, 0), Flush::All); // tlbi vmalle1
    assert_eq!(flush(0xd508_8340, 0x1234 << 48), Flush::Tag(0x1234)); // tlbi aside1is, x0
}

#[test]
fn addresses() {
    let value = 7 << 48 | 0x1_2345;
    let kept = Tables::Keep;
    let dropped = Tables::OfPages;
    let page = 0x1234_5000;
    assert_eq!(
        flush(0xd508_8320, value),
        pages(page, 4096, Some(7), dropped)
    ); // vae1is
    assert_eq!(flush(0xd508_8360, value), pages(page, 4096, None, dropped)); // vaae1is
    assert_eq!(flush(0xd508_83a0, value), pages(page, 4096, Some(7), kept)); // vale1is
    assert_eq!(flush(0xd508_83e0, value), pages(page, 4096, None, kept)); // vaale1is
    // An address of the upper half, and a hint about the level (TTL), which is no part of it.
    let value = 0x0fff_8000_0123 | 0b0111 << 44;
    let upper = pages(0xffff_f800_0012_3000, 4096, Some(0), dropped);
    assert_eq!(flush(0xd508_8720, value), upper); // vae1
}

#[test]
fn ranges() {
    // SCALE 1, NUM 2: 3 x 2^6 pages.
    let value = 9 << 48 | 1 << 44 | 2 << 39 | 0x1_0000;
    let range = pages(0x1000_0000, 192 << 12, Some(9), Tables::OfPages);
    assert_eq!(flush(0xd508_8220, value), range); // rvae1is
    let value = 9 << 48 | 0x1f_ffff_ffff;
    let range = pages(0xffff_ffff_ffff_f000, 2 << 12, None, Tables::Keep);
    assert_eq!(flush(0xd508_82e0, value), range); // rvaale1is
}

#[test]
fn registers_and_broadcast() {
    for (word, broadcast, register) in [
        (0xd508_8327, true, 7),   // vae1is, x7
        (0xd508_872b, false, 11), // vae1, x11
        (0xd508_8120, true, 0),   // vae1os, x0
        (0xd508_8522, true, 2),   // rvae1os, x2
        (0xd508_8622, false, 2),  // rvae1, x2
        (0xd508_9320, true, 0),   // vae1isnxs, x0
    ] {
        let tlbi = Tlbi::decode(word).expect("a TLBI");
        assert_eq!(
            (tlbi.broadcast, tlbi.register),
            (broadcast, register),
            "{word:#x}"
        );
    }
}

#[test]
fn other_instructions() {
    for word in [
        0xd508_7620, // dc ivac, x0
        0xd50c_8320, // tlbi vae2is, x0
        0xd508_8300 | 4 << 5,
        0xd508_8400,
        0xd503_3b9f, // dsb ish
        0xd518_2000, // msr ttbr0_el1, x0
        0xd528_8320, // sysl
    ] {
        assert_eq!(Tlbi::decode(word), None, "{word:#x}");
    }
}
