(** Fields of a word: numbers side by side, each with its own width in bits.

    Adding words adds field by field until a field overflows; while none does, the fields can be read back. *)
From Coq Require Import ZArith List Lia.
From Quire Require Import Paraboloid.
Import ListNotations.
Open Scope Z_scope.

(** How many bits the fields have together. *)
Definition bits (widths : list Z) : Z := fold_right Z.add 0 widths.

(** Puts numbers side by side, the first into the lowest bits. *)
Fixpoint pack (widths fields : list Z) : Z :=
  match widths, fields with
  | b :: widths, f :: fields => f + 2 ^ b * pack widths fields
  | _, _ => 0
  end.

(** Reads fields from a word. *)
Fixpoint unpack (widths : list Z) (w : Z) : list Z :=
  match widths with
  | b :: widths => w mod 2 ^ b :: unpack widths (w / 2 ^ b)
  | [] => []
  end.

Definition widths_ok (widths : list Z) : Prop := Forall (Z.le 0) widths.

(** Each number has room in its field. *)
Definition fit (widths fields : list Z) : Prop := Forall2 (fun b f => 0 <= f < 2 ^ b) widths fields.

Lemma bits_nonneg ws : widths_ok ws -> 0 <= bits ws.
Proof. induction 1; simpl; lia. Qed.

Lemma pow_pos b : 0 <= b -> 0 < 2 ^ b.
Proof. intros. apply Z.pow_pos_nonneg; lia. Qed.

Lemma pow_bits_cons b ws : 0 <= b -> widths_ok ws -> 2 ^ bits (b :: ws) = 2 ^ b * 2 ^ bits ws.
Proof. intros Hb H. cbn. apply Z.pow_add_r; auto. apply bits_nonneg; auto. Qed.

Lemma bits_app u v : bits (u ++ v) = bits u + bits v.
Proof. unfold bits. induction u as [|b u IH]; simpl; [reflexivity|]. rewrite IH. lia. Qed.

Lemma unpack_length ws : forall w, length (unpack ws w) = length ws.
Proof. induction ws as [|b ws IH]; intros; simpl; auto. Qed.

Lemma unpack_nonneg ws : widths_ok ws -> forall w, Forall (Z.le 0) (unpack ws w).
Proof.
  induction 1 as [|b ws Hb _ IH]; intros w; simpl; constructor; auto.
  apply Z.mod_pos_bound, pow_pos, Hb.
Qed.

(** A field is a shift and a mask. *)
Lemma unpack_nth ws : widths_ok ws -> forall j w, (j < length ws)%nat ->
  nth j (unpack ws w) 0 = (w / 2 ^ bits (firstn j ws)) mod 2 ^ nth j ws 0.
Proof.
  induction 1 as [|b ws Hb H IH]; intros [|j] w Hj; simpl in *; try lia.
  - now rewrite Z.div_1_r.
  - assert (Hf : widths_ok (firstn j ws)).
    { unfold widths_ok in *. rewrite Forall_forall in *. intros x Hx. apply H. rewrite <- (firstn_skipn j ws).
      apply in_or_app. auto. }
    rewrite IH by lia. fold (bits (b :: firstn j ws)).
    rewrite Z.pow_add_r by (auto using bits_nonneg). rewrite Z.div_div; auto.
    + pose proof (pow_pos b Hb). lia.
    + apply pow_pos, bits_nonneg, Hf.
Qed.

Lemma pack_plus ws : forall u v, length u = length v -> pack ws (plus u v) = pack ws u + pack ws v.
Proof.
  induction ws as [|b ws IH]; intros [|x u] [|y v] H; simpl in *; try congruence; try lia.
  rewrite IH by congruence. lia.
Qed.

Lemma pack_zero ws : forall k, pack ws (zero k) = 0.
Proof. unfold zero. induction ws as [|b ws IH]; intros [|k]; simpl; auto. rewrite IH. lia. Qed.

Lemma pack_scale ws n : forall u, pack ws (scale n u) = n * pack ws u.
Proof. unfold scale. induction ws as [|b ws IH]; intros [|x u]; simpl; try lia. rewrite IH. lia. Qed.

Lemma pack_le ws u v : widths_ok ws -> Forall2 Z.le u v -> pack ws u <= pack ws v.
Proof.
  intros H. revert u v. induction H as [|b ws Hb _ IH]; intros u v; [simpl; lia|].
  destruct 1 as [|x y u v Hxy Huv]; simpl; [lia|]. pose proof (pow_pos b Hb). specialize (IH u v Huv). nia.
Qed.

Lemma pack_nonneg ws u : widths_ok ws -> Forall (Z.le 0) u -> 0 <= pack ws u.
Proof.
  intros H. revert u. induction H as [|b ws Hb _ IH]; intros u; [simpl; lia|].
  destruct 1 as [|x u Hx Hu]; simpl; [lia|]. pose proof (pow_pos b Hb). specialize (IH u Hu). nia.
Qed.

Lemma pack_below ws u : widths_ok ws -> fit ws u -> 0 <= pack ws u < 2 ^ bits ws.
Proof.
  intros H F. revert H. induction F as [|b x ws u Hx F IH]; intros H; [cbn; lia|].
  inversion H as [|? ? Hb Hw]; subst. rewrite pow_bits_cons by auto. specialize (IH Hw).
  cbn [pack]. pose proof (pow_pos b Hb). nia.
Qed.

(** What was put side by side is read back, whatever stands above. *)
Theorem unpack_pack ws u top : widths_ok ws -> fit ws u -> unpack ws (pack ws u + 2 ^ bits ws * top) = u.
Proof.
  intros H F. revert H. induction F as [|b x ws u Hx F IH]; intros H; [reflexivity|].
  inversion H as [|? ? Hb Hw]; subst. rewrite pow_bits_cons by auto. cbn [pack unpack].
  pose proof (pow_pos b Hb).
  replace (x + 2 ^ b * pack ws u + 2 ^ b * 2 ^ bits ws * top)
    with (x + (pack ws u + 2 ^ bits ws * top) * 2 ^ b) by lia.
  rewrite Z.mod_add, Z.div_add, Z.mod_small, Z.div_small by lia.
  f_equal. rewrite Z.add_0_l. auto.
Qed.

(** And so is what stands above. *)
Lemma top_pack ws u top : widths_ok ws -> fit ws u -> (pack ws u + 2 ^ bits ws * top) / 2 ^ bits ws = top.
Proof.
  intros H F. pose proof (pack_below ws u H F). rewrite Z.mul_comm, Z.div_add, Z.div_small by lia. lia.
Qed.

Lemma pack_injective ws u v : widths_ok ws -> fit ws u -> fit ws v -> pack ws u = pack ws v -> u = v.
Proof.
  intros H Fu Fv E. rewrite <- (unpack_pack ws u 0), <- (unpack_pack ws v 0), E by auto. reflexivity.
Qed.

(** A number is its fields. *)
Lemma pack_unpack ws : widths_ok ws -> forall w, 0 <= w < 2 ^ bits ws -> pack ws (unpack ws w) = w.
Proof.
  induction 1 as [|b ws Hb Hw IH]; intros w Hrange.
  - cbn in *. lia.
  - rewrite pow_bits_cons in Hrange by auto. cbn [pack unpack]. pose proof (pow_pos b Hb).
    rewrite IH.
    + pose proof (Z.div_mod w (2 ^ b)). lia.
    + split; [apply Z.div_pos; lia | apply Z.div_lt_upper_bound; lia].
Qed.
