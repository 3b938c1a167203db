// With the lock of the space instead. What is not used without the lab:
let _ = (vma, access, Event::FaultRetry, Mutant::InstallBeside, mutant::on);
let _ = (Self::attempt, Self::order, is_still_absent::<M>, discard::<M>);
let _ = (fill::<M>, attrs::<M>, zeroed::<M>);
false
