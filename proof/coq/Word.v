(** The ownership word: one integer that is the sum of K(x) over all references x to a folio, modulo a power of two. *)
From Coq Require Import ZArith List Lia Permutation Bool.
From Quire Require Import Paraboloid Fields.
Import ListNotations.
Open Scope Z_scope.

(** ** Definitions *)

(** Where the fields of a word lie. From the low bits up: the digit sums D_1 .. D_k, the sum of squares Q, and the number of
    references R in all the bits that are left. *)
Record Layout := {
  word_bits : Z;            (** the word: 64 or 128 *)
  digit_bits : list Z;      (** widths of the digits of an id, lowest first *)
  digit_fields : list Z;    (** widths of D_1 .. D_k *)
  square_field : Z;         (** width of Q *)
  pages : Z                 (** P: up to this many references the fields are exact *)
}.

Section Word.
Variable L : Layout.

(** The fields below R, and where R begins. *)
Definition low : list Z := digit_fields L ++ [square_field L].
Definition r : Z := bits low.

(** Ids, with 0 for a plain reference. *)
Definition is_id (id : Z) : Prop := 0 <= id < 2 ^ bits (digit_bits L).

(** a(id), and the point of the paraboloid above it. *)
Definition digits (id : Z) : list Z := unpack (digit_bits L) id.
Definition lift (a : list Z) : list Z := a ++ [square a].
Definition point (id : Z) : list Z := lift (digits id).

(** What one reference adds. *)
Definition K (id : Z) : Z := 2 ^ r + pack low (point id).

(** The word holds numbers modulo a power of two. *)
Definition wrap (w : Z) : Z := w mod 2 ^ word_bits L.

(** The sum over all references, as a number and as a word. *)
Definition sum (refs : list Z) : Z := fold_right (fun x s => K x + s) 0 refs.
Definition word (refs : list Z) : Z := wrap (sum refs).

(** The fields of a word. *)
Definition R (w : Z) : Z := w / 2 ^ r.
Definition D (w : Z) : list Z := unpack (digit_fields L) w.
Definition Q (w : Z) : Z := (w / 2 ^ bits (digit_fields L)) mod 2 ^ square_field L.

(** The two questions, as a program answers them; [n] is the number of pages of the folio. *)
Definition exclusive (n w id : Z) : bool :=
  (0 <? R w) && (R w <=? n) && (w =? wrap (R w * K id)).

Definition owner (n w : Z) : option Z :=
  let a := map (fun d => d / R w) (D w) in
  if (0 <? R w) && (R w <=? n) && (R w * Q w =? square (D w)) && negb (forallb (Z.eqb 0) a)
  then Some (pack (digit_bits L) a) else None.

(** The largest digits, the point above them, and the most that one reference adds. *)
Definition largest : list Z := map (fun b => 2 ^ b - 1) (digit_bits L).
Definition heaviest : Z := 2 ^ r + pack low (lift largest).

(** The check of a layout: P references of the largest digits overflow no field, and R can say P. *)
Definition sound : bool :=
  forallb (Z.leb 0) (digit_bits L) && forallb (Z.leb 0) low && (1 <=? pages L) && (r <=? word_bits L) &&
  (Z.of_nat (length (digit_bits L)) =? Z.of_nat (length (digit_fields L))) &&
  forallb (fun bm => pages L * snd bm <? 2 ^ fst bm) (combine low (lift largest)) &&
  ((pages L + 1) * 2 ^ r <=? 2 ^ word_bits L).

(** The one bound on the references there may be: R does not overflow the word. *)
Definition bounded (refs : list Z) : Prop := sum refs < 2 ^ word_bits L.

(** ** Proofs *)

Hypothesis Sound : sound = true.

Lemma unfold_sound :
  widths_ok (digit_bits L) /\ widths_ok low /\ 1 <= pages L /\ r <= word_bits L /\
  length (digit_bits L) = length (digit_fields L) /\
  Forall2 (fun b m => pages L * m < 2 ^ b) low (lift largest) /\ (pages L + 1) * 2 ^ r <= 2 ^ word_bits L.
