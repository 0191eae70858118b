"""What the two papers say about imbalance. "P": the pruning paper; "V": its earlier version."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "stage1-identity",
        "P Lemma F.3, V Lemma D.1",
        "At b = 0, E[h_i(Y) <∇h_i(X), M_j>] = a_j A_ij with a_j = L² p_j. Measured: the coefficient over a_j, "
        "mean over features.",
        "identity",
    ),
    Statement(
        "stage1-identity-off-features",
        "P Lemma F.3",
        "Outside the features the same expectation is 0. Measured: its coefficient on the non-feature part, over the "
        "largest a_j.",
        "identity",
    ),
    Statement(
        "stage1-identity-negatives",
        "P Lemma F.1(c)",
        "For independent negatives the expectation is 0. Measured: its coefficient over the largest a_j.",
        "identity",
    ),
    Statement(
        "stage1-growth-majority",
        "P (7), V (45)",
        "In Stage 1 a majority feature's projection grows by g = 1 - ηλ + η(1 - 1/K) a a step. Measured: logarithm of "
        "the growth of projections along their start, over the prediction.",
        "identity",
        note="The papers drop 1 - 1/K.",
    ),
    Statement(
        "stage1-growth-minority",
        "P (7), V (45)",
        "The same for minority features.",
        "identity",
        note="The papers drop 1 - 1/K.",
    ),
    Statement(
        "nonfeature-decay",
        "P (8)",
        "Off the features, weights only decay: by 1 - ηλ a step. Measured: their projection on their start, over the "
        "prediction.",
        "identity",
    ),
    Statement(
        "stage1-duration",
        "P (33), (34); V Theorem 3.1",
        "Stage 1 ends at T1, when features hold half of the squared norm. Measured: T1 of all neurons together "
        "over its closed form.",
        "identity",
        note="P has T1 = Θ(d1 log d/(η log log d)), V has d for d1; the closed form has the order of V.",
    ),
    Statement(
        "growth-ratio-exponential",
        "P (7)",
        "At time t majority features have outgrown minority ones by (g_max/g_min)^t. Measured: logarithm of the "
        "ratio at T1 over the prediction.",
        "identity",
    ),
    Statement(
        "growth-ratio-linear",
        "P (47), (49)",
        "Growth until T1 is in the ratio ε_max/ε_min. Measured: the ratio of growths at T1, over ε_max/ε_min.",
        "identity",
        expected=False,
        note="The papers read (1 + x)^t as 1 + xt and multiply by ε_j/ε_max; that is not valid for exponentials.",
    ),
    Statement(
        "features-per-neuron",
        "P Lemma B.2(d)",
        "At random initialisation a neuron is ordinary for d p2 features, p2 from the Beta law of its share. Measured: "
        "mean number of features over that.",
        "identity",
        note="P has O(d^{1-(1-γ)r²}), V has O(1), which is right for r = 1 only.",
    ),
    Statement(
        "lucky-census",
        "P Definition B.1",
        "Pr(a neuron is lucky for a feature), from the exact joint law of a random direction's coordinates. "
        "Measured: its frequency over that, at ε_min/ε_max = 0.8.",
        "identity",
    ),
    Statement(
        "lucky-lower-bound",
        "P Lemma B.2(c), (239)",
        "At least m d^{-(1+γ)/r²} neurons are lucky for a feature. Measured: frequency, at r = ε_min/ε_max = 0.8.",
        "bound",
        expected=False,
        note="P (238) sets the probability that no other feature is above its threshold to 1; it tends to 0 for r < 1.",
    ),
    Statement(
        "amplitude-law",
        "P Theorem E.1",
        "F_j = Σ_i A_ij² ends in proportion to (ε_j/ε_max)². Measured: F of minority over F of majority features after "
        "long training at b = 0, over (ε_min/ε_max)².",
        "identity",
        expected=False,
        note="Growth in Stage 1 is exponential in ε_j, and late amplitudes at b = 0 hardly depend on it.",
    ),
    Statement(
        "minority-alignment-rises",
        "P Figure 2",
        "The largest cosine of a neuron with the minority feature rises with ε_min. Measured: its difference "
        "between the largest and the smallest ε_min, mean over noise levels.",
        "ordering",
    ),
    Statement(
        "minority-count-rises",
        "P Figure 1",
        "The number of neurons of cosine >= 0.3 with the minority feature rises with ε_min. Measured as above.",
        "ordering",
    ),
    Statement(
        "cosine-rises",
        "P Figure 3",
        "cos(f(X), f(Y)) of balanced test pairs rises with ε_min. Measured as above, at σ = 0.05, 0.075 and 0.1.",
        "ordering",
        note="Of non-empty pairs. P does not say whether test data are balanced.",
    ),
    Statement(
        "mse-falls",
        "P Figure 4",
        "The test error of a linear regression head falls with ε_min. Measured: its difference between the "
        "smallest and the largest ε_min, balanced test data, at σ = 0.03, 0.05 and 0.075.",
        "ordering",
        note="The target is <v, z> with a Gaussian v; P does not say what it is.",
    ),
    Statement(
        "minority-mse-falls",
        "P Figure 4",
        "The same with the minority feature's own signal as the target, where the effect should be largest.",
        "ordering",
    ),
    Statement(
        "heatmap-majority-first",
        "V Figure 1",
        "Neurons hold majority features more than minority ones. Measured: difference of the mean squared cosines.",
        "ordering",
        note="V says nothing of biases or of when it stopped.",
    ),
    Statement(
        "heatmap-dominating-neuron",
        "V Figure 1",
        "Each majority feature has a neuron that it dominates. Measured: share of majority features with a "
        "squared cosine above 1/2.",
        "bound",
    ),
    Statement(
        "stage1-gradient",
        "P (21), V (15)",
        "The gradient written out is that of the loss. Measured: relative error against autograd, float64.",
        "identity",
    ),
    Statement(
        "pseudo-loss-gradient",
        "P (118), (160); V Lemma F.2",
        "The pseudo-loss with frozen gates has at θ = w the gradient of the loss. Measured: relative error, float64.",
        "identity",
    ),
    Statement(
        "pseudo-loss-value",
        "P (118), (159)",
        "The pseudo-loss with frozen gates has at θ = w the value of the loss (times τ). Measured: the difference.",
        "identity",
    ),
    Statement(
        "stage3-offfeature-small",
        "P Theorem E.1, V Lemma F.1",
        "After training, a neuron's cosine with features other than its own is small against chance. Measured: "
        "root mean square cosine of singletons with all other features, times √d.",
        "bound",
        note="P has O(ε_j/ε_max/(√d Ξ2⁵)); the bound here is 1/√d, what a random direction in the features' span has.",
    ),
)
