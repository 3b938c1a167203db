//! Addresses, frame and page numbers, orders and ranges: types in place of bare integers.

use core::fmt;

/// log2 of the page size.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes in a page (4 KiB, both architectures).
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
        impl core::ops::Add<u64> for $name {
            type Output = $name;
            #[inline]
            fn add(self, n: u64) -> $name {
                $name(self.0 + n)
            }
        }
        impl core::ops::AddAssign<u64> for $name {
            #[inline]
            fn add_assign(&mut self, n: u64) {
                self.0 += n;
            }
        }
        impl core::ops::Sub for $name {
            type Output = u64;
            #[inline]
            fn sub(self, other: $name) -> u64 {
                self.0 - other.0
            }
        }
    };
}

number! {
    /// A virtual address, in bytes.
    VirtAddr
}
number! {
    /// A physical address, in bytes.
    PhysAddr
}
number! {
    /// A physical page frame number: a physical address divided by [`PAGE_SIZE`].
    Pfn
}
number! {
    /// A virtual page number: a virtual address divided by [`PAGE_SIZE`].
    Vpn
}

impl VirtAddr {
    /// The page that holds this address.
    #[inline]
    pub const fn page(self) -> Vpn {
        Vpn(self.0 >> PAGE_SHIFT)
    }
    /// Bytes from the start of its page.
    #[inline]
    pub const fn page_offset(self) -> u64 {
        self.0 & (PAGE_SIZE - 1)
    }
    /// The next lower multiple of `align` (a power of two).
    #[inline]
    pub const fn align_down(self, align: u64) -> VirtAddr {
        VirtAddr(self.0 & !(align - 1))
    }
    /// The next higher multiple of `align` (a power of two), or `None` past the end of the address
    /// space.
    #[inline]
    pub const fn align_up(self, align: u64) -> Option<VirtAddr> {
        match self.0.checked_add(align - 1) {
            Some(a) => Some(VirtAddr(a & !(align - 1))),
            None => None,
        }
    }
    /// Whether the address is a multiple of `align` (a power of two).
    #[inline]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
    /// The sum, or `None` past the end of the address space.
    #[inline]
    pub const fn checked_add(self, n: u64) -> Option<VirtAddr> {
        match self.0.checked_add(n) {
            Some(a) => Some(VirtAddr(a)),
            None => None,
        }
    }
}

impl Vpn {
    /// The first address of the page.
    #[inline]
    pub const fn start(self) -> VirtAddr {
        VirtAddr(self.0 << PAGE_SHIFT)
    }
}

impl PhysAddr {
    /// The frame that holds this address.
    #[inline]
    pub const fn frame(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }
}

impl Pfn {
    /// The first address of the frame.
    #[inline]
    pub const fn start(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }
}

/// log2 of a number of pages: order 0 is 4 KiB, order 4 is 64 KiB, order 9 is 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Order(pub u8);

impl Order {
    /// 2^order pages.
    #[inline]
    pub const fn pages(self) -> u64 {
        1 << self.0
    }
    /// 2^order pages in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        PAGE_SIZE << self.0
    }
}

macro_rules! range {
    ($(#[$doc:meta])* $name:ident, $point:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name {
            /// The first element.
            pub start: $point,
            /// One past the last element; never below `start`.
            pub end: $point,
        }

        impl $name {
            /// `start..end`; debug builds panic when `end` is below `start`.
            #[inline]
            pub const fn new(start: $point, end: $point) -> Self {
                debug_assert!(start.0 <= end.0, "a range ends before it starts");
                Self { start, end }
            }
            /// How many units (bytes or pages) the range covers.
            #[inline]
            pub const fn len(&self) -> u64 {
                self.end.0 - self.start.0
            }
            /// Whether the range covers nothing.
            #[inline]
            pub const fn is_empty(&self) -> bool {
                self.start.0 >= self.end.0
            }
            /// Whether `point` lies inside.
            #[inline]
            pub const fn contains(&self, point: $point) -> bool {
                self.start.0 <= point.0 && point.0 < self.end.0
            }
            /// Whether the two ranges share a point.
            #[inline]
            pub const fn overlaps(&self, other: &Self) -> bool {
                self.start.0 < other.end.0 && other.start.0 < self.end.0
            }
            /// Whether `other` lies wholly inside.
            #[inline]
            pub const fn covers(&self, other: &Self) -> bool {
                self.start.0 <= other.start.0 && other.end.0 <= self.end.0
            }
            /// The part that both ranges share; `None` when they share nothing.
            #[inline]
            pub fn intersection(&self, other: &Self) -> Option<Self> {
                let (start, end) = (self.start.max(other.start), self.end.min(other.end));
                (start < end).then_some(Self { start, end })
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}..{:#x}", self.start.0, self.end.0)
            }
        }
    };
}

range! {
    /// A half-open range of virtual addresses; user ranges are page-aligned once a verb has checked
    /// them.
    VirtRange, VirtAddr
}
range! {
    /// A half-open range of physical addresses.
    PhysRange, PhysAddr
}
range! {
    /// A half-open range of frames.
    PfnRange, Pfn
}

impl VirtRange {
    /// How many pages the range covers; both ends are page-aligned.
    #[inline]
    pub const fn pages(&self) -> u64 {
        self.len() >> PAGE_SHIFT
    }
}

impl PhysRange {
    /// The whole frames inside the range (start rounded up, end rounded down).
    #[inline]
    pub fn whole_frames(&self) -> PfnRange {
        let start = Pfn(self.start.0.div_ceil(PAGE_SIZE));
        let end = Pfn(self.end.0 >> PAGE_SHIFT);
        PfnRange::new(start, end.max(start))
    }
}
