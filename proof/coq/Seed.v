(** The older scheme of a count of mappings and several values: where it is right, and a case where its first form is not.

    Each value of a folio is the sum, over all mappings, of some bits of the mapper's id read as digits to the base P + 1, in 64
    bits. A folio of up to P pages is taken for exclusive to an id when each value is the count times the id's.
    As points, bits are the corners of a cube, and those too are in convex position. The kernel has the scheme as
    `account=digits` (kernel/own/src/digits.rs). *)
From Coq Require Import ZArith List Lia Bool.
From Quire Require Import Paraboloid Fields.
Import ListNotations.
Open Scope Z_scope.

(** ** The scheme *)

(** Digits to a base, lowest first. *)
Fixpoint number_of (base : Z) (digits : list Z) : Z :=
  match digits with
  | d :: digits => d + base * number_of base digits
  | [] => 0
  end.

(** The [n] bits of an id that value [i] is about, and its sub-id: the same bits read to the base. *)
Definition corner (n i : nat) (id : Z) : list Z := unpack (repeat 1 n) (id / 2 ^ (Z.of_nat n * Z.of_nat i)).
Definition subid (base : Z) (n i : nat) (id : Z) : Z := number_of base (corner n i id).

(** Value [i]: a sum modulo 2^64. *)
Definition value (base : Z) (n i : nat) (maps : list Z) : Z :=
  fold_right (fun id s => subid base n i id + s) 0 maps mod 2 ^ 64.

(** What is asked, of [v] values. *)
Definition exclusive (base : Z) (n v : nat) (maps : list Z) (id : Z) : bool :=
  forallb (fun i => value base n i maps =? (number maps * subid base n i id) mod 2 ^ 64) (seq 0 v).

(** ** Where it is right *)

Lemma number_plus base u : forall w, length u = length w -> number_of base (plus u w) = number_of base u + number_of base w.
Proof.
  induction u as [|x u IH]; intros [|y w] H; simpl in *; try congruence; try lia. rewrite IH by congruence. lia.
Qed.

Lemma number_scale base m u : number_of base (scale m u) = m * number_of base u.
Proof. unfold scale. induction u as [|x u IH]; simpl; [lia|]. rewrite IH. lia. Qed.

Lemma number_zero base k : number_of base (zero k) = 0.
Proof. unfold zero. induction k as [|k IH]; simpl; [reflexivity|]. rewrite IH. lia. Qed.

Definition below (base : Z) (u : list Z) : Prop := Forall (fun x => 0 <= x < base) u.

Lemma number_range base u : 0 < base -> below base u -> 0 <= number_of base u < base ^ Z.of_nat (length u).
Proof.
  intros Hb. induction 1 as [|x u Hx _ IH]; [simpl; lia|].
  cbn [number_of length]. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. nia.
Qed.

Lemma number_injective base u : 0 < base -> below base u -> forall w, below base w -> length u = length w ->
  number_of base u = number_of base w -> u = w.
