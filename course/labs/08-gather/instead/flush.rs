let all = VirtRange::new(VirtAddr(0), <M::Pte as crate::arch::PteFormat>::USER_END);
let (asid, tlb) = (self.id.asid, self.mm.machine().tlb());
tlb.flush_range(asid, all, Level::Pte, true);
