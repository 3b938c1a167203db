//! Archives as cpio(1), gzip(1) and zstd(1) make them, whole and damaged.

use parts::archive::unpack;
use parts::cpio::{Member, Unpack};
use std::fmt::Write;

/// Lists what it gets.
#[derive(Default)]
struct List {
    text: String,
    room: Option<usize>,
}

impl Unpack for List {
    fn member(&mut self, member: &Member) -> Result<(), String> {
        let name = String::from_utf8_lossy(&member.name);
        write!(self.text, "{name} {:o}: ", member.mode).map_err(|e| e.to_string())
    }
    fn data(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.room.is_some_and(|room| bytes.len() > room) {
            return Err("no memory".into());
        }
        self.text.push_str(&String::from_utf8_lossy(bytes));
        Ok(())
    }
    fn end(&mut self) -> Result<(), String> {
        self.text.push('\n');
        Ok(())
    }
}

fn member(name: &str, mode: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "070701{:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}",
        1,
        0,
        0,
        1,
        0,
        data.len(),
        0,
        0,
        0,
        0,
        name.len() + 1,
        0
    )
    .into_bytes();
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn archive(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = member("/dir", 0o40755, b"");
    bytes.extend(member(name, 0o100644, data));
    bytes.extend(member("TRAILER!!!", 0, b""));
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    out.extend(miniz_oxide::deflate::compress_to_vec(bytes, 6));
    out.extend(crc32(bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// Bit by bit, so that it shares nothing with what it checks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| {
            if c & 1 != 0 {
                0xedb8_8320 ^ (c >> 1)
            } else {
                c >> 1
            }
        })
    })
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn listing(bytes: &[u8]) -> Result<String, String> {
    let mut list = List::default();
    unpack(bytes, &mut list).map_err(|e| e.to_string())?;
    Ok(list.text)
}

#[test]
fn plain() {
    assert_eq!(
        listing(&archive("dir/a", b"hello")).unwrap(),
        "dir 40755: \ndir/a 100644: hello\n"
    );
    assert_eq!(listing(&[]).unwrap(), "");
    assert_eq!(listing(&[0; 700]).unwrap(), "");
}

#[test]
fn concatenated_in_every_format() {
    let mut bytes = archive("a", b"1");
    bytes.extend([0; 36]);
    bytes.extend(gzip(&archive("b", b"2")));
    bytes.extend([0; 3]);
    bytes.extend(zstd(
        &[archive("c", b"3"), archive("d", &[b'4'; 100_000])].concat(),
    ));
    bytes.extend(archive("e", b"5"));
    let names: Vec<_> = listing(&bytes)
        .unwrap()
        .lines()
        .filter_map(|l| l.chars().next())
        .collect();
    assert_eq!(names, ['d', 'a', 'd', 'b', 'd', 'c', 'd', 'd', 'd', 'e']);
}

#[test]
fn every_truncation_is_an_error_that_says_where() {
    let whole = archive("dir/a", b"hello");
    let end = whole.iter().rposition(|b| *b != 0).unwrap();
    for len in 1..end {
        let error = listing(&whole[..len]).unwrap_err();
        assert!(
            error.contains("truncated") && error.contains("offset"),
            "{len}: {error}"
        );
    }
    let error = listing(&whole[..116 + 110 + 6 + 2]).unwrap_err();
    assert!(error.ends_with("member \"dir/a\""), "{error}");
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    for whole in [
        gzip(&archive("a", b"hello")),
        zstd(&archive("a", b"hello")),
        archive("a", b"hello"),
    ] {
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            let _ = listing(&bytes);
        }
        for len in 0..whole.len() {
            let _ = listing(&whole[..len]);
        }
    }
    let mut bytes = gzip(&archive("a", b"hello"));
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    assert!(listing(&bytes).unwrap_err().contains("checksum"));
    assert!(
        listing(b"\x7fELF rubbish")
            .unwrap_err()
            .contains("not a newc cpio")
    );
}

#[test]
fn the_receiver_may_refuse() {
    let mut list = List {
        room: Some(3),
        ..List::default()
    };
    let error = unpack(&archive("big", b"hello"), &mut list)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("no memory") && error.contains("\"big\""),
        "{error}"
    );
}
