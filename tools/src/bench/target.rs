//! Which figures are good enough (issue "Folios").
use super::cells::{Cell, Key};
use crate::arch::Arch;

/// Pages of 1 GiB.
const GIB: u64 = 1 << 18;

/// What a cell is measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing was promised.
    None,
    /// As promised.
    Met,
    /// Not; the figure that would do.
    Missed(f64),
}

/// Instructions that clearing one page costs with the primitive that both kernels use.
pub const fn clearing(arch: Arch) -> f64 {
    match arch {
        // rep stosq: one for each word.
        Arch::X86_64 => 512.0,
        // dc zva, 512 bytes each on this CPU, and the loop around it.
        Arch::Aarch64 => 28.0,
    }
}

/// Judges one cell. `linux` is its figure there; `few` is the figure of the same operation with one VMA.
pub fn judge(arch: Arch, key: &Key, cell: &Cell, linux: Option<f64>, few: Option<f64>) -> Verdict {
    let limit = match (key.op.as_str(), linux, few) {
        ("munmap", Some(linux), _) => linux / 2.0,
        // Above the clearing: half of Linux's, or within 5 instructions of that.
        ("fault", Some(linux), _) => (linux - clearing(arch)) / 2.0 + 5.0 + clearing(arch),
        ("vmas", _, Some(few)) => 2.0 * few,
        ("touch1g", ..) => return exact(key, cell),
        _ => return Verdict::None,
    };
    if cell.figure <= limit {
        Verdict::Met
    } else {
        Verdict::Missed(limit)
    }
}

/// One fault and one update of the account for each folio, no more and no less.
fn exact(key: &Key, cell: &Cell) -> Verdict {
    let folios = GIB * 4 / key.kb;
    let counters = ["pgfault", "account_updates"].map(|name| cell.counter(name));
    if counters == [folios; 2] {
        Verdict::Met
    } else {
        Verdict::Missed(folios as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(op: &str, kb: u64, figure: f64, linux: Option<f64>) -> Verdict {
        let key = Key {
            op: op.to_owned(),
            kb,
            vmas: 0,
        };
        let line = json!({"pgfault": 16384, "account_updates": 16384});
        judge(Arch::Aarch64, &key, &Cell { figure, line }, linux, None)
    }

    #[test]
    fn limits() {
        assert_eq!(verdict("munmap", 4, 50.0, Some(100.0)), Verdict::Met);
        assert_eq!(
            verdict("munmap", 4, 50.5, Some(100.0)),
            Verdict::Missed(50.0)
        );
        assert_eq!(verdict("fault", 4, 83.0, Some(128.0)), Verdict::Met);
        assert_eq!(
            verdict("fault", 4, 84.0, Some(128.0)),
            Verdict::Missed(83.0)
        );
        assert_eq!(verdict("cow", 4, 1.0, Some(1.0)), Verdict::None);
        assert_eq!(verdict("touch1g", 64, 1.0, None), Verdict::Met);
        assert_eq!(verdict("touch1g", 32, 1.0, None), Verdict::Missed(32768.0));
    }
}
