(** What happens to a folio, as changes of its word: "the word is the sum over the references" survives every event. *)
From Coq Require Import ZArith List Lia Permutation.
From Quire Require Import Paraboloid Fields Word Layouts.
Import ListNotations.
Open Scope Z_scope.

(** What happens. Numbers of pages are [nat]; the batch is one event. *)
Inductive event :=
| Map (id : Z) (n : nat)          (** MM [id] maps n pages *)
| Fork (child : Z) (n : nat)      (** fork shares n page mappings with the child *)
| Unmap (id : Z) (n : nat)        (** MM [id] gives n mappings up, after their flush *)
| Pin (n : nat)                   (** n plain references more *)
| Unpin (n : nat)                 (** n plain references less *)
| Pass (from to : Z) (n : nat)    (** n references of [from] become those of [to] *)
| Split.                          (** a PMD leaf becomes 512 PTEs, or a PUD leaf 512 PMDs *)

(** What it does to the references. Which comes first does not matter: [Permutation]. Only what is there can go. *)
Inductive happens : list Z -> event -> list Z -> Prop :=
| maps refs id n : happens refs (Map id n) (repeat id n ++ refs)
| forks refs id n : happens refs (Fork id n) (repeat id n ++ refs)
| unmaps refs id n rest : Permutation refs (repeat id n ++ rest) -> happens refs (Unmap id n) rest
| pins refs n : happens refs (Pin n) (repeat 0 n ++ refs)
| unpins refs n rest : Permutation refs (repeat 0 n ++ rest) -> happens refs (Unpin n) rest
| passes refs from to n rest :
    Permutation refs (repeat from n ++ rest) -> happens refs (Pass from to n) (repeat to n ++ rest)
| splits refs : happens refs Split refs.

Section Events.
Variable L : Layout.

(** What it adds to the word: one wrapping addition for each event, and none for a split. *)
Definition change (e : event) : Z :=
  match e with
  | Map id n | Fork id n => Z.of_nat n * K L id
  | Unmap id n => - (Z.of_nat n * K L id)
  | Pin n => Z.of_nat n * K L 0
  | Unpin n => - (Z.of_nat n * K L 0)
  | Pass from to n => Z.of_nat n * (K L to - K L from)
  | Split => 0
  end.

Definition step (w : Z) (e : event) : Z := wrap L (w + change e).

Lemma sum_permutation u v : Permutation u v -> sum L u = sum L v.
Proof.
  induction 1 as [|x u v _ IH|x y u|u v t _ IH1 _ IH2]; cbn [sum fold_right] in *;
    repeat match goal with |- context [fold_right (fun x s => K L x + s) 0 ?l] => fold (sum L l) end; try lia.
Qed.

(** The sum follows each event. *)
Lemma sum_happens refs e refs' : happens refs e refs' -> sum L refs' = sum L refs + change e.
Proof.
  destruct 1 as [refs id n|refs id n|refs id n rest H|refs n|refs n rest H|refs from to n rest H|refs]; cbn [change];
    try (apply sum_permutation in H; rewrite H); rewrite ?sum_app, ?sum_repeat; try lia.
Qed.

Lemma wrap_add x y : 0 <= word_bits L -> wrap L (wrap L x + y) = wrap L (x + y).
Proof. intros. unfold wrap. apply Zplus_mod_idemp_l. Qed.

(** One event keeps "the word is the sum over the references". *)
Theorem event_exact refs e refs' :
  0 <= word_bits L -> happens refs e refs' -> step (word L refs) e = word L refs'.