Proof.
  pose proof Sound as S. unfold sound in S. rewrite !andb_true_iff in S.
  destruct S as [[[[[[S1 S2] S3] S4] S5] S6] S7].
  apply Z.leb_le in S3, S4, S7. apply Z.eqb_eq in S5.
  rewrite forallb_forall in S1, S2, S6.
  repeat split; try lia.
  - apply Forall_forall. intros x Hx. apply Z.leb_le; auto.
  - apply Forall_forall. intros x Hx. apply Z.leb_le; auto.
  - assert (E : length low = length (lift largest))
      by (unfold low, lift, largest; rewrite !app_length, map_length; simpl; lia).
    revert E S6. generalize (lift largest). generalize low. clear.
    induction l as [|b l IH]; intros [|m ms] E H; simpl in *; try congruence; constructor.
    + apply Z.ltb_lt. apply (H (b, m)). auto.
    + apply IH; auto.
Qed.

Lemma digit_widths : widths_ok (digit_bits L).
Proof. apply unfold_sound. Qed.

Lemma low_widths : widths_ok low.
Proof. apply unfold_sound. Qed.

Lemma one_page : 1 <= pages L.
Proof. apply unfold_sound. Qed.

Lemma r_below : r <= word_bits L.
Proof. apply unfold_sound. Qed.

Lemma room : Forall2 (fun b m => pages L * m < 2 ^ b) low (lift largest).
Proof. apply unfold_sound. Qed.

Lemma whole : (pages L + 1) * 2 ^ r <= 2 ^ word_bits L.
Proof. apply unfold_sound. Qed.

Lemma fields_widths : widths_ok (digit_fields L).
Proof. pose proof low_widths as H. unfold low, widths_ok in H. apply Forall_app in H. apply H. Qed.

Lemma r_nonneg : 0 <= r.
Proof. apply bits_nonneg, low_widths. Qed.

Lemma pow_r : 0 < 2 ^ r.
Proof. apply pow_pos, r_nonneg. Qed.

Let k : nat := length (digit_bits L).

Lemma digits_length id : length (digits id) = k.
Proof. apply unpack_length. Qed.

Lemma point_length id : length (point id) = S k.
Proof. unfold point, lift. rewrite app_length, digits_length. simpl. lia. Qed.

Lemma digits_injective x y : is_id x -> is_id y -> digits x = digits y -> x = y.
Proof.
  intros Hx Hy E. rewrite <- (pack_unpack (digit_bits L) digit_widths x Hx).
  rewrite <- (pack_unpack (digit_bits L) digit_widths y Hy). unfold digits in E. rewrite E. reflexivity.
Qed.

(** *** The sum, field by field *)

Lemma total_lift points :
  of_length k points -> total (S k) (map lift points) = total k points ++ [squares points].
Proof.
  assert (plus_app : forall u v x y, length u = length v -> plus (u ++ [x]) (v ++ [y]) = plus u v ++ [x + y]).
  { clear. induction u as [|a u IH]; intros [|b v] x y H; simpl in *; try congruence. rewrite IH by congruence. reflexivity. }
  induction 1 as [|u l Hu Hl IH]; simpl map.
  - cbn. clear. induction k as [|n IH]; simpl; auto. unfold zero in *. simpl in *. rewrite IH at 1. reflexivity.
  - rewrite !total_cons, squares_cons, IH. unfold lift at 1. apply plus_app. rewrite total_length; auto.
Qed.

Lemma of_digits refs : of_length k (map digits refs).
Proof. apply Forall_map, Forall_forall. intros. apply digits_length. Qed.

(** The sum is the reference count at r, and below it D and Q. *)
Lemma sum_fields refs :
  sum refs = pack low (total (S k) (map point refs)) + 2 ^ r * number refs.
Proof.
  induction refs as [|x refs IH].
  - cbn [sum fold_right map]. unfold number. cbn [length]. change (total (S k) []) with (zero (S k)).
    rewrite pack_zero. lia.
  - cbn [sum fold_right map]. fold (sum refs). rewrite IH, total_cons, number_cons. unfold K.
    rewrite pack_plus; [lia|]. rewrite total_length, point_length; auto.
    apply Forall_map, Forall_forall. intros. apply point_length.
