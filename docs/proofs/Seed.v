(** A defect of an older scheme, as a checked counter-example.

    The scheme keeps a count of mappings and three 64-bit values for folios of 128 to 512 pages. Each value is the sum, over
    all mappings, of 8 bits of the mapper's id written as digits of base 513. A folio is taken for exclusive to an id when each
    value is the count times the id's. But 2 * (513 - 1)^7 = 2^64, and the sums collide. *)
From Coq Require Import ZArith List Lia.
Import ListNotations.
Open Scope Z_scope.

(** A mapping count, and the id that so many mappings belong to. *)
Definition mappings := list (Z * Z).

Definition mapcount (m : mappings) : Z := fold_right (fun p s => fst p + s) 0 m.

(** [n] bits of a number as digits of base [base]. *)
Fixpoint subid (base : Z) (n : nat) (x : Z) : Z :=
  match n with
  | O => 0
  | S n => x mod 2 + base * subid base n (x / 2)
  end.

(** Value [i] of a folio, [n] bits of the id for each value. *)
Definition value (base : Z) (n : nat) (i : Z) (m : mappings) : Z :=
  fold_right (fun p s => (fst p * subid base n (snd p / 2 ^ (Z.of_nat n * i)) + s) mod 2 ^ 64) 0 m.

(** What the scheme answers, with [values] values. *)
Definition exclusive (base : Z) (n : nat) (values : list Z) (m : mappings) (id : Z) : bool :=
  forallb (fun i => value base n i m =? value base n i [(mapcount m, id)]) values.

Theorem too_tight : 2 * (513 - 1) ^ 7 = 2 ^ 64.
Proof. reflexivity. Qed.

(** Five address spaces map 71 pages of a folio of order 7 to 9. *)
Definition vector : mappings := [(1, 0x155); (12, 0x12b); (28, 0x14d); (28, 0x169); (2, 0x1aa)].

Theorem seed_collides :
  exclusive 513 8 [0; 1; 2] vector 0x155 = true /\ mapcount vector = 71 /\ In (12, 0x12b) vector.
Proof. vm_compute. auto. Qed.

(** With 7 bits for each value there is room, and this vector is told apart; so it is by more digits of any kind. *)
Theorem seven_bits_do_not : 513 ^ 7 < 2 ^ 64 /\ exclusive 513 7 [0; 1; 2] vector 0x155 = false.
Proof. vm_compute. auto. Qed.
