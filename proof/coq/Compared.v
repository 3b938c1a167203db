(** Two of the schemes that stand beside the word for comparison: the first owner and a count of the others' mappings
    (kernel/own/src/first_owner.rs), and counts of single pages (kernel/own/src/per_page.rs). *)
From Coq Require Import List Lia Bool Arith.
Import ListNotations.

(** * The first owner *)

(** Who holds the folio, once for each reference: 0 is plain. *)
Definition mapping (s : nat) : bool := negb (s =? 0).
Definition by_other (first s : nat) : bool := mapping s && negb (s =? first).

(** What the scheme counts: all mappings, and those of others than the first owner. *)
Definition all (held : list nat) : nat := length (filter mapping held).
Definition others (first : nat) (held : list nat) : nat := length (filter (by_other first) held).
Definition plain (held : list nat) : nat := length (filter (fun s => s =? 0) held).

Lemma references held : length held = all held + plain held.
Proof.
  unfold all, plain, mapping. induction held as [|s held IH]; [reflexivity|].
  cbn [filter length]. destruct (s =? 0); cbn [negb length]; lia.
Qed.

Lemma none_of_filter {A} (p : A -> bool) l : length (filter p l) = 0 <-> Forall (fun x => p x = false) l.
Proof.
  induction l as [|x l IH]; cbn [filter]; [split; auto|].
  destruct (p x) eqn:E; cbn [length].
  - split; [discriminate|]. intros H. inversion H. congruence.
  - rewrite IH. split; [now constructor|]. intros H. now inversion H.
Qed.

Lemma no_others first held : others first held = 0 <-> Forall (fun s => s = 0 \/ s = first) held.
Proof.
  unfold others. rewrite none_of_filter, !Forall_forall.
  split; intros H s Hs; specialize (H s Hs); unfold by_other, mapping in *.
  - apply andb_false_iff in H as [H|H]; apply negb_false_iff, Nat.eqb_eq in H; auto.
  - destruct H as [-> | -> ]; [reflexivity|]. rewrite Nat.eqb_refl. apply andb_false_r.
Qed.

(** With [known] plain references that are there, it says yes exactly when the first owner has all others of the references, and
    one at least. *)
Theorem owner_exact first held known :
  known <= plain held ->
  (others first held = 0 /\ length held - known = all held /\ all held <> 0)
    <-> (plain held = known /\ all held <> 0 /\ Forall (fun s => s = 0 \/ s = first) held).
Proof. intros Hk. rewrite no_others. pose proof (references held). split; intros [? [? ?]]; repeat split; auto; lia. Qed.

(** So a yes is never wrong: whoever maps the folio is the first owner. *)
Corollary owner_sound first held known s :
  known <= plain held -> others first held = 0 -> In s held -> s <> 0 -> s = first.
Proof.
  intros _ Ho Hin Hs. apply no_others in Ho. rewrite Forall_forall in Ho. destruct (Ho s Hin); congruence.
Qed.

(** * Counts of single pages *)

(** The sum of what is counted for each of the folio's [n] pages. *)
Fixpoint sum_of_pages (n : nat) (entries : list nat) : nat :=
  match n with
  | 0 => 0
  | S page => sum_of_pages page entries + count_occ Nat.eq_dec entries page
  end.

Lemma sum_without n page entries : n <= page -> sum_of_pages n (page :: entries) = sum_of_pages n entries.
Proof.
  induction n as [|n IH]; intros Hn; [reflexivity|]. cbn [sum_of_pages].
  rewrite IH by lia. now rewrite count_occ_cons_neq by lia.
Qed.

Lemma sum_with n page entries : page < n -> sum_of_pages n (page :: entries) = S (sum_of_pages n entries).
Proof.
  induction n as [|n IH]; intros Hn; [lia|]. cbn [sum_of_pages].
  destruct (Nat.eq_dec page n) as [->|Hne].
  - rewrite sum_without by lia. rewrite count_occ_cons_eq by reflexivity. lia.
  - rewrite IH by lia. rewrite count_occ_cons_neq by exact Hne. lia.
Qed.

(** It is the number of entries: no total need be kept to compare it with the references. *)
Theorem pages_sum n entries : Forall (fun page => page < n) entries -> sum_of_pages n entries = length entries.
Proof.
  induction 1 as [|page entries Hp _ IH].
  - induction n as [|n IH]; [reflexivity|]. cbn [sum_of_pages]. rewrite IH. reflexivity.
  - rewrite sum_with by exact Hp. cbn [length]. now rewrite IH.
Qed.

(** [others] of the references are no entries of the one that mapped the folio first and alone. The sum equals the references but
    for [known] plain ones just when those are all. *)
Corollary pages_exact n entries others known :
  Forall (fun page => page < n) entries -> known <= others ->
  length entries + others - known = sum_of_pages n entries <-> others = known.
Proof. intros H Hk. rewrite pages_sum by exact H. lia. Qed.