Qed.

Lemma total_points refs :
  total (S k) (map point refs) = total k (map digits refs) ++ [squares (map digits refs)].
Proof. rewrite <- total_lift by apply of_digits. rewrite map_map. reflexivity. Qed.

(** *** Bounds *)

Lemma square_nonneg u : 0 <= square u.
Proof. unfold square. induction u as [|x u IH]; simpl; [lia | pose proof (Z.square_nonneg x); lia]. Qed.

Lemma square_le u v : Forall (Z.le 0) u -> Forall2 Z.le u v -> square u <= square v.
Proof.
  unfold square. intros H F. revert H. induction F as [|x y u v Hxy F IH]; intros H; simpl; [lia|].
  inversion H; subst. specialize (IH ltac:(assumption)). nia.
Qed.

Lemma digits_nonneg id : Forall (Z.le 0) (digits id).
Proof. apply unpack_nonneg, digit_widths. Qed.

Lemma digits_le id : Forall2 Z.le (digits id) largest.
Proof.
  unfold digits, largest. pose proof digit_widths as H. revert id.
  induction H as [|b l Hb _ IH]; intros id; simpl; constructor; auto.
  pose proof (Z.mod_pos_bound id (2 ^ b) (pow_pos b Hb)). lia.
Qed.

Lemma point_nonneg id : Forall (Z.le 0) (point id).
Proof.
  unfold point, lift. apply Forall_app. split; [apply digits_nonneg|]. constructor; [apply square_nonneg | constructor].
Qed.

Lemma point_le id : Forall2 Z.le (point id) (lift largest).
Proof.
  unfold point, lift. apply Forall2_app; [apply digits_le|]. constructor; [|constructor].
  apply square_le; [apply digits_nonneg | apply digits_le].
Qed.

