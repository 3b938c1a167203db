(** The two words that the kernel uses, and the theorems for them. *)
From Coq Require Import ZArith List Lia Bool.
From Quire Require Import Paraboloid Fields Word.
Import ListNotations.
Open Scope Z_scope.

(** A word of [bits]; ids of [n] digits of [digit] bits each; D_j of [sum] bits, Q of [squares]; up to 2^[order] pages. *)
Definition layout (bits n digit sum squares order : Z) : Layout := {|
  word_bits := bits;
  digit_bits := repeat digit (Z.to_nat n);
  digit_fields := repeat sum (Z.to_nat n);
  square_field := squares;
  pages := 2 ^ order
|}.

(** The constants of kernel/own/src/unified.rs; a test there compares these two lines, and the weights below, with its own. *)
Definition narrow := layout 64 3 5 9 16 4.
Definition wide := layout 128 2 8 24 40 15.

Example narrow_weight_plain : K narrow 0 = 8796093022208. Proof. reflexivity. Qed.
Example narrow_weight_first : K narrow 1 = 8796227239937. Proof. reflexivity. Qed.
Example narrow_weight_last : K narrow 32767 = 9183050874399. Proof. reflexivity. Qed.
Example wide_weight_plain : K wide 0 = 309485009821345068724781056. Proof. reflexivity. Qed.
Example wide_weight_first : K wide 1 = 309485009821626543701491713. Proof. reflexivity. Qed.
Example wide_weight_last : K wide 32767 = 309485032664165330832064767. Proof. reflexivity. Qed.

(** What an address space may have as its id, and 0. *)
Definition mm_id (id : Z) : Prop := 0 <= id <= 32767.

(** K as the design writes it. *)
Theorem narrow_formula a1 a2 a3 :
  0 <= a1 < 2 ^ 5 -> 0 <= a2 < 2 ^ 5 -> 0 <= a3 < 2 ^ 5 ->
  K narrow (a1 + 2 ^ 5 * a2 + 2 ^ 10 * a3)
    = 2 ^ 43 + (a1 * a1 + a2 * a2 + a3 * a3) * 2 ^ 27 + a1 + a2 * 2 ^ 9 + a3 * 2 ^ 18.
Proof.
  intros H1 H2 H3. set (id := a1 + 2 ^ 5 * a2 + 2 ^ 10 * a3).
  assert (E : digits narrow id = [a1; a2; a3]).
  { unfold digits. change (digit_bits narrow) with [5; 5; 5].
    rewrite <- (unpack_pack [5; 5; 5] [a1; a2; a3] 0); [f_equal; unfold id; cbn [pack]; lia | |];
      repeat constructor; lia. }
  unfold K, point, lift. rewrite E. change (r narrow) with 43. change (low narrow) with [9; 9; 9; 16].
  unfold square. cbn [app dot pack]. lia.
Qed.

Theorem wide_formula a1 a2 :
  0 <= a1 < 2 ^ 8 -> 0 <= a2 < 2 ^ 8 ->
  K wide (a1 + 2 ^ 8 * a2) = 2 ^ 88 + (a1 * a1 + a2 * a2) * 2 ^ 48 + a1 + a2 * 2 ^ 24.
Proof.
  intros H1 H2. set (id := a1 + 2 ^ 8 * a2).
  assert (E : digits wide id = [a1; a2]).
  { unfold digits. change (digit_bits wide) with [8; 8].
    rewrite <- (unpack_pack [8; 8] [a1; a2] 0); [f_equal; unfold id; cbn [pack]; lia | |];
      repeat constructor; lia. }
  unfold K, point, lift. rewrite E. change (r wide) with 88. change (low wide) with [24; 24; 40].
  unfold square. cbn [app dot pack]. lia.
Qed.

Lemma narrow_sound : sound narrow = true.
Proof. vm_compute. reflexivity. Qed.

Lemma wide_sound : sound wide = true.
Proof. vm_compute. reflexivity. Qed.

Lemma narrow_ids id : mm_id id -> is_id narrow id.
Proof. unfold mm_id, is_id. change (bits (digit_bits narrow)) with 15. lia. Qed.

