(** The geometry: points with their squared length lie on a paraboloid, so no point is a mean of others.

    Everything here is about lists of integers of one length, read as vectors; nothing is about words or bits. *)
From Coq Require Import ZArith List Lia.
Import ListNotations.
Open Scope Z_scope.
Arguments Z.add : simpl never.
Arguments Z.mul : simpl never.
Arguments Z.sub : simpl never.

(** ** Vectors *)

(** The inner product. *)
Fixpoint dot (u v : list Z) : Z :=
  match u, v with
  | x :: u, y :: v => x * y + dot u v
  | _, _ => 0
  end.

(** The squared length. *)
Definition square (u : list Z) : Z := dot u u.

Fixpoint plus (u v : list Z) : list Z :=
  match u, v with
  | x :: u, y :: v => x + y :: plus u v
  | _, _ => []
  end.

Definition scale (n : Z) (u : list Z) : list Z := map (Z.mul n) u.

Definition zero (k : nat) : list Z := repeat 0 k.

(** The number of points, as an integer. *)
Definition number {A : Type} (l : list A) : Z := Z.of_nat (length l).

(** The sum of points of k coordinates each: D of the design. *)
Definition total (k : nat) (points : list (list Z)) : list Z := fold_right plus (zero k) points.

(** The sum of their squared lengths: Q of the design. *)
Definition squares (points : list (list Z)) : Z := fold_right (fun u s => square u + s) 0 points.

(** All points have k coordinates. *)
Definition of_length (k : nat) (points : list (list Z)) : Prop := Forall (fun u => length u = k) points.

Lemma total_cons k u l : total k (u :: l) = plus u (total k l).
Proof. reflexivity. Qed.

Lemma squares_cons u l : squares (u :: l) = square u + squares l.
Proof. reflexivity. Qed.

Lemma number_cons {A : Type} (x : A) l : number (x :: l) = 1 + number l.
Proof. unfold number. simpl length. lia. Qed.

Lemma number_map {A B : Type} (f : A -> B) l : number (map f l) = number l.
Proof. unfold number. now rewrite map_length. Qed.

Lemma number_nonneg {A : Type} (l : list A) : 0 <= number l.
Proof. unfold number. lia. Qed.

Lemma plus_length u : forall v, length u = length v -> length (plus u v) = length u.
Proof. induction u as [|x u IH]; intros [|y v] H; simpl in *; auto. Qed.

Lemma total_length k points : of_length k points -> length (total k points) = k.
Proof.
  induction 1 as [|u l Hu _ IH]; simpl.
  - apply repeat_length.
  - rewrite plus_length; congruence.
Qed.

Lemma scale_length n u : length (scale n u) = length u.
Proof. apply map_length. Qed.

Lemma dot_plus u : forall v a, length u = length v -> dot (plus u v) a = dot u a + dot v a.
Proof.
  induction u as [|x u IH]; intros [|y v] [|z a] H; simpl in *; try lia.
  rewrite IH by lia. lia.
Qed.

Lemma dot_zero k : forall a, dot (zero k) a = 0.
Proof. induction k as [|k IH]; intros [|z a]; simpl; auto. unfold zero in IH. rewrite IH. lia. Qed.

Lemma dot_scale n u : forall v, dot (scale n u) v = n * dot u v.
Proof.
  induction u as [|x u IH]; intros [|y v]; simpl; try lia.
  unfold scale in IH. rewrite IH. lia.
Qed.

Lemma dot_comm u : forall v, dot u v = dot v u.
Proof. induction u as [|x u IH]; intros [|y v]; simpl; auto. rewrite IH. lia. Qed.

Lemma square_scale n u : square (scale n u) = n * n * square u.
Proof. unfold square. rewrite dot_scale, dot_comm, dot_scale. lia. Qed.

(** ** Distances *)

(** The squared distance of two points. *)
Fixpoint distance (u v : list Z) : Z :=
  match u, v with
  | x :: u, y :: v => (x - y) * (x - y) + distance u v
  | _, _ => 0
  end.

Lemma distance_nonneg u : forall v, 0 <= distance u v.
Proof.
  induction u as [|x u IH]; intros [|y v]; simpl; try lia.
  specialize (IH v). pose proof (Z.square_nonneg (x - y)). lia.
Qed.

Lemma distance_zero u : forall v, length u = length v -> distance u v = 0 -> u = v.
Proof.
  induction u as [|x u IH]; intros [|y v] H D; simpl in *; try congruence.
  pose proof (distance_nonneg u v). pose proof (Z.square_nonneg (x - y)).
  assert (E : (x - y) * (x - y) = 0) by lia. apply Z.eq_mul_0 in E.
  f_equal; [lia | apply IH; lia].
Qed.

Lemma distance_expand u : forall v, length u = length v -> distance u v = square u - 2 * dot u v + square v.
Proof.
  unfold square.
  induction u as [|x u IH]; intros [|y v] H; simpl in *; try congruence; try lia.
  rewrite IH by lia. lia.
Qed.

(** The sum of the squared distances of the points to [a] is Q - 2 a.D + R |a|^2. *)
Lemma distances_expand k a points :
  length a = k -> of_length k points ->
  fold_right (fun u s => distance u a + s) 0 points
    = squares points - 2 * dot (total k points) a + number points * square a.
