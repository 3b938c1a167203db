//! What a Linux kernel's file is: for which machine, and whether QEMU can load it as it is.
use crate::host::arch::Arch;
use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::io::Read as _;
use std::borrow::Cow;
use std::io::Read as _;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// A kernel as QEMU loads it, and for which machine: an x86 bzImage as it is, an arm64 Image from
/// what it may be packed in, gzip or an EFI zboot image.
pub fn loadable(bytes: &[u8]) -> Result<(Arch, Cow<'_, [u8]>)> {
    if let Some(arch) = arch_of(bytes) {
        return Ok((arch, Cow::Borrowed(bytes)));
    }
    let image = match Packed::of(bytes) {
        Some(packed) => packed.unpack()?,
        None if bytes.starts_with(GZIP) => gunzip(bytes)?,
        None => bail!("neither a bzImage nor an arm64 Image"),
    };
    let arch = arch_of(&image).context("what is packed in it is no arm64 Image")?;
    Ok((arch, Cow::Owned(image)))
}

/// The machine of an image that is not packed, by the magic number of each format:
/// Documentation/arch/x86/boot.rst and Documentation/arch/arm64/booting.rst of Linux.
fn arch_of(bytes: &[u8]) -> Option<Arch> {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..offset + 4) == Some(magic);
    if at(0x202, b"HdrS") {
        return Some(Arch::X86_64);
    }
    at(56, b"ARM\x64").then_some(Arch::Aarch64)
}

/// The header of an EFI zboot image, a small EFI program that unpacks the kernel behind it: `MZ`,
/// at 4 `zimg`, at 8 and 12 where the payload is and its length, at 24 how it was compressed.
struct Packed<'a> {
    kind: &'a [u8],
    payload: Option<&'a [u8]>,
}

impl Packed<'_> {
    fn of(bytes: &[u8]) -> Option<Packed<'_>> {
        let header = bytes.get(..56)?;
        if &header[..2] != b"MZ" || &header[4..8] != b"zimg" {
            return None;
        }
        let word = |at: usize| {
            let word = header[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(word) as usize
        };
        let kind = header[24..].split(|byte| *byte == 0).next()?;
        let payload = word(8)
            .checked_add(word(12))
            .and_then(|end| bytes.get(word(8)..end));
        Some(Packed { kind, payload })
    }

    fn unpack(&self) -> Result<Vec<u8>> {
        let payload = self.payload.context("an EFI zboot image that is cut")?;
        match self.kind {
            b"gzip" => gunzip(payload),
            kind if kind.starts_with(b"zstd") => unzstd(payload),
            kind => bail!(
                "an EFI zboot image packed with {}; gzip and zstd can be unpacked",
                String::from_utf8_lossy(kind)
            ),
        }
    }
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut image = Vec::new();
    GzDecoder::new(bytes)
        .read_to_end(&mut image)
        .context("the kernel's gzip data")?;
    Ok(image)
}

fn unzstd(bytes: &[u8]) -> Result<Vec<u8>> {
    let error = |error: &dyn std::fmt::Display| anyhow::anyhow!("the kernel's zstd data: {error}");
    let mut decoder = StreamingDecoder::new(bytes).map_err(|why| error(&why))?;
    let (mut image, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match decoder.read(&mut piece).map_err(|why| error(&why))? {
            0 => return Ok(image),
            length => image.extend_from_slice(&piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn image() -> Vec<u8> {
        let mut image = vec![7; 5000];
        image[56..60].copy_from_slice(b"ARM\x64");
        image
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zboot(kind: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(b"MZ\0\0zimg");
        bytes[8..12].copy_from_slice(&256_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[24..24 + kind.len()].copy_from_slice(kind);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&[0; 64]);
        bytes
    }

    #[test]
    fn plain_ones_stay_as_they_are() {
        let mut bz = vec![0; 0x300];
        bz[0x202..0x206].copy_from_slice(b"HdrS");
        for (bytes, arch) in [(bz, Arch::X86_64), (image(), Arch::Aarch64)] {
            let (found, loaded) = loadable(&bytes).unwrap();
            assert_eq!(found, arch);
            assert!(matches!(loaded, Cow::Borrowed(same) if same == bytes));
        }
    }

    #[test]
    fn packed_ones_are_unpacked() {
        let zstd = ruzstd::encoding::compress_to_vec(
            &image()[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for bytes in [
            gzip(&image()),
            zboot(b"gzip", &gzip(&image())),
            zboot(b"zstd22", &zstd),
        ] {
            let (arch, loaded) = loadable(&bytes).unwrap();
            assert_eq!((arch, &*loaded), (Arch::Aarch64, &image()[..]));
        }
    }

    #[test]
    fn what_cannot_be_loaded_says_why() {
        let why = |bytes: &[u8]| format!("{:#}", loadable(bytes).unwrap_err());
        assert!(why(b"\x7fELF").starts_with("neither a bzImage"));
        assert!(why(&zboot(b"lzma", b"x")).contains("packed with lzma"));
        assert!(why(&zboot(b"gzip", b"x")).contains("gzip data"));
        assert!(why(&zboot(b"zstd22", b"x")).contains("zstd data"));
        assert!(why(&gzip(b"text")).contains("no arm64 Image"));
        let mut cut = zboot(b"gzip", &gzip(&image()));
        cut.truncate(300);
        cut[12] = 255;
        assert!(why(&cut).contains("is cut"));
        cut[8..16].fill(255);
        assert!(why(&cut).contains("is cut"));
        assert!(loadable(&cut[..40]).is_err() && loadable(&[]).is_err());
    }
}
