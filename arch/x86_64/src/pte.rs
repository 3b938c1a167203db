//! SKELETON: the entry format.
use mm::addr::*;
use mm::arch::*;
/// The entry format.
pub struct Format;
impl PteFormat for Format {
    const USER_END: VirtAddr = VirtAddr(0x0000_7fff_ffff_f000);
    const LARGEST_LEAF: Level = Level::Pud;
    const CONTIG_ORDER: Option<Order> = None;
    const BREAK_BEFORE_MAKE: bool = false;
    fn decode(_raw: u64, _level: Level) -> Entry { todo!() }
    fn leaf(_pfn: Pfn, _attrs: Attrs, _level: Level) -> u64 { todo!() }
    fn table(_pfn: Pfn) -> u64 { todo!() }
}
