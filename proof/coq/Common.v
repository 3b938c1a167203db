(** Address spaces beyond the ids share the last one, [common]. What the word then says of a space with an id of its own, and
    what the number of references says of one without: kernel/own/src/ids.rs, and [Account::exclusive_but] in lib.rs. *)
From Coq Require Import ZArith List Lia Bool Permutation.
From Quire Require Import Paraboloid Fields Word Layouts.
Import ListNotations.
Open Scope Z_scope.

(** The highest id. *)
Definition common : Z := 32767.

(** Who has which id at one moment: [0] stands for plain references, and no two spaces have one id but [common]. *)
Definition naming (name : Z -> Z) : Prop :=
  name 0 = 0 /\ (forall s, 0 < s -> 0 < name s <= common) /\ (forall s t, 0 <= s -> 0 <= t -> name s = name t -> name s < common -> s = t).

Section Common.
Variable name : Z -> Z.
Hypothesis Hname : naming name.

Lemma named s : 0 <= s -> mm_id (name s).
Proof.
  intros Hs. destruct Hname as [H0 [Hpos _]]. unfold mm_id. destruct (Z.eq_dec s 0) as [->|Hne]; [lia|].
  specialize (Hpos s ltac:(lia)). unfold common in Hpos. lia.
Qed.

Lemma all_named spaces : Forall (Z.le 0) spaces -> Forall mm_id (map name spaces).
Proof. intros H. apply Forall_map. eapply Forall_impl; [|exact H]. exact named. Qed.

Lemma same_space s spaces :
  0 <= s -> name s < common -> Forall (Z.le 0) spaces -> Forall (eq (name s)) (map name spaces) <-> Forall (eq s) spaces.
Proof.
  intros Hs Hu Hall. destruct Hname as [_ [_ Hinj]]. rewrite Forall_map, !Forall_forall. rewrite Forall_forall in Hall. split.
  - intros H t Ht. apply Hinj; auto.
  - intros H t Ht. now rewrite (H t Ht).
Qed.

(** A space with an id of its own is told from all others, also from those that share one. *)
Theorem narrow_unique n spaces s :
  n <= 16 -> bounded narrow (map name spaces) -> Forall (Z.le 0) spaces -> 0 <= s -> name s < common ->
  exclusive narrow n (word narrow (map name spaces)) (name s) = true
    <-> spaces <> [] /\ number spaces <= n /\ Forall (eq s) spaces.
Proof.
  intros Hn Hb Hall Hs Hu. rewrite narrow_exclusive by auto using all_named, named.
  rewrite same_space by auto. rewrite number_map.
  assert (E : map name spaces <> [] <-> spaces <> []) by (destruct spaces; cbn; split; congruence). now rewrite E.
Qed.

Theorem wide_unique n spaces s :
  n <= 2 ^ 15 -> bounded wide (map name spaces) -> Forall (Z.le 0) spaces -> 0 <= s -> name s < common ->
  exclusive wide n (word wide (map name spaces)) (name s) = true
    <-> spaces <> [] /\ number spaces <= n /\ Forall (eq s) spaces.
Proof.
  intros Hn Hb Hall Hs Hu. rewrite wide_exclusive by auto using all_named, named.
  rewrite same_space by auto. rewrite number_map.
  assert (E : map name spaces <> [] <-> spaces <> []) by (destruct spaces; cbn; split; congruence). now rewrite E.
Qed.

(** One that shares its id, and maps the folio, has it for itself when the references are one more than the plain ones it
    knows of: nothing else is there. Which scheme counts them does not matter. *)
Theorem one_is_the_askers spaces s plain :
  In s spaces -> s <> 0 -> Z.of_nat plain <= times 0 spaces -> number spaces <= Z.of_nat plain + 1 ->
  Permutation spaces (s :: repeat 0 plain).