Lemma total_nonneg n points : Forall (Forall (Z.le 0)) points -> Forall (Z.le 0) (total n points).
Proof.
  induction 1 as [|u l Hu _ IH].
  - unfold total. simpl. apply Forall_forall. intros x Hx. apply repeat_spec in Hx. lia.
  - rewrite total_cons. revert IH. generalize (total n l). induction Hu as [|x u Hx _ IH']; intros [|y v] Hv; simpl; auto.
    inversion Hv; subst. constructor; auto. lia.
Qed.

Lemma totals_nonneg refs : Forall (Z.le 0) (total (S k) (map point refs)).
Proof. apply total_nonneg, Forall_map, Forall_forall. intros. apply point_nonneg. Qed.

Lemma totals_le refs : Forall2 Z.le (total (S k) (map point refs)) (scale (number refs) (lift largest)).
Proof.
  induction refs as [|x refs IH].
  - cbn [map]. unfold number. cbn [length Z.of_nat]. rewrite scale_0.
    unfold lift, largest. rewrite app_length, map_length. cbn [length].
    replace (length (digit_bits L) + 1)%nat with (S k) by (unfold k; lia).
    unfold total. simpl. clear. induction (S k) as [|n IH]; simpl; constructor; auto. lia.
  - cbn [map]. rewrite total_cons, number_cons, <- scale_succ.
    pose proof (point_le x) as Hp. revert Hp IH. generalize (total (S k) (map point refs)).
    generalize (scale (number refs) (lift largest)). generalize (lift largest). generalize (point x). clear.
    intros p m s t Hp. revert s t. induction Hp as [|a b p m Hab _ IH]; intros s t Ht; simpl; [constructor|].
    destruct Ht as [|c d t s Hcd Ht]; constructor; [lia | auto].
Qed.

Lemma largest_nonneg : Forall (Z.le 0) (lift largest).
Proof.
  apply Forall_app. split; [|constructor; [apply square_nonneg | constructor]].
  apply Forall_map, Forall_forall. intros b Hb. pose proof digit_widths as H. unfold widths_ok in H.
  rewrite Forall_forall in H. pose proof (pow_pos b (H b Hb)). lia.
Qed.

(** Numbers that P references cannot exceed have room in the fields. *)
Lemma fit_below n u :
  0 <= n <= pages L -> Forall (Z.le 0) u -> Forall2 Z.le u (scale n (lift largest)) -> fit low u.
Proof.
  intros Hn. pose proof room as Hr. pose proof largest_nonneg as Hl. revert u.
  induction Hr as [|b m bs ms Hb _ IH]; intros u Hu Hle; simpl in Hle.
  - inversion Hle; subst. constructor.
  - inversion Hle as [|x y u' v' Hx Hle']; subst. inversion Hu; subst. inversion Hl; subst. constructor.
    + split; [assumption|]. nia.
    + apply IH; auto.
Qed.

Lemma totals_fit refs : number refs <= pages L -> fit low (total (S k) (map point refs)).
Proof.
  intros H. apply fit_below with (number refs).
  - split; [apply number_nonneg | exact H].
  - apply totals_nonneg.
  - apply totals_le.
Qed.

Lemma scaled_fit n id : 0 <= n <= pages L -> fit low (scale n (point id)).
Proof.
  intros H. apply fit_below with n; auto.
  - apply Forall_map. eapply Forall_impl; [|apply point_nonneg]. cbn. intros; nia.
  - pose proof (point_le id) as Hp. revert Hp. generalize (lift largest). generalize (point id).
    induction 1 as [|x y u v Hxy _ IH]; simpl; constructor; auto. nia.
Qed.

Lemma K_heaviest id : 0 < K id <= heaviest.
Proof.
  unfold K, heaviest. pose proof (pack_le low _ _ low_widths (point_le id)).
  pose proof (pack_nonneg low _ low_widths (point_nonneg id)). pose proof pow_r. lia.
Qed.

Lemma sum_heaviest refs : 0 <= sum refs <= number refs * heaviest.
Proof.
  induction refs as [|x refs IH].
  - cbn. lia.
  - cbn [sum fold_right]. fold (sum refs). rewrite number_cons. pose proof (K_heaviest x). lia.
Qed.

Lemma word_sum refs : bounded refs -> word refs = sum refs.
Proof.
  intros H. unfold word, wrap, bounded in *. pose proof (sum_heaviest refs). apply Z.mod_small. lia.
Qed.

(** One reference adds less than 1 + 1/P to the field R. *)
Lemma heaviest_bound : pages L * heaviest < (pages L + 1) * 2 ^ r.
Proof.
  unfold heaviest. rewrite Z.mul_add_distr_l, <- pack_scale.
  assert (H : fit low (scale (pages L) (lift largest))).
  { apply fit_below with (pages L).
    - pose proof one_page. lia.
    - apply Forall_map. eapply Forall_impl; [|apply largest_nonneg]. pose proof one_page. cbn. intros; nia.
    - generalize (scale (pages L) (lift largest)). induction l; constructor; auto. lia. }
  pose proof (pack_below low _ low_widths H). unfold r in *. lia.
Qed.

(** [n] references stay below [B] times the weight of a plain one, if n <= B * P / (P + 1). *)
Lemma weight_below n B : 0 <= n -> 0 < B -> n * (pages L + 1) <= pages L * B -> n * heaviest < B * 2 ^ r.
Proof.
  intros Hn HB H. pose proof heaviest_bound as Hh. pose proof one_page as Hp. pose proof pow_r as Hr.
  set (M := 2 ^ r) in *. set (P := pages L) in *. set (h := heaviest) in *.
  destruct (Z.eq_dec n 0) as [->|Hn0]; [nia|].
  apply Z.mul_lt_mono_pos_l with P; [lia|].
  assert (n * (P * h) < n * ((P + 1) * M)) by (apply Z.mul_lt_mono_pos_l; lia).
  assert (n * (P + 1) * M <= P * B * M) by (apply Z.mul_le_mono_nonneg_r; lia).
  nia.
Qed.

Lemma pow_split b : r <= b -> 2 ^ b = 2 ^ (b - r) * 2 ^ r.
Proof. intros H. rewrite <- Z.pow_add_r by (pose proof r_nonneg; lia). f_equal. lia. Qed.

(** So this many references are safe: P / (P + 1) of what R can hold. *)
Theorem enough_bits refs :
  number refs * (pages L + 1) <= pages L * 2 ^ (word_bits L - r) -> bounded refs.
Proof.
  unfold bounded. intros H. pose proof (sum_heaviest refs). pose proof r_below.
  rewrite (pow_split (word_bits L)) by auto.
  pose proof (weight_below (number refs) _ (number_nonneg refs) (pow_pos (word_bits L - r) ltac:(lia)) H). lia.
Qed.

(** The top bit warns in time: while the sum is below it, this many more references do not overflow the word. *)
Theorem warning refs more :
  r <= word_bits L - 1 -> sum refs < 2 ^ (word_bits L - 1) ->
  number more * (pages L + 1) <= pages L * 2 ^ (word_bits L - 1 - r) ->
  bounded (more ++ refs).
Proof.
  intros Hr Hs Hm. unfold bounded.
  assert (sum (more ++ refs) = sum more + sum refs) as ->.
  { clear. induction more as [|x l IH]; [reflexivity|]. cbn [app sum fold_right] in *.
    fold (sum l) (sum refs) (sum (l ++ refs)) in *. lia. }
  pose proof (sum_heaviest more) as Hh. pose proof r_nonneg.
  pose proof (weight_below (number more) _ (number_nonneg more) (pow_pos (word_bits L - 1 - r) ltac:(lia)) Hm) as Hw.
  rewrite <- pow_split in Hw by auto.
  replace (2 ^ word_bits L) with (2 * 2 ^ (word_bits L - 1)); [lia|].
  rewrite <- Z.pow_succ_r by lia. f_equal. lia.
Qed.

(** *** Decoding *)

(** Up to P references, all fields of the word are what they are called. *)
Theorem decoding refs :
  bounded refs -> number refs <= pages L ->
  R (word refs) = number refs /\ D (word refs) = total k (map digits refs) /\ Q (word refs) = squares (map digits refs).
Proof.
  intros Hb Hp. rewrite word_sum by auto. rewrite sum_fields.
  pose proof (totals_fit refs Hp) as F. split; [|].
  - unfold R, r. apply top_pack; auto using low_widths.
  - assert (E := unpack_pack low _ (number refs) low_widths F). fold r in E.
    rewrite total_points in E at 2.
    set (w := pack low _ + 2 ^ r * number refs) in *.
    assert (unpack_app : forall u v w, widths_ok u -> unpack (u ++ v) w = unpack u w ++ unpack v (w / 2 ^ bits u)).
    { clear. intros u v w H. revert w. induction H as [|b u Hb Hu IH]; intros w.
      - cbn. now rewrite Z.div_1_r.
      - cbn [app unpack]. rewrite IH. cbn [app]. f_equal. f_equal. f_equal. rewrite pow_bits_cons by auto.
        rewrite Z.div_div; auto.
        + pose proof (pow_pos b Hb). lia.
        + apply pow_pos, bits_nonneg, Hu. }
    unfold low in E. rewrite unpack_app in E by apply fields_widths. cbn [unpack] in E.
    apply app_inj_tail in E. exact E.
Qed.

(** Above P, the field R may count carries, too: it says no less than the references, and less than 1/P more. *)
Theorem references refs :
  bounded refs -> number refs <= R (word refs) /\ pages L * R (word refs) <= (pages L + 1) * number refs.
Proof.
  intros Hb. rewrite word_sum by auto. unfold R. pose proof pow_r as Hr.
  pose proof (pack_nonneg low _ low_widths (totals_nonneg refs)) as Hl.
  pose proof (sum_heaviest refs) as Hs. pose proof heaviest_bound as Hh. pose proof one_page as Hp.
  pose proof (number_nonneg refs) as Hn. pose proof (sum_fields refs) as Ef. split.
  - apply Z.div_le_lower_bound; lia.
  - assert (pages L * sum refs <= (pages L + 1) * number refs * 2 ^ r) by nia.
    pose proof (Z.mul_div_le (sum refs) (2 ^ r) Hr) as Hd.
    apply Z.mul_le_mono_pos_r with (2 ^ r); auto.
    apply Z.le_trans with (pages L * sum refs); [|assumption].
    rewrite <- Z.mul_assoc. apply Z.mul_le_mono_nonneg_l; lia.
Qed.

Corollary too_many refs : bounded refs -> pages L < number refs -> pages L < R (word refs).
Proof. intros Hb H. pose proof (references refs Hb). lia. Qed.

Corollary few refs n : bounded refs -> n <= pages L -> R (word refs) <= n -> R (word refs) = number refs /\ number refs <= n.
Proof.
  intros Hb Hn H. pose proof (references refs Hb).
  assert (Hp : number refs <= pages L) by lia. pose proof (decoding refs Hb Hp). lia.
Qed.

(** *** The theorems *)

Lemma sum_same id refs : Forall (eq id) refs -> sum refs = number refs * K id.
Proof.
  induction 1 as [|x refs <- _ IH].
  - reflexivity.
  - cbn [sum fold_right]. fold (sum refs). rewrite IH, number_cons. lia.
Qed.

Lemma same_digits id refs :
  is_id id -> Forall is_id refs -> Forall (eq (digits id)) (map digits refs) -> Forall (eq id) refs.
Proof.
  intros Hid Hrefs H. rewrite Forall_forall in *. intros x Hx. apply digits_injective; auto. apply H, in_map, Hx.
Qed.

Lemma nonempty {A : Type} (l : list A) : l <> [] <-> 0 < number l.
Proof. destruct l; unfold number; simpl; split; intros; try congruence; lia. Qed.

(** exclusive(W, id) says: there are references, at most as many as the folio has pages, and all of them are by [id]. *)
Theorem exclusive_exact n refs id :
  n <= pages L -> bounded refs -> Forall is_id refs -> is_id id ->
  exclusive n (word refs) id = true <-> refs <> [] /\ number refs <= n /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs Hid. unfold exclusive. rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le, Z.eqb_eq, nonempty. split.
  - intros [[H0 H1] E]. destruct (few refs n Hb Hn H1) as [HR Hle].
    rewrite HR in *. repeat split; auto.
    assert (Hp : number refs <= pages L) by lia.
    rewrite word_sum in E by auto. unfold wrap in E. rewrite Z.mod_small in E.
    2: { pose proof (K_heaviest id). pose proof heaviest_bound. pose proof whole. nia. }
    rewrite sum_fields in E. unfold K in E.
    assert (E' : pack low (total (S k) (map point refs)) = pack low (scale (number refs) (point id)))
      by (rewrite pack_scale; lia).
    apply pack_injective in E'; [| apply low_widths | apply totals_fit; auto | apply scaled_fit; lia].
    rewrite total_points in E'. unfold point, lift, scale in E'. rewrite map_app in E'. cbn [map] in E'.
    apply app_inj_tail in E'. destruct E' as [ED EQ].
    apply same_digits; auto.
    apply (convexity k); [apply digits_length | apply of_digits | |].
    + rewrite number_map. exact ED.
    + rewrite number_map. exact EQ.
  - intros [H0 [H1 H]]. assert (Hp : number refs <= pages L) by lia.
    destruct (decoding refs Hb Hp) as [HR _]. rewrite HR. repeat split; auto.
    unfold word. now rewrite (sum_same id).
Qed.

Lemma divide_scaled n a : 0 < n -> map (fun d => d / n) (scale n a) = a.
Proof.
  intros H. unfold scale. rewrite map_map. rewrite <- (map_id a) at 2. apply map_ext. intros x.
  rewrite Z.mul_comm, Z.div_mul; lia.
Qed.

Lemma zero_digits id : is_id id -> forallb (Z.eqb 0) (digits id) = true <-> id = 0.
Proof.
  intros Hid. split.
  - intros H. unfold is_id in Hid. rewrite <- (pack_unpack (digit_bits L) digit_widths id Hid).
    fold (digits id). revert H. generalize (digits id). generalize (digit_bits L). clear.
    induction l as [|b l IH]; intros [|x v] H; auto.
    cbn [forallb pack] in *. apply andb_true_iff in H. destruct H as [H1 H2]. apply Z.eqb_eq in H1. rewrite IH by auto. lia.
  - intros ->. unfold digits. generalize (digit_bits L). clear. induction l as [|b l IH]; simpl; auto.
Qed.

(** owner(W) = id says the same, with no candidate; it never names 0, the plain references. That each D_j is divisible by R
    need not be looked at: R Q = |D|^2 implies it. *)
Theorem owner_exact n refs id :
  n <= pages L -> bounded refs -> Forall is_id refs ->
  owner n (word refs) = Some id <-> refs <> [] /\ number refs <= n /\ id <> 0 /\ Forall (eq id) refs.
Proof.
  intros Hn Hb Hrefs. unfold owner.
  set (a := map (fun d => d / R (word refs)) (D (word refs))).
  assert (named : forall x, is_id x -> 0 < number refs <= n -> Forall (eq x) refs -> a = digits x).
  { intros x Hx Hc H. assert (Hp : number refs <= pages L) by lia. destruct (decoding refs Hb Hp) as [HR [HD _]].
    unfold a. rewrite HR, HD.
    rewrite (total_same k (digits x)); [|apply digits_length|].
    - rewrite number_map. apply divide_scaled. lia.
    - apply Forall_map. eapply Forall_impl; [|exact H]. cbn. intros y <-. reflexivity. }
  rewrite nonempty. split.
  - destruct (_ && _) eqn:Etest; [|congruence]. intros Esome. injection Esome as Eid.
    rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le, Z.eqb_eq, negb_true_iff in Etest.
    destruct Etest as [[[H0 H1] E] Hz].
    destruct (few refs n Hb Hn H1) as [HR Hle]. assert (Hp : number refs <= pages L) by lia.
    destruct (decoding refs Hb Hp) as [_ [HD HQ]]. rewrite HR, HD, HQ in E. rewrite HR in H0.
    assert (Hall : forall u, In u (map digits refs) -> Forall (eq u) (map digits refs)).
    { apply (cauchy_schwarz k); [apply of_digits|]. rewrite number_map. exact E. }
    destruct refs as [|x rest]; [unfold number in H0; simpl in H0; lia|].
    inversion Hrefs as [|? ? Hx Hrest]; subst.
    assert (Hsame : Forall (eq x) (x :: rest)) by (apply same_digits; auto; apply Hall; left; reflexivity).
    assert (Ea : a = digits x) by (apply named; auto; lia).
    rewrite Ea in Hz. rewrite Ea. unfold digits at 1. unfold digits at 1. rewrite pack_unpack by (auto; apply digit_widths).
    repeat split; auto; try lia.
    intros Ex. apply (proj2 (zero_digits x Hx)) in Ex. congruence.
  - intros [H0 [H1 [Hid0 H]]]. assert (Hp : number refs <= pages L) by lia.
    assert (Hid : is_id id).
    { destruct refs as [|x rest]; [unfold number in H0; simpl in H0; lia|]. inversion H; inversion Hrefs; subst. auto. }
    destruct (decoding refs Hb Hp) as [HR [HD HQ]].
    rewrite (named id Hid (conj H0 H1) H), HR, HD, HQ.
    assert (Hpts : Forall (eq (digits id)) (map digits refs)).
    { apply Forall_map. eapply Forall_impl; [|exact H]. cbn. intros y <-. reflexivity. }
    rewrite (total_same k (digits id)) by (auto; apply digits_length). rewrite (squares_same (digits id)) by auto.
    rewrite square_scale, !number_map.
    replace (0 <? number refs) with true by (symmetry; apply Z.ltb_lt; lia).
    replace (number refs <=? n) with true by (symmetry; apply Z.leb_le; lia).
    replace (number refs * _ =? _) with true by (symmetry; apply Z.eqb_eq; lia).
    destruct (forallb (Z.eqb 0) (digits id)) eqn:Ez.
    + apply zero_digits in Ez; auto. contradiction.
    + simpl. f_equal. unfold digits. apply pack_unpack; auto. apply digit_widths.
Qed.

End Word.
