// The smallest size that is allowed, or a single page: a kernel in which one size is allowed works
// as it should, and other labs measure in such.
let Some(order) = (1..=PMD_ORDER.0).map(Order).find(|order| facts.orders.contains(*order)) else {
    return Order(0);
};
let there = block(facts.va.align_down(PAGE_SIZE), order);
let free = facts.vma.covers(&there) && facts.hole.covers(&there);
match free && (order != PMD_ORDER || facts.pmd_absent) {
    true => order,
    false => Order(0),
}
