//! `nothing`: does nothing, and says that it worked. What `bench --op fork-exec` starts.

fn main() {}
