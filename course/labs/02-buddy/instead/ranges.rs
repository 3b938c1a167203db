
/// Takes the free blocks before and after a block out of their lists, within its GiB; returns
/// the range that they are together with it. Slower than it could be: what comes before is
/// looked for in each order.
fn unlink_around(&mut self, table: &FrameTable, range: PfnRange) -> PfnRange {
    let mut range = range;
    let gib = range.start.0 >> MAX_ORDER.0;
    // Only the head of a block in a list may look like one.
    table.get(range.start).set(Kind::Reserved, Order(0));
    let free = |pfn: Pfn| {
        let meta = table.near(pfn).filter(|_| pfn.0 >> MAX_ORDER.0 == gib)?;
        (meta.kind() == Kind::Free).then(|| meta.order())
    };
    let before = |start: Pfn| {
        let mut orders = (0..=MAX_ORDER.0).map(Order);
        orders.find_map(|order| {
            let at = Pfn(start.0.checked_sub(order.pages())?);
            (free(at) == Some(order)).then_some((at, order))
        })
    };
    while let Some((at, order)) = before(range.start) {
        self.unlink(table, at, order, self.home(at, order));
        range.start = at;
    }
    while let Some(order) = free(range.end) {
        let at = range.end;
        self.unlink(table, at, order, self.home(at, order));
        range.end += order.pages();
    }
    range
}

/// Puts a range of free frames in the lists.
fn push_range(&mut self, table: &FrameTable, range: PfnRange) {
    for (at, order) in largest_blocks(range) {
        if order >= PAGEBLOCK {
            self.pageblocks.set(at, order, Mobility::Movable);
        }
        self.push(table, at, order, self.home(at, order));
    }
}
