//! First touch of anonymous memory: the choice of the folio.

use super::Access;
use super::request::{Fault, Stop};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Level, Machine};
use crate::manager::Result;
use crate::space::gathered;
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::policy::{self, block};
use crate::thp::{Facts, Orders, PMD_ORDER};

impl<M: Machine> Fault<'_, M> {
    /// Maps the zero page for a read; requests a folio for a write.
    pub(super) fn anon_page(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Stop> {
        if self.access != Access::Write {
            return Ok(self.zeros(cursor)?);
        }
        Err(Stop::Wants(self.order(cursor)))
    }

    /// The folio orders allowed here.
    #[inline(always)]
    pub(super) fn orders(&self) -> Orders {
        let controls = &self.mm.thp().controls;
        self.vma.orders(controls, self.permit).up_to(self.most)
    }

    /// The order of a folio for the absent page.
    #[inline]
    pub(super) fn order(&self, cursor: &Cursor<'_, M>) -> Order {
        let orders = self.orders();
        match orders.is_empty() {
            true => Order(0),
            false => self.largest(cursor, orders),
        }
    }

    /// The largest of these orders that fits here. Reads no more of the table than the largest
    /// order that the VMA has room for.
    #[inline]
    fn largest(&self, cursor: &Cursor<'_, M>, orders: Orders) -> Order {
        let mut facts = Facts {
            va: self.va,
            vma: self.vma.range,
            hole: block(self.va, PMD_ORDER),
            pmd_absent: cursor.pmd_is_empty(),
            orders,
        };
        let order = policy::order(&facts);
        if facts.pmd_absent || order == Order(0) {
            return order;
        }
        let wanted = block(self.va, order);
        facts.hole = cursor.hole(wanted);
        match facts.hole == wanted {
            true => order,
            false => policy::order(&facts),
        }
    }

    /// Maps the huge zero page where such a folio would be allowed and fits, else the small one.
    fn zeros(&self, cursor: &mut Cursor<'_, M>) -> Result<Pfn> {
        let attrs = self.attrs();
        let whole = block(self.va, PMD_ORDER);
        let fits = self.orders().contains(PMD_ORDER)
            && self.vma.range.covers(&whole)
            && cursor.pmd_is_empty()
            && self.mm.thp().controls.use_zero_page();
        if fits
            && cursor.prepare(Level::Pmd).is_ok()
            && let Ok(pfn) = self.mm.get_huge_zero_page()
        {
            gathered(self.mm, self.id, |g| cursor.edit(g).remove_empty_table());
            cursor.write_huge(pfn, attrs);
            self.mm.count(Event::ZeroPage, 1);
            return Ok(pfn + (self.va - whole.start) / PAGE_SIZE);
        }
        cursor.prepare(Level::Pte)?;
        cursor.install_zero_page(attrs);
        self.mm.count(Event::ZeroPage, 1);
        Ok(self.mm.zero_page())
    }
}
