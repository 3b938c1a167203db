/// Retries the fault with smaller folios than of `order`, until it is resolved.
#[cold]
fn retry<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    mut order: Order,
    mut miss: Miss,
) -> Result<Pfn, Resolution> {
    let mm = locked.mm();
    loop {
        if let Miss::Disturbed(folio) = miss {
            folio.free(mm);
        }
        let most = Order(order.0.checked_sub(1).ok_or(Resolution::NoMem)?);
        mm.count_folios(order, Stat::AnonFaultFallback, 1);
        let wants = match locked.attempt_past_marks(request, most)? {
            Attempt::Mapped(pfn) => return Ok(pfn),
            Attempt::Wants(wants) => wants,
        };
        match once(locked, request, &wants, None) {
            Ok(pfn) => return Ok(pfn),
            Err(why) => (order, miss) = (wants.order, why),
        }
    }
}

/// Allocates the folio, unless `kept` is one, and maps it.
#[inline(never)]
fn once<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
    kept: Option<Folio>,
) -> Result<Pfn, Miss> {
    once_here(locked, request, wants, kept)
}

/// The lock stays held: the other threads wait.
#[inline(always)]
fn once_here<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
    kept: Option<Folio>,
) -> Result<Pfn, Miss> {
    // What is not used without the lab.
    let _ = (Event::FaultRetry, Miss::Disturbed, Mutant::InstallWithoutLooking, mutant::on);
    let _ = |locked: &mut Locked<'_, M>| locked.open(|_| ());
    let folio = kept.map_or_else(|| zeroed(locked.mm(), wants.order), Ok);
    let folio = folio.map_err(|OutOfMemory| Miss::Refused)?;
    install(locked, request, wants, folio).map_err(|OutOfMemory| Miss::Refused)
}