Proof.
  intros Ha. induction 1 as [|u l Hu Hl IH].
  - cbn. rewrite dot_zero. lia.
  - cbn [fold_right]. rewrite total_cons, squares_cons, number_cons, IH.
    rewrite distance_expand by congruence. rewrite dot_plus by (rewrite total_length; auto). lia.
Qed.

Lemma distances_zero a points :
  Forall (fun u => length u = length a) points ->
  fold_right (fun u s => distance u a + s) 0 points = 0 -> Forall (eq a) points.
Proof.
  induction 1 as [|u l Hu Hl IH]; simpl; intros S; constructor.
  - symmetry. apply distance_zero; auto.
    assert (0 <= fold_right (fun u s => distance u a + s) 0 l)
      by (clear; induction l as [|v l IH]; simpl; [lia | pose proof (distance_nonneg v a); lia]).
    pose proof (distance_nonneg u a). lia.
  - apply IH.
    assert (0 <= fold_right (fun u s => distance u a + s) 0 l)
      by (clear; induction l as [|v l IH]; simpl; [lia | pose proof (distance_nonneg v a); lia]).
    pose proof (distance_nonneg u a). lia.
Qed.

(** ** The two lemmas *)

(** Convexity: R points whose sum is R times [a] and whose squared lengths sum to R times that of [a] are all [a]. *)
Theorem convexity k a points :
  length a = k -> of_length k points ->
  total k points = scale (number points) a ->
  squares points = number points * square a ->
  Forall (eq a) points.
Proof.
  intros Ha Hp HD HQ. apply distances_zero.
  - rewrite Ha. exact Hp.
  - rewrite (distances_expand k) by auto. rewrite HD, HQ, dot_scale. fold (square a). lia.
Qed.

Lemma scale_0 a : scale 0 a = zero (length a).
Proof. unfold scale, zero. induction a as [|x a IH]; simpl; auto. rewrite IH. f_equal. Qed.

Lemma scale_zero n k : scale n (zero k) = zero k.
Proof. unfold scale, zero. induction k as [|k IH]; simpl; auto. rewrite IH. f_equal. lia. Qed.

Lemma scale_succ n a : plus a (scale n a) = scale (1 + n) a.
Proof. unfold scale. induction a as [|x a IH]; simpl; auto. rewrite IH. f_equal. lia. Qed.

Lemma scale_plus n u : forall v, plus (scale n u) (scale n v) = scale n (plus u v).
Proof.
  unfold scale. induction u as [|x u IH]; intros [|y v]; simpl; auto. rewrite IH. f_equal. lia.
Qed.

Lemma scale_injective n u : n <> 0 -> forall v, scale n u = scale n v -> u = v.
Proof.
  intros Hn. induction u as [|x u IH]; intros [|y v] E; simpl in *; try congruence.
  injection E as E1 E2. f_equal; [nia | auto].
Qed.

Lemma total_scale n k points : total k (map (scale n) points) = scale n (total k points).
Proof.
  induction points as [|u l IH]; simpl map.
  - symmetry. apply scale_zero.
  - rewrite !total_cons, IH. apply scale_plus.
Qed.

Lemma squares_scale n points : squares (map (scale n) points) = n * n * squares points.
Proof.
  induction points as [|u l IH]; simpl map.
  - cbn. lia.
  - rewrite !squares_cons, IH, square_scale. lia.
Qed.

Lemma total_same k a points :
  length a = k -> Forall (eq a) points -> total k points = scale (number points) a.
Proof.
  intros Ha. induction 1 as [|u l <- _ IH].
  - cbn. rewrite scale_0, Ha. reflexivity.
  - rewrite number_cons, total_cons, IH. apply scale_succ.
Qed.

Lemma squares_same a points : Forall (eq a) points -> squares points = number points * square a.
Proof.
  induction 1 as [|u l <- _ IH]; auto. rewrite number_cons, squares_cons, IH. lia.
Qed.

(** The equality case of Cauchy and Schwarz: R Q = |D|^2 only when all points are one. No candidate is needed. *)
Theorem cauchy_schwarz k points :
  of_length k points ->
  number points * squares points = square (total k points) ->
  forall u, In u points -> Forall (eq u) points.
Proof.
  intros Hp H.
  set (n := number points) in *. set (D := total k points) in *.
  (* The points, each n times as long, all lie at D: their distances to it sum to n (n Q - |D|^2). *)
  assert (Hlen : of_length k (map (scale n) points)).
  { apply Forall_map. eapply Forall_impl; [|exact Hp]. intros u Hu. cbn in Hu. rewrite scale_length. exact Hu. }
  assert (Hall : Forall (eq D) (map (scale n) points)).
  { apply distances_zero.
    - unfold D. rewrite total_length by auto. exact Hlen.
    - rewrite (distances_expand k) by (auto; apply total_length; auto).
      rewrite total_scale, squares_scale, dot_scale, number_map. fold n D (square D). nia. }
  intros u Hu. apply Forall_forall. intros v Hv. rewrite Forall_forall in Hall.
  apply scale_injective with n.
  - unfold n, number. destruct points; [destruct Hu | simpl; lia].
  - transitivity D; [symmetry|]; apply Hall, in_map; auto.
Qed.