Proof.
  intros Hb H. unfold step, word. rewrite wrap_add by auto. now rewrite (sum_happens refs e refs').
Qed.

(** So does every history, however many references there were on the way: addition forgets nothing, even where it wraps. *)
Inductive history : list Z -> list event -> list Z -> Prop :=
| nothing refs : history refs [] refs
| then_ refs e refs' es refs'' : happens refs e refs' -> history refs' es refs'' -> history refs (e :: es) refs''.

Theorem history_exact es : forall refs refs',
  0 <= word_bits L -> history refs es refs' -> fold_left step es (word L refs) = word L refs'.
Proof.
  induction es as [|e es IH]; intros refs refs' Hb H; inversion H; subst; [reflexivity|].
  cbn [fold_left]. rewrite (event_exact refs e refs'0) by auto. auto.
Qed.

(** The word does not depend on how the references came about. *)
Corollary word_of_multiset u v : Permutation u v -> word L u = word L v.
Proof. intros H. unfold word. now rewrite (sum_permutation u v). Qed.

(** *** Page-table entries *)

(** A leaf entry of MM [id] that maps a part of the folio, at the three levels; each level is 512 of the one below. *)
Inductive entry := Pte (id : Z) | Pmd (id : Z) | Pud (id : Z).

Definition who (e : entry) : Z := match e with Pte id | Pmd id | Pud id => id end.

(** The references that an entry is. *)
Definition references_of (e : entry) : list Z :=
  match e with
  | Pte id => [id]
  | Pmd id => repeat id 512
  | Pud id => repeat id (512 * 512)
  end.

Lemma who_in e : In (who e) (references_of e).
Proof.
  assert (H : forall (x : Z) n, n <> 0%nat -> In x (repeat x n)) by (intros x [|n] Hn; [congruence | left; reflexivity]).
  destruct e as [id|id|id]; unfold who, references_of; [left; reflexivity | apply H | apply H].
  - discriminate.
  - intros E. apply Nat.eq_mul_0 in E. destruct E; discriminate.
Qed.

(** Splitting a leaf into leaves of the level below is no change of the references at all. *)
Theorem split_pmd id : flat_map references_of (repeat (Pte id) 512) = references_of (Pmd id).
Proof. reflexivity. Qed.

Theorem split_pud id : flat_map references_of (repeat (Pmd id) 512) = references_of (Pud id).
Proof.
  assert (E : forall n, flat_map references_of (repeat (Pmd id) n) = repeat id (n * 512)).
  { induction n as [|n IH]; [reflexivity|]. cbn [repeat flat_map]. rewrite IH. cbn [references_of].
    rewrite <- repeat_app. reflexivity. }
  apply E.
Qed.

End Events.

(** ** What a program may conclude *)

(** The folio began with nothing; some events happened; now the word says "exclusive to [id]". Then whatever entry is among
    the references is one of [id], and there is no plain reference. *)
Theorem nobody_else L n es refs entries others id :
  sound L = true -> n <= pages L -> bounded L refs -> Forall (is_id L) refs -> is_id L id ->
  history [] es refs -> Permutation refs (flat_map references_of entries ++ others) ->
  exclusive L n (fold_left (step L) es 0) id = true ->
  Forall (fun e => who e = id) entries /\ Forall (eq id) others.
Proof.
  intros S Hn Hb Hrefs Hid Hh Hp Hx.
  assert (E : fold_left (step L) es 0 = word L refs).
  { assert (E0 : word L [] = 0) by exact (Zmod_0_l (2 ^ word_bits L)). rewrite <- E0.
    apply history_exact; auto. pose proof (r_below _ S). pose proof (r_nonneg _ S). lia. }
  rewrite E in Hx. apply (exclusive_exact _ S) in Hx; auto. destruct Hx as [_ [_ H]].
  assert (H' : Forall (eq id) (flat_map references_of entries ++ others)).
  { rewrite Forall_forall in *. intros x Hx. apply H. eapply Permutation_in; [symmetry; exact Hp | exact Hx]. }
  apply Forall_app in H'. destruct H' as [He Ho]. split; auto.
  rewrite Forall_forall in *. intros e Hin. symmetry. apply He. apply in_flat_map. exists e. split; auto.
  apply who_in.
Qed.