Proof.
  intros Hb. induction 1 as [|x u Hx Hu IH]; intros [|y w] Hw Hl E; simpl in *; try congruence.
  inversion Hw as [|? ? Hy Hw']; subst.
  assert (x = y).
  { apply (f_equal (fun s => s mod base)) in E. rewrite !(Z.mul_comm base) in E. rewrite !Z.mod_add in E by lia.
    rewrite !Z.mod_small in E by lia. exact E. }
  subst. f_equal. apply IH; auto. nia.
Qed.

Lemma ones n : widths_ok (repeat 1 n).
Proof. apply Forall_forall. intros x Hx. apply repeat_spec in Hx. lia. Qed.

Lemma corner_length n i id : length (corner n i id) = n.
Proof. unfold corner. rewrite unpack_length. apply repeat_length. Qed.

(** Coordinates of corners are 0 and 1, so a corner's squared length is the sum of its coordinates. *)
Lemma corner_bits n i id : Forall (fun x => x = 0 \/ x = 1) (corner n i id).
Proof.
  unfold corner. generalize (id / 2 ^ (Z.of_nat n * Z.of_nat i)).
  induction n as [|n IH]; intros w; cbn [repeat unpack]; constructor; auto.
  change (2 ^ 1) with 2. pose proof (Z.mod_pos_bound w 2 ltac:(lia)). lia.
Qed.

Lemma corner_square u : Forall (fun x => x = 0 \/ x = 1) u -> square u = number_of 1 u.
Proof. unfold square. induction 1 as [|x u [->| ->] _ IH]; simpl; lia. Qed.

Lemma corner_squares n i maps :
  squares (map (corner n i) maps) = number_of 1 (total n (map (corner n i) maps)).
Proof.
  induction maps as [|id maps IH].
  - cbn. now rewrite number_zero.
  - cbn [map]. rewrite squares_cons, total_cons, IH, number_plus, corner_square; auto using corner_bits.
    rewrite corner_length, total_length; auto. apply Forall_map, Forall_forall. intros. apply corner_length.
Qed.

(** Bit by bit, the sum is at most the number of mappings. *)
Lemma corners_below n i maps base : number maps < base -> below base (total n (map (corner n i) maps)).
Proof.
  assert (H : Forall (fun x => 0 <= x <= number maps) (total n (map (corner n i) maps))).
  { induction maps as [|id maps IH].
    - unfold total. simpl. apply Forall_forall. intros x Hx. apply repeat_spec in Hx. unfold number. simpl. lia.
    - cbn [map]. rewrite total_cons, number_cons. pose proof (corner_bits n i id) as Hc. revert IH.
      generalize (total n (map (corner n i) maps)). induction Hc as [|x u Hx _ IHu]; intros [|y w] Hw; simpl; constructor.
      + inversion Hw; subst. lia.
      + inversion Hw; subst. auto. }
  intros Hb. eapply Forall_impl; [|exact H]. cbn. intros; lia.
Qed.

Lemma scaled_below n i id m base : 0 <= m < base -> below base (scale m (corner n i id)).
Proof.
  intros Hm. unfold scale. apply Forall_map. eapply Forall_impl; [|apply corner_bits]. cbn. intros x [->| ->]; lia.
Qed.

Lemma value_number base n i maps :
  fold_right (fun id s => subid base n i id + s) 0 maps = number_of base (total n (map (corner n i) maps)).
Proof.
  induction maps as [|id maps IH].
  - cbn. now rewrite number_zero.
  - cbn [fold_right map]. rewrite IH, total_cons, number_plus; [reflexivity|].
    rewrite corner_length, total_length; auto. apply Forall_map, Forall_forall. intros. apply corner_length.
Qed.

(** One value that agrees: all mappings are by ids with the same bits there. *)
Lemma value_exact base n i maps id :
  number maps < base -> base ^ Z.of_nat n <= 2 ^ 64 ->
  value base n i maps = (number maps * subid base n i id) mod 2 ^ 64 ->
  Forall (eq (corner n i id)) (map (corner n i) maps).
Proof.
  intros Hp Hroom E. pose proof (number_nonneg maps) as Hn.
  assert (Hlen : of_length n (map (corner n i) maps)) by (apply Forall_map, Forall_forall; intros; apply corner_length).
  unfold value in E. rewrite value_number in E. unfold subid in E. rewrite <- number_scale in E.
  pose proof (number_range base _ ltac:(lia) (corners_below n i maps base Hp)) as R1.
  pose proof (number_range base _ ltac:(lia) (scaled_below n i id (number maps) base ltac:(lia))) as R2.
  rewrite total_length in R1 by auto. rewrite scale_length, corner_length in R2.
  rewrite !Z.mod_small in E by lia.
  apply number_injective in E; [| lia | apply corners_below; auto | apply scaled_below; lia |].
  2: { rewrite total_length, scale_length, corner_length; auto. }
  apply (convexity n); auto using corner_length.
  - rewrite number_map. exact E.
  - rewrite corner_squares, number_map, E, number_scale, corner_square; auto using corner_bits.
Qed.

Lemma pack_unpack_mod ws : widths_ok ws -> forall w, pack ws (unpack ws w) = w mod 2 ^ bits ws.
Proof.
  induction 1 as [|b ws Hb Hw IH]; intros w.
  - cbn. now rewrite Z.mod_1_r.
  - cbn [pack unpack]. rewrite IH, pow_bits_cons by auto.
    rewrite Z.rem_mul_r; auto.
    + pose proof (pow_pos b Hb). lia.
    + apply pow_pos, bits_nonneg, Hw.
Qed.

Lemma bits_repeat (b : Z) n : bits (repeat b n) = b * Z.of_nat n.
Proof. induction n as [|n IH]; [cbn; lia|]. cbn [repeat bits fold_right]. fold (bits (repeat b n)). rewrite IH. lia. Qed.

Lemma firstn_repeat (b : Z) n i : (i <= n)%nat -> firstn i (repeat b n) = repeat b i.
Proof. revert i. induction n as [|n IH]; intros [|i] H; simpl; auto; [lia|]. rewrite IH by lia. reflexivity. Qed.

(** All bits together are the id. *)
Lemma same_corners n v x y :
  0 <= x < 2 ^ (Z.of_nat n * Z.of_nat v) -> 0 <= y < 2 ^ (Z.of_nat n * Z.of_nat v) ->
  (forall i, (i < v)%nat -> corner n i x = corner n i y) -> x = y.
Proof.
  intros Hx Hy H. set (ws := repeat (Z.of_nat n) v).
  assert (Hw : widths_ok ws) by (apply Forall_forall; intros b Hb; apply repeat_spec in Hb; lia).
  assert (Hb : bits ws = Z.of_nat n * Z.of_nat v) by apply bits_repeat.
  rewrite <- (pack_unpack ws Hw x), <- (pack_unpack ws Hw y) by (rewrite Hb; auto). f_equal.
  apply nth_ext with 0 0; [now rewrite !unpack_length|]. rewrite unpack_length. unfold ws at 1. rewrite repeat_length.
  intros i Hi. rewrite !unpack_nth by (auto; unfold ws; rewrite repeat_length; auto).
  unfold ws. rewrite firstn_repeat, bits_repeat by lia.
  replace (nth i (repeat (Z.of_nat n) v) 0) with (Z.of_nat n)
    by (symmetry; apply (repeat_spec v), nth_In; rewrite repeat_length; auto).
  specialize (H i Hi). unfold corner in H. apply (f_equal (pack (repeat 1 n))) in H.
  rewrite !pack_unpack_mod, bits_repeat, Z.mul_1_l in H by apply ones. exact H.
Qed.

(** With enough bits in all values together, and P + 1 to the bits of one no more than 2^64, up to P mappings are told apart. *)
Theorem digits_exact (P : Z) (n v : nat) maps id :
  (P + 1) ^ Z.of_nat n <= 2 ^ 64 -> number maps <= P ->
  Forall (fun x => 0 <= x < 2 ^ (Z.of_nat n * Z.of_nat v)) maps -> 0 <= id < 2 ^ (Z.of_nat n * Z.of_nat v) ->
  exclusive (P + 1) n v maps id = true <-> Forall (eq id) maps.
Proof.
  intros Hroom Hp Hmaps Hid. unfold exclusive. rewrite forallb_forall. split.
  - intros H. rewrite Forall_forall in *. intros x Hx. apply (same_corners n v); auto.
    intros i Hi. assert (Hi' : In i (seq 0 v)) by (apply in_seq; lia).
    specialize (H i Hi'). apply Z.eqb_eq in H. apply value_exact in H; auto; [|lia].
    rewrite Forall_forall in H. apply H, in_map, Hx.
  - intros H i _. apply Z.eqb_eq. unfold value. f_equal.
    induction H as [|x maps <- _ IH]; [reflexivity|]. inversion Hmaps; subst.
    rewrite number_cons in *. cbn [fold_right]. rewrite IH; auto; lia.
Qed.

(** The forms that the kernel uses, from the largest order of each, the bits of a value and the number of values; a test in
    kernel/own/src/digits.rs compares them with its own. *)
Definition form_fits (order : Z) (n v : nat) : bool :=
  ((2 ^ order + 1) ^ Z.of_nat n <=? 2 ^ 64) && (15 <=? Z.of_nat n * Z.of_nat v).

Theorem kernel_forms_fit :
  form_fits 2 24 1 && form_fits 5 12 2 && form_fits 9 7 3 && form_fits 10 6 4 && form_fits 12 5 5 && form_fits 15 4 6 = true.
Proof. vm_compute. reflexivity. Qed.

Theorem kernel_digits order n v maps id :
  form_fits order n v = true -> number maps <= 2 ^ order ->
  Forall (fun x => 0 <= x <= 32767) maps -> 0 <= id <= 32767 ->
  exclusive (2 ^ order + 1) n v maps id = true <-> Forall (eq id) maps.
Proof.
  unfold form_fits. rewrite andb_true_iff, !Z.leb_le. intros [Hroom Hbits] Hp Hmaps Hid.
  assert (H : 2 ^ 15 <= 2 ^ (Z.of_nat n * Z.of_nat v)) by (apply Z.pow_le_mono_r; lia).
  change (2 ^ 15) with 32768 in H.
  apply digits_exact; auto; [|lia]. eapply Forall_impl; [|exact Hmaps]. cbn. intros; lia.
Qed.

(** ** Where it is not *)

(** The first form took 8 bits to a value for folios of 128 to 512 pages. There is no room: *)
Theorem too_tight : 2 * (513 - 1) ^ 7 = 2 ^ 64 /\ 2 ^ 64 < 513 ^ 8.
Proof. split; reflexivity. Qed.

(** Five address spaces map 71 pages of a folio of order 7 to 9. *)
Definition vector : list Z :=
  repeat 0x155 1 ++ repeat 0x12b 12 ++ repeat 0x14d 28 ++ repeat 0x169 28 ++ repeat 0x1aa 2.

Theorem seed_collides : exclusive 513 8 3 vector 0x155 = true /\ number vector = 71 /\ In 0x12b vector.
Proof. split; [|split]; [vm_compute; reflexivity | reflexivity | vm_compute; auto]. Qed.

(** 7 bits tell it apart. *)
Theorem seven_bits_do_not : exclusive 513 7 3 vector 0x155 = false.
Proof. vm_compute. reflexivity. Qed.