Lemma wide_ids id : mm_id id -> is_id wide id.
Proof. unfold mm_id, is_id. change (bits (digit_bits wide)) with 16. lia. Qed.

(** ** How many references there may be *)

(** The exact bound is that the sum of the weights stays below 2^64 or 2^128 ([bounded]). So many references always do: *)
Theorem narrow_bound refs : number refs <= 1973790 -> bounded narrow refs.
Proof. intros H. apply (enough_bits _ narrow_sound). change (number refs * 17 <= 16 * 2 ^ 21). lia. Qed.

Theorem wide_bound refs : number refs <= 2 ^ 40 - 2 ^ 25 -> bounded wide refs.
Proof. intros H. apply (enough_bits _ wide_sound). change (number refs * 32769 <= 32768 * 2 ^ 40). lia. Qed.

(** How often an id occurs among the references. *)
Definition times (id : Z) (refs : list Z) : Z := Z.of_nat (count_occ Z.eq_dec refs id).

Lemma number_by_id (m c : Z) : 0 <= m -> forall n refs,
  Forall (fun x => 0 <= x <= Z.of_nat n) refs ->
  (forall id, 0 < id -> times id refs <= m) -> times 0 refs <= c ->
  number refs <= Z.of_nat n * m + c.
Proof.
  intros Hm. induction n as [|n IH]; intros refs Hids Hmany Hplain.
  - assert (E : forall l, Forall (fun x => 0 <= x <= Z.of_nat 0) l -> number l = times 0 l).
    { clear. unfold number, times. induction 1 as [|x l Hx _ IH]; [reflexivity|].
      assert (x = 0) as -> by lia. simpl. lia. }
    rewrite E by auto. lia.
  - (* Take the references of the highest id away. *)
    set (top := Z.of_nat (S n)).
    set (rest := filter (fun x => negb (x =? top)) refs).
    assert (En : number refs = number rest + times top refs).
    { unfold rest, number, times. clear. induction refs as [|x l IH]; [reflexivity|]. simpl.
      destruct (Z.eq_dec x top) as [->|H].
      - rewrite Z.eqb_refl. simpl. lia.
      - apply Z.eqb_neq in H. rewrite H. simpl. lia. }
    assert (Et : forall id, times id rest <= times id refs).
    { unfold rest, times. intros id. clear. induction refs as [|x l IH]; [simpl; lia|]. simpl.
      destruct (x =? top); simpl; destruct (Z.eq_dec x id); lia. }
    assert (Hr : number rest <= Z.of_nat n * m + c).
    { apply IH.
      - unfold rest. apply Forall_forall. intros x Hx. apply filter_In in Hx. destruct Hx as [Hx Hne].
        rewrite Forall_forall in Hids. specialize (Hids x Hx). apply negb_true_iff, Z.eqb_neq in Hne. lia.
      - intros id Hid. specialize (Et id). specialize (Hmany id Hid). lia.
      - specialize (Et 0). lia. }
    assert (0 < top) by lia. specialize (Hmany top H). nia.
Qed.

Lemma some_nat z : 0 <= z -> exists n, Z.of_nat n = z.
Proof. intros H. exists (Z.to_nat z). apply Z2Nat.id, H. Qed.

(** Every address space may map all pages of the folio at once, and there is still room for a million plain references. *)
Theorem narrow_mms refs :
  Forall mm_id refs -> (forall id, 0 < id -> times id refs <= 16) -> times 0 refs <= 2 ^ 20 -> bounded narrow refs.
Proof.
  intros Hids Hmany Hplain. apply narrow_bound.
  destruct (some_nat 32767 ltac:(lia)) as [last Hlast].
  assert (number refs <= Z.of_nat last * 16 + 2 ^ 20).
  { apply number_by_id; [lia | | exact Hmany | exact Hplain]. eapply Forall_impl; [|exact Hids]. unfold mm_id. intros; lia. }
  lia.
Qed.

Theorem wide_mms refs :
  Forall mm_id refs -> (forall id, 0 < id -> times id refs <= 2 ^ 15) -> times 0 refs <= 2 ^ 39 -> bounded wide refs.
