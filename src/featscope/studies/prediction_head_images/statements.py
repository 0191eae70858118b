"""What Wen & Li 2022 state about images, and what has to be so for a comparison to say anything about it.

The Mechanism of Prediction Head in Non-contrastive Self-supervised Learning. The figures of its image experiments came
down to us without their numbers; what is stated is the text and the captions. Bounds are choices, with reasons.
"""

from featscope.claims import Statement

_SHORT = "The paper's length of training is not given; a few hundred steps are surely a small part of it."

STATEMENTS = (
    Statement(
        "targets-are-constant",
        "Equation (3.3)",
        "The loss is not differentiated through its targets: norm of its gradient to targets over that to predictions.",
        "identity",
    ),
    Statement(
        "diagonal-frozen",
        "Section 8, Algorithm 1",
        "Only the off-diagonal entries of the head are trained: largest |E_jj - 1| of what the trained head does to "
        "unit vectors.",
        "identity",
    ),
    Statement(
        "target-follows",
        "Section 8",
        "The target network follows the encoder: distance of the two over the distance of the encoder from its start.",
        "bound",
        note="A target that is never updated has 1.",
    ),
    Statement(
        "training-helps",
        "Section 8",
        "Training without negatives improves the features: linear-probe accuracy minus that of the untrained network.",
        "ordering",
        note="The paper does not say so; without it nothing else here means anything.",
    ),
    Statement(
        "identity-head-competitive",
        "Section 1.1, Figure 2",
        "The identity-initialised head is as good as the usual ones: its linear-probe accuracy minus that of a head "
        "which begins at random.",
        "bound",
    ),
    Statement(
        "head-beats-none",
        "Section 1.1",
        "Without a trained head features are significantly worse: linear-probe accuracy with the identity-initialised "
        "head minus without a head.",
        "ordering",
    ),
    Statement(
        "l2-gap",
        "Section 7, Figure 2",
        "Outputs of norm 1 leave a gap to batch-normalised ones: linear-probe accuracy with batch normalisation minus "
        "with l2, both with the identity-initialised head.",
        "ordering",
        expected=False,
        note=f"The paper says that its figure seems to suggest it. {_SHORT}",
    ),
    Statement(
        "no-head-correlation",
        "Figure 1a",
        "Without a head, outputs of the projection are correlated by nearly ±1: mean |correlation| of two outputs over "
        "test images.",
        "bound",
    ),
    Statement(
        "head-decorrelates",
        "Section 1.1, Theorem 4.1",
        "The head keeps outputs apart: mean |correlation| of projection outputs without a head minus with one.",
        "ordering",
    ),
    Statement(
        "head-keeps-rank",
        "Section 1.1, Theorem 4.1",
        "The head keeps dimensions: effective rank of projection outputs with a head minus without one.",
        "ordering",
    ),
    Statement(
        "milder-in-encoder",
        "Figure 1b, Section 7",
        "Before the projection the correlation is milder: mean |correlation| of projection outputs minus of encoder "
        "outputs, without a head.",
        "ordering",
    ),
    Statement(
        "l2-no-head-collapses",
        "Remark 4.5",
        "With outputs of norm 1 and no head everything goes to one point: variance of the projection's directions.",
        "bound",
        note="The paper predicts it and shows no experiment.",
    ),
    Statement(
        "rise-and-fall-on-images",
        "Figures 3a and 4",
        "The off-diagonal of the head rises, then falls: share of the highest ||offdiag(E)||_F that is lost by the "
        "end.",
        "bound",
        expected=False,
        note=f"In the paper only some runs return to about 0. {_SHORT}",
    ),
    Statement(
        "head-asymmetric-early",
        "Figure 3b",
        "Early in training the head is not symmetric: ||E - Eᵀ||_F/||offdiag(E)||_F at the first measurement after a "
        "tenth of the steps.",
        "bound",
    ),
    Statement(
        "head-not-symmetric",
        "Section 1.1, Figure 3b",
        "The head does not become symmetric: ||E - Eᵀ||_F/||offdiag(E)||_F at the end.",
        "bound",
    ),
)
