"""What the two papers say about imbalance. "P": the pruning paper; "V": its earlier version."""

from featscope.claims import Statement
from featscope.studies.imbalance.measures import CENSUS_RATIO, CROWD, HELD

STATEMENTS = (
    Statement(
        "stage1-identity",
        "P Lemma F.3(a), V Lemma D.1(a)",
        "At b = 0, E[h_i(Y) <∇h_i(X), M_j>] = a_j A_ij with a_j = L² p_j. Measured: the coefficient over a_j, "
        "mean over features.",
        "identity",
    ),
    Statement(
        "stage1-identity-off-features",
        "P Lemma F.3(b), V Lemma D.1(b)",
        "Outside the features the same expectation is 0. Measured: its coefficient on the non-feature part, over what "
        "it would be if X and Y had their noise in common.",
        "identity",
    ),
    Statement(
        "stage1-identity-negatives",
        "P Lemma F.1(c)",
        "For independent negatives the expectation is 0. Measured: its coefficient over the largest a_j.",
        "identity",
    ),
    Statement(
        "mean-token-noise",
        "P Assumption 3.3",
        "Tokens have independent noise N(0, σ² I), so that the mean of L tokens has variance σ²/L a coordinate. "
        "Measured: its variance off the features, over that.",
        "identity",
        note="Under uniform attention the study draws mean tokens in place of tokens.",
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
        "In Stage 1 a minority feature's projection grows by g, with its own a, a step. Measured: logarithm of the "
        "growth of projections along their start, over the prediction.",
        "identity",
        note="The papers drop 1 - 1/K.",
    ),
    Statement(
        "nonfeature-decay",
        "P (8), V (46)",
        "Off the features weights only decay, by 1 - ηλ a step. Measured: the logarithm of their norm over its start, "
        "over the prediction.",
        "identity",
    ),
    Statement(
        "stage1-duration",
        "P (34), V (40)",
        "Stage 1 ends at T1, when features hold half of the squared norm. Measured: T1 of all neurons together "
        "over its closed form.",
        "identity",
        note="P asks it of every neuron; V (41) has another condition.",
    ),
    Statement(
        "stage1-duration-in-d1",
        "P (33)",
        "T1 is in proportion to d1. Measured: its exponent between a quarter of the input dimensions and all.",
        "scaling",
        expected=False,
        note="P has Θ(d1 log d/(η log log d)), V (40) has d for d1. The closed form grows as log(d1/d - 1).",
    ),
    Statement(
        "growth-ratio-exponential",
        "P (7)",
        "At time t majority features have outgrown minority ones by (g_max/g_min)^t. Measured: logarithm of the "
        "ratio, over the prediction.",
        "identity",
    ),
    Statement(
        "growth-ratio-linear",
        "P (47), V Theorem 3.1",
        "Growth is linear in time, (1 + x)^t = 1 + xt, so that majority features have outgrown minority ones by "
        "(1 + x_max t)/(1 + x_min t). Measured: the ratio at T1, over that.",
        "identity",
        expected=False,
        note="The second line of P (47) has it as an equation. It is the first order of an exponential in xt, which is "
        "about 2 at T1.",
    ),
    Statement(
        "growth-ratio-bounded",
        "P (47), (49)",
        "Until T1 majority features outgrow minority ones by no more than ε_max/ε_min. Measured: the ratio at T1, over "
        "that.",
        "bound",
        expected=False,
        note="Follows from linear growth, and fails where T1 is long enough. P's Theorem C.1(b) and (c) rest on it.",
    ),
    Statement(
        "features-per-neuron",
        "P Lemma B.2(d), V Lemma C.1(f)",
        "At random initialisation a neuron is ordinary for d p2 features, p2 from the Beta law of its share. Measured: "
        "mean number of features over that.",
        "identity",
        note="P has O(d^{1-(1-γ)r²}), and so has V in Theorem 3.3; V's lemma has O(1), which is right for r = 1 only.",
    ),
    Statement(
        "lucky-census",
        "P Definition B.1",
        "Pr(a neuron is lucky for a feature), from the exact joint law of a random direction's coordinates. "
        f"Measured: its frequency over that, at ε_min/ε_max = {CENSUS_RATIO}.",
        "identity",
    ),
    Statement(
        "lucky-lower-bound",
        "P Lemma B.2(c), (239)",
        "At least m d^{-(1+γ)/r²} neurons are lucky for a feature. Measured: their frequency, at "
        f"r = ε_min/ε_max = {CENSUS_RATIO}.",
        "bound",
        expected=False,
        note="At this d most of the gap is between the tail of the exact law and d^{-(1+γ)/r²}. As d grows it is what "
        "P (238) leaves out: that no other feature may be above its threshold.",
    ),
    Statement(
        "strong-neurons-are-lucky",
        "P (238)",
        "A neuron that is strong enough for a feature has no other feature above the lower threshold: probability 1. "
        f"Measured: share of such neurons, at {CROWD} d features and r = {CENSUS_RATIO}.",
        "identity",
        expected=False,
        note="P has exp(-d^{1-a}) = 1 with a = (1-γ)r² < 1. It tends to 0.",
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
        f"The number of neurons of cosine >= {HELD} with the minority feature rises with ε_min. Measured: its "
        "difference between the largest and the smallest ε_min, mean over noise levels.",
        "ordering",
    ),
    Statement(
        "cosine-rises",
        "P Figure 3",
        "cos(f(X), f(Y)) of test pairs rises with ε_min. Measured: its difference between the largest and the smallest "
        "ε_min, mean over σ = 0.05, 0.075 and 0.1.",
        "ordering",
        note="Test data are balanced, which P does not say, and pairs without a signal are left out.",
    ),
    Statement(
        "mse-falls",
        "P Figure 4",
        "The test error of a linear regression head falls with ε_min. Measured: its difference between the "
        "smallest and the largest ε_min, mean over σ = 0.03, 0.05 and 0.075.",
        "ordering",
        note="The target is <v, z> with a Gaussian v, one a replica; P does not say what it is. Test data are "
        "balanced. The head learns from 1000 pairs like those of training, so part of the fall is that few of them "
        "show the minority.",
    ),
    Statement(
        "minority-mse-falls",
        "P Figure 4",
        "The test error of a linear head on the minority feature's own signal falls with ε_min. Measured: its "
        "difference between the smallest and the largest ε_min, mean over σ = 0.03, 0.05 and 0.075.",
        "ordering",
        note="Not in P, whose target is unknown; here the effect should be largest.",
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
        "V Section 4",
        "Each majority feature has a neuron that it dominates. Measured: share of majority features with a "
        "squared cosine above 1/2.",
        "bound",
    ),
    Statement(
        "heatmap-every-neuron",
        "V Section 4",
        "Nearly every neuron is tied to a majority feature. Measured: share of neurons with a cosine of at least "
        f"{HELD} with one.",
        "bound",
    ),
    Statement(
        "stage3-offfeature-small",
        "P Theorem E.1(e), V Lemma F.1(e)",
        "A neuron that was not ordinary for feature j at the start ends with a cosine below (ε_j/ε_max)/√d with it. "
        "Measured: root mean square of their ratio over all such pairs.",
        "bound",
        note="The theorems divide by Ξ2⁵ besides.",
    ),
    Statement(
        "amplitude-law",
        "P Theorem E.1(c)",
        "F_j = Σ_i A_ij² ends in proportion to (ε_j/ε_max)². Measured: F of minority over F of majority features after "
        "training, over (ε_min/ε_max)².",
        "identity",
        expected=False,
        note="P sums over neurons of M_j, we over all; V has an upper bound only. Without biases late amplitudes "
        "hardly depend on ε_j, and with them the ratio depends on when one looks.",
    ),
    Statement(
        "gradient-formula",
        "P (21), V (15)",
        "The gradient written out is that of the loss. Measured: relative error against autograd, float64.",
        "identity",
        note="P omits the factor 1/τ that the loss of P (1) has; it is right for τ times that loss.",
    ),
    Statement(
        "pseudo-loss-gradient",
        "P (118), (161); V (111)",
        "The pseudo-loss with frozen gates has at θ = w the gradient of the loss. Measured: relative error, float64.",
        "identity",
    ),
    Statement(
        "pseudo-loss-value",
        "P (118), (160); V (110)",
        "The pseudo-loss with frozen gates has at θ = w the value of the loss (times τ). Measured: the difference.",
        "identity",
    ),
    Statement(
        "pseudo-loss-convex",
        "P (159), (162); V (112)",
        "The pseudo-loss is convex in θ: it lies above its tangent at w. Measured: the smallest height above it, over "
        "θ* and random θ at three distances.",
        "bound",
    ),
    Statement(
        "optimal-learner-loss",
        "P Lemma E.6, V Lemma F.2",
        "At the optimal learner θ* the pseudo-loss is O(1/log d). Measured: the pseudo-loss there, at the κ for "
        "which it is smallest.",
        "bound",
        expected=False,
        note="Negatives that show an anchor's own signals cannot be told from its positive, whatever the learner; with "
        "no signal at all there are many. Neurons that end with one feature stand for the lucky ones.",
    ),
)
