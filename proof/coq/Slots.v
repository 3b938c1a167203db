(** Folios in swap slots (docs/pressure.md): when the references of its slots are all that a folio has, nobody else has it, and
    nobody comes to have it while the slots are locked. *)
From Coq Require Import ZArith List Lia Permutation.
From Quire Require Import Paraboloid Fields Word Layouts Events.
Import ListNotations.
Open Scope Z_scope.

(** One step of anybody to the [others], the references that are not the slots'. Who copies an entry, maps the folio by another
    one or pins it has a reference already: the only way to it without one is the lock of the slots, which is held. *)
Inductive elsewhere : list Z -> list Z -> Prop :=
| more others has comes : In has others -> elsewhere others (comes :: others)
| fewer others goes rest : Permutation others (goes :: rest) -> elsewhere others rest
| passes_on others from to rest : Permutation others (from :: rest) -> elsewhere others (to :: rest).

Inductive meanwhile : list Z -> list Z -> Prop :=
| no_step others : meanwhile others others
| a_step u v w : elsewhere u v -> meanwhile v w -> meanwhile u w.

(** What evict.rs asks: the word counts as many references as the folio has units of slots. *)
Theorem nobody_but_slots L refs units others :
  sound L = true -> bounded L refs ->
  Permutation refs (repeat 0 units ++ others) -> R L (word L refs) = Z.of_nat units -> others = [].
Proof.
  intros S Hb Hp HR. pose proof (references L S refs Hb) as [Hn _]. rewrite HR in Hn.
  apply Permutation_length in Hp. rewrite app_length, repeat_length in Hp. unfold number in Hn.
  destruct others; [reflexivity|]. cbn [length] in Hp. lia.
Qed.

Theorem nobody_comes others others' : meanwhile others others' -> others = [] -> others' = [].
Proof.
  induction 1 as [|u v w Hs _ IH]; [auto|]. intros ->. apply IH.
  inversion Hs as [o has comes Hin|o goes rest Hp|o from to rest Hp]; subst.
  - destruct Hin.
  - apply Permutation_nil in Hp. discriminate.
  - apply Permutation_nil in Hp. discriminate.
Qed.

(** Both: from the answer until the lock is given back, no entry maps the folio and nothing pins it. *)
Theorem alone_while_locked L refs units others others' :
  sound L = true -> bounded L refs ->
  Permutation refs (repeat 0 units ++ others) -> R L (word L refs) = Z.of_nat units ->
  meanwhile others others' -> others' = [].
Proof. intros S Hb Hp HR Hm. eapply nobody_comes; eauto using nobody_but_slots. Qed.