Proof.
  intros Hids Hmany Hplain. apply wide_bound.
  destruct (some_nat 32767 ltac:(lia)) as [last Hlast].
  assert (number refs <= Z.of_nat last * 2 ^ 15 + 2 ^ 39).
  { apply number_by_id; [lia | | exact Hmany | exact Hplain]. eapply Forall_impl; [|exact Hids]. unfold mm_id. intros; lia. }
  lia.
Qed.

(** The wide word has room to spare: its R is the number of references up to 13 million of them. *)
Theorem wide_counts refs : Forall mm_id refs -> number refs <= 13000000 -> R wide (word wide refs) = number refs.
Proof.
  intros Hids Hn. set (M := 255 + 127 * 2 ^ 24 + (255 * 255 + 127 * 127) * 2 ^ 48).
  assert (Hk : forall x, mm_id x -> 2 ^ 88 <= K wide x <= 2 ^ 88 + M).
  { intros x Hx. unfold mm_id in Hx. pose proof (Z.div_mod x 256 ltac:(lia)) as E.
    pose proof (Z.mod_pos_bound x 256 ltac:(lia)) as H1.
    assert (H2 : 0 <= x / 256 <= 127) by (split; [apply Z.div_pos; lia | apply Z.lt_succ_r, Z.div_lt_upper_bound; lia]).
    replace x with (x mod 256 + 2 ^ 8 * (x / 256)) by lia. rewrite wide_formula by lia. unfold M.
    set (a := x mod 256) in *. set (b := x / 256) in *.
    assert (0 <= a * a <= 255 * 255) by nia. assert (0 <= b * b <= 127 * 127) by nia. lia. }
  assert (Hs : number refs * 2 ^ 88 <= sum wide refs <= number refs * (2 ^ 88 + M)).
  { clear Hn. induction Hids as [|x l Hx _ IH]; [cbn; lia|]. cbn [sum fold_right]. fold (sum wide l).
    rewrite number_cons. specialize (Hk x Hx). lia. }
  assert (HM : number refs * M < 2 ^ 88) by (unfold M; lia). pose proof (number_nonneg refs).
  rewrite (word_sum _ wide_sound) by (unfold bounded; change (word_bits wide) with 128; lia).
  unfold R. change (r wide) with 88. symmetry. apply Z.div_unique with (sum wide refs - 2 ^ 88 * number refs); lia.
Qed.

(** ** The theorems *)

(** [n] is the number of pages of the folio. *)
Theorem narrow_exclusive n refs id :
  n <= 16 -> bounded narrow refs -> Forall mm_id refs -> mm_id id ->
  exclusive narrow n (word narrow refs) id = true <-> refs <> [] /\ number refs <= n /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs Hid. apply (exclusive_exact _ narrow_sound); auto using narrow_ids.
  eapply Forall_impl; [apply narrow_ids | exact Hrefs].
Qed.

Theorem wide_exclusive n refs id :
  n <= 2 ^ 15 -> bounded wide refs -> Forall mm_id refs -> mm_id id ->
  exclusive wide n (word wide refs) id = true <-> refs <> [] /\ number refs <= n /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs Hid. apply (exclusive_exact _ wide_sound); auto using wide_ids.
  eapply Forall_impl; [apply wide_ids | exact Hrefs].
Qed.

Theorem narrow_owner n refs id :
  n <= 16 -> bounded narrow refs -> Forall mm_id refs ->
  owner narrow n (word narrow refs) = Some id <-> refs <> [] /\ number refs <= n /\ id <> 0 /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs. apply (owner_exact _ narrow_sound); auto.
  eapply Forall_impl; [apply narrow_ids | exact Hrefs].
Qed.

Theorem wide_owner n refs id :
  n <= 2 ^ 15 -> bounded wide refs -> Forall mm_id refs ->
  owner wide n (word wide refs) = Some id <-> refs <> [] /\ number refs <= n /\ id <> 0 /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs. apply (owner_exact _ wide_sound); auto.
  eapply Forall_impl; [apply wide_ids | exact Hrefs].
Qed.

(** The top bit of the word is the kernel's warning that R runs over. It comes in time: while it was clear, a million references
    more (all that CPUs can be in the middle of adding) do not overflow the word. *)
