"""What the pruning paper ("P") says, and what follows from its update rule."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "planted-minority-growth",
        "P Theorem 3.2(a)",
        "Hiding the minority's neurons from the logits makes them grow faster. Measured: growth of minority neurons by "
        "the data in a step, with pruning over without, minus 1.",
        "ordering",
    ),
    Statement(
        "planted-majority-unchanged",
        "P Theorem 3.2(b)",
        "Other features' neurons grow as before. Measured: change of their growth over that of minority neurons.",
        "identity",
    ),
    Statement(
        "growth-is-the-gap",
        "from P (5), (184)",
        "A minority neuron's growth is a_j times the gap that logits leave, E[1 - Σ_keys ℓ' s s' | j], with and "
        "without pruning. Measured: growth without noise over that closed form, at the frequency with which the "
        "feature was drawn; the mean of both.",
        "identity",
        note="P (185) has E[1 - ℓ'_p | j] in place of the gap, which drops negatives that share the anchor's features.",
    ),
    Statement(
        "monotone-in-ratio",
        "P Theorem 3.2",
        "The gain rises with the pruning ratio. Measured: the smaller of the gains from pruning one minority neuron "
        "and from pruning the second, over the growth without (one step); the smallest gain in F_min/F_maj from one "
        "ratio to the next (stationary).",
        "ordering",
    ),
    Statement(
        "straight-through-kills",
        "P (5) against (184)",
        "Under the gradient of the pruned network hidden neurons only decay. Measured: the largest growth by the data "
        "of one.",
        "identity",
        note="P's prose suggests this gradient, its equations the other one.",
    ),
    Statement(
        "logit-first-order",
        "P (207)-(211)",
        "Pruning changes the positive logit by ℓ'_p(1 - ℓ'_p)Δu_p - ℓ'_p Σ ℓ'_s Δu_s over τ. Measured: its change over "
        "that, on samples with the minority feature, when what is pruned is small.",
        "identity",
    ),
    Statement(
        "hardness-rises-on-minority",
        "P Lemma F.2",
        "1 - ℓ'_p rises on samples with the minority feature. Measured: its rise.",
        "ordering",
    ),
    Statement(
        "hardness-rises-only-on-minority",
        "P Lemma F.2",
        "On other samples 1 - ℓ'_p stays. Measured: its rise there over its rise on samples with the minority feature.",
        "identity",
    ),
    Statement(
        "update-is-algorithm-1",
        "P Algorithm 1, (5)",
        "The mask is in the logits and nowhere else: activations, derivatives and decay are of all neurons. Measured: "
        "a step of training at the end against the printed update, relative.",
        "identity",
        note="A check of the code: only if it holds are the other claims about P's algorithm.",
    ),
    Statement(
        "stationary-amplitude",
        "from P (5)",
        "Training settles where weight decay balances what the logits leave of the pull. Measured: F_min/F_maj without "
        "pruning over its closed form.",
        "identity",
        note="Not P's (ε_j/ε_max)² of Theorem E.1.",
    ),
    Statement(
        "stationary-rebalance",
        "P Theorem 3.2, Remark 1",
        "Pruning brings rare features' energy near common ones'. Measured: F_min/F_maj at the end with α = 0.125 minus "
        "without pruning.",
        "ordering",
    ),
    Statement(
        "pruned-are-minority",
        "P Remark 1 to Theorem 3.2",
        "What is pruned belongs to minority features. Measured: share of pruned neurons that do, when pruning has just "
        "begun.",
        "bound",
    ),
    Statement(
        "random-start-rebalance",
        "P Theorem 3.2",
        "The same from random weights. Measured: F_min/F_maj at the end with α = 0.125 minus without pruning.",
        "ordering",
        expected=False,
        note="The smallest norms then belong to features with many neurons, not to rare ones.",
    ),
    Statement(
        "random-start-direction",
        "found here",
        "From random weights, without labels, pruning rebalances if neurons are ranked by the energy that all neurons "
        "have along them instead of by norm. Measured: F_min/F_maj at the end with α = 0.05 minus without pruning.",
        "ordering",
        note="Not in P. Found by exploring with four replicas of seed 0 before the arm was written.",
    ),
    Statement(
        "divergence-when-all-pruned",
        "from P (5), for α > n/m",
        "Where every neuron of some feature is hidden, whichever they are, logits never saturate and weights grow "
        "without bound. Measured: share of replicas in which that is seen: a largest F_j a hundred times that without "
        "pruning, or not finite.",
        "bound",
    ),
)