Proof.
  intros Hin Hs Hplain Hn. destruct (in_split _ _ Hin) as [before [after ->]].
  assert (Hp : Permutation (before ++ s :: after) (s :: before ++ after)) by (symmetry; apply Permutation_middle).
  set (rest := before ++ after) in *.
  assert (Hc : times 0 (before ++ s :: after) = times 0 rest).
  { unfold times. rewrite (proj1 (Permutation_count_occ Z.eq_dec _ _) Hp 0). now rewrite count_occ_cons_neq. }
  assert (Hl : number (before ++ s :: after) = number rest + 1).
  { unfold number. rewrite (Permutation_length Hp). cbn [length]. lia. }
  assert (Hbound : (count_occ Z.eq_dec rest 0%Z <= length rest)%nat) by apply count_occ_bound.
  unfold times, number in *. assert (E : length rest = plain) by lia.
  assert (Hz : rest = repeat 0 (length rest)).
  { apply (count_occ_unique Z.eq_dec). lia. }
  rewrite Hp, Hz, E. reflexivity.
Qed.

(** R says how many there are, or more. *)
Corollary narrow_common spaces s plain :
  bounded narrow (map name spaces) -> In s spaces -> s <> 0 -> Z.of_nat plain <= times 0 spaces ->
  R narrow (word narrow (map name spaces)) = Z.of_nat plain + 1 -> Permutation spaces (s :: repeat 0 plain).
Proof.
  intros Hb Hin Hs Hplain HR. apply one_is_the_askers; auto.
  pose proof (references _ narrow_sound _ Hb) as [Hle _]. rewrite number_map in Hle. lia.
Qed.

Corollary wide_common spaces s plain :
  bounded wide (map name spaces) -> In s spaces -> s <> 0 -> Z.of_nat plain <= times 0 spaces ->
  R wide (word wide (map name spaces)) = Z.of_nat plain + 1 -> Permutation spaces (s :: repeat 0 plain).
Proof.
  intros Hb Hin Hs Hplain HR. apply one_is_the_askers; auto.
  pose proof (references _ wide_sound _ Hb) as [Hle _]. rewrite number_map in Hle. lia.
Qed.

(** The kernel has at most 61440 spaces. All of them may map all pages of a folio, and the words have room for as many plain
    references again. *)
Theorem narrow_spaces spaces :
  Forall (fun s => 0 <= s <= 61440) spaces -> (forall s, 0 < s -> times s spaces <= 16) -> times 0 spaces <= 990750 ->
  bounded narrow (map name spaces).
Proof.
  intros Hall Hmany Hplain. apply narrow_bound. rewrite number_map.
  destruct (some_nat 61440 ltac:(lia)) as [last Hlast].
  assert (number spaces <= Z.of_nat last * 16 + 990750).
  { apply number_by_id; [lia | | exact Hmany | exact Hplain]. eapply Forall_impl; [|exact Hall]. cbn. intros; lia. }
  lia.
Qed.

(** Without plain references they do not even make the kernel keep the folio for ever ([narrow_warned]). *)
Theorem narrow_spaces_unwarned spaces :
  Forall (fun s => 0 <= s <= 61440) spaces -> (forall s, 0 < s -> times s spaces <= 16) -> times 0 spaces <= 3854 ->
  sum narrow (map name spaces) < 2 ^ 63.
Proof.
  intros Hall Hmany Hplain. destruct (Z_lt_le_dec (sum narrow (map name spaces)) (2 ^ 63)) as [H|H]; [exact H|].
  apply narrow_warned in H. rewrite number_map in H. destruct (some_nat 61440 ltac:(lia)) as [last Hlast].
  assert (number spaces <= Z.of_nat last * 16 + 3854).
  { apply number_by_id; [lia | | exact Hmany | exact Hplain]. eapply Forall_impl; [|exact Hall]. cbn. intros; lia. }
  lia.
Qed.

Theorem wide_spaces spaces :
  Forall (fun s => 0 <= s <= 61440) spaces -> (forall s, 0 < s -> times s spaces <= 2 ^ 15) -> times 0 spaces <= 2 ^ 39 ->
  bounded wide (map name spaces).
Proof.
  intros Hall Hmany Hplain. apply wide_bound. rewrite number_map.
  destruct (some_nat 61440 ltac:(lia)) as [last Hlast].
  assert (number spaces <= Z.of_nat last * 2 ^ 15 + 2 ^ 39).
  { apply number_by_id; [lia | | exact Hmany | exact Hplain]. eapply Forall_impl; [|exact Hall]. cbn. intros; lia. }
  lia.
Qed.

End Common.

(** Why the sum of an id that is shared says nothing: two spaces have one page each, and the word is that of one with two. *)
Example two_spaces : exclusive narrow 16 (word narrow [common; common]) common = true. Proof. reflexivity. Qed.