Theorem narrow_warning refs more :
  sum narrow refs < 2 ^ 63 -> number more <= 986895 -> bounded narrow (more ++ refs).
Proof.
  intros Hs Hm. apply (warning _ narrow_sound); [discriminate | exact Hs |].
  change (number more * 17 <= 16 * 2 ^ 20). lia.
Qed.

Theorem wide_warning refs more :
  sum wide refs < 2 ^ 127 -> number more <= 2 ^ 39 - 2 ^ 24 -> bounded wide (more ++ refs).
Proof.
  intros Hs Hm. apply (warning _ wide_sound); [discriminate | exact Hs |].
  change (number more * 32769 <= 32768 * 2 ^ 39). lia.
Qed.

(** It does not come too early: whoever sees it sees more references than a folio has pages. *)
Theorem narrow_warned refs : 2 ^ 63 <= sum narrow refs -> 986895 <= number refs.
Proof. intros H. pose proof (sum_heaviest _ narrow_sound refs) as Hs. change (heaviest narrow) with 9183050874399 in Hs. lia. Qed.

(** The folio is free exactly when the word is 0. *)
Theorem zero_is_free L refs : sound L = true -> bounded L refs -> word L refs = 0 <-> refs = [].
Proof.
  intros S Hb. rewrite (word_sum _ S) by exact Hb. split.
  - destruct refs as [|x l]; auto. cbn [sum fold_right]. fold (sum L l).
    pose proof (sum_heaviest _ S l). pose proof (K_heaviest _ S x). lia.
  - intros ->. reflexivity.
Qed.

(** ** A few words by hand *)

Example two_pages : exclusive narrow 16 (word narrow [5; 5]) 5 = true. Proof. reflexivity. Qed.
Example with_a_pin : exclusive narrow 16 (word narrow [5; 0; 5]) 5 = false. Proof. reflexivity. Qed.
Example a_mean : exclusive narrow 16 (word narrow [4; 6]) 5 = false. Proof. reflexivity. Qed.
Example its_owner : owner narrow 16 (word narrow [777; 777; 777]) = Some 777. Proof. reflexivity. Qed.
Example no_owner : owner narrow 16 (word narrow [777; 778]) = None. Proof. reflexivity. Qed.
Example only_pins : owner narrow 16 (word narrow [0; 0]) = None. Proof. reflexivity. Qed.
Example wide_owner_last : owner wide 512 (word wide (repeat 32767 512)) = Some 32767. Proof. vm_compute. reflexivity. Qed.

(** ** Why the bounds are there *)

Lemma sum_app L u v : sum L (u ++ v) = sum L u + sum L v.
Proof. induction u as [|x u IH]; [reflexivity|]. cbn [app sum fold_right]. fold (sum L (u ++ v)) (sum L u). lia. Qed.

Lemma sum_repeat L id n : sum L (repeat id n) = Z.of_nat n * K L id.
Proof.
  induction n as [|n IH]; [reflexivity|]. cbn [repeat sum fold_right]. fold (sum L (repeat id n)). rewrite IH. lia.
Qed.

(** With 2^21 references too many, R has come round: the word of a page with two million pins and one mapping by MM 5 is that
    of the mapping alone. *)
Theorem overflow_lies : exists refs,
  Forall mm_id refs /\ exclusive narrow 1 (word narrow refs) 5 = true /\ ~ Forall (eq 5) refs.
Proof.
  destruct (some_nat (2 ^ 21) ltac:(lia)) as [many Hmany].
  exists ([5] ++ repeat 0 many). split; [|split].
  - constructor; [unfold mm_id; lia|]. apply Forall_forall. intros x Hx. apply repeat_spec in Hx. subst. unfold mm_id. lia.
  - assert (E : word narrow ([5] ++ repeat 0 many) = K narrow 5).
    { unfold word. rewrite sum_app, sum_repeat, Hmany. vm_compute. reflexivity. }
    rewrite E. vm_compute. reflexivity.
  - intros H. apply Forall_app in H. destruct H as [_ H]. destruct many as [|n]; [lia|]. inversion H. discriminate.
Qed.
