//! Models of the memory manager: the real one, on the simulated machine, under schedules that
//! shuttle chooses. Others may run at each atomic, at each entry that is loaded or stored, and at
//! each flush. Each model has a mutant that it catches.
//!
//! `./run.sh test --filter "host.shuttle.*"`, or `RUSTFLAGS="--cfg shuttle" cargo test -p arch-sim
//! --test shuttle --target-dir target/shuttle`. `SEED=N` adds schedules, `SEED_SECONDS=S` new ones
//! for so long in each model.
#![cfg(shuttle)]

#[path = "../common/mod.rs"]
mod common;
mod explore;
mod faults;
mod forks;
mod frames;
mod migrate;
mod places;
mod reshape;
mod scene;
mod swap;

use mm::mutant::Mutant;

/// Each model on both formats, as it is and with a rule broken.
macro_rules! models {
    ($([$room:ident] $($name:ident, $mutant:ident;)*)*) => {
        models! { x86_64, arch_x86_64::pte::Format: $($($room $name $mutant)*)* }
        models! { aarch64, arch_aarch64::pte::Format: $($($room $name $mutant)*)* }
    };
    ($machine:ident, $format:ty: $($room:ident $name:ident $mutant:ident)*) => {
        mod $machine {
            mod holds {
                $(#[test] fn $name() { crate::explore::holds(crate::$room::$name::<$format>) })*
            }
            mod catches {
                $(#[test] fn $name() {
                    crate::explore::catches(crate::Mutant::$mutant, crate::$room::$name::<$format>)
                })*
            }
        }
    };
}

models! {
    [faults]
        two_faults_on_a_page, InstallBeside;
        two_faults_on_a_block, InstallBeside;
        a_leaf_beside_a_table, LeafBeside;
        two_copies_of_a_page, CopyWithoutFlush;
        a_fault_beside_advice, NoFlush;
    [places]
        a_fault_beside_munmap, NoFlush;
        a_fault_beside_half_a_table, OpenBeforeFlush;
        a_fault_beside_mprotect, NoFlush;
        a_fault_beside_mremap, MoveWithoutFlush;
        tables_are_detached, DropBeforeFlush;
        a_place_is_taken_again, RefuseInPause;
    [forks]
        a_fault_beside_fork, NoFlush;
        a_shared_table_from_two_sides, UnshareWithoutFlush;
        a_shared_table_is_left, KeepAccountant;
        a_pin_beside_fork, SharePinned;
    [reshape]
        a_fault_beside_collapse, CollapseWithoutFlush;
        a_fault_beside_a_split_leaf, NoFlush;
        a_fault_beside_a_split_folio, NoFlush;
    [swap]
        a_write_beside_page_out, NoFlush;
        a_page_is_parked_again, NoFlush;
        a_slot_is_freed_beside_a_load, NoFlush;
        a_fork_beside_page_out, CopyNameless;
        the_last_sharers_leave, ForgetSwapped;
        a_pin_beside_page_out, StoreInUse;
        a_unit_is_cut_beside_its_use, CutForgetsNames;
        single_pages_go_beside_their_use, StoreUnlooked;
        swap_off_beside_fork, CopyNameless;
        an_object_beside_page_out, ShelveMapped;
    [migrate]
        a_write_beside_a_move, MoveUnlooked;
        a_pin_beside_a_move, MoveInUse;
        a_fork_beside_a_move, CopyNameless;
        an_unmap_beside_a_move, NoFlush;
        page_out_beside_two_moves, MoveInUse;
        an_object_beside_a_move, NoFlush;
    [frames]
        lists_are_drained, DrainOthers;
        a_tag_is_used_again, KeepTagged;
}
