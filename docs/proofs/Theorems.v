(** The statements, and what each rests on: `Print Assumptions` must say "Closed under the global context" every time. *)
From Coq Require Import ZArith List.
From Quire Require Import Paraboloid Fields Word Layouts Events Seed.
Set Printing Width 120.

Check convexity.              Print Assumptions convexity.
Check cauchy_schwarz.         Print Assumptions cauchy_schwarz.
Check unpack_pack.            Print Assumptions unpack_pack.
Check decoding.               Print Assumptions decoding.
Check references.             Print Assumptions references.
Check enough_bits.            Print Assumptions enough_bits.
Check exclusive_exact.        Print Assumptions exclusive_exact.
Check owner_exact.            Print Assumptions owner_exact.
Check narrow_formula.         Print Assumptions narrow_formula.
Check wide_formula.           Print Assumptions wide_formula.
Check narrow_bound.           Print Assumptions narrow_bound.
Check wide_bound.             Print Assumptions wide_bound.
Check narrow_mms.             Print Assumptions narrow_mms.
Check wide_mms.               Print Assumptions wide_mms.
Check narrow_warning.         Print Assumptions narrow_warning.
Check wide_warning.           Print Assumptions wide_warning.
Check narrow_exclusive.       Print Assumptions narrow_exclusive.
Check wide_exclusive.         Print Assumptions wide_exclusive.
Check narrow_owner.           Print Assumptions narrow_owner.
Check wide_owner.             Print Assumptions wide_owner.
Check zero_is_free.           Print Assumptions zero_is_free.
Check overflow_lies.          Print Assumptions overflow_lies.
Check event_exact.            Print Assumptions event_exact.
Check history_exact.          Print Assumptions history_exact.
Check split_pmd.              Print Assumptions split_pmd.
Check split_pud.              Print Assumptions split_pud.
Check nobody_else.            Print Assumptions nobody_else.
Check seed_collides.          Print Assumptions seed_collides.
Check seven_bits_do_not.      Print Assumptions seven_bits_do_not.
