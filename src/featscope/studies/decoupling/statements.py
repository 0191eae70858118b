"""What Wen & Li 2021 (arXiv 2105.15134) state, read critically."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "mask-cancels-noise",
        "Lemma C.2",
        "At b = 0 RandomMask removes the noise from the positive term: E[h_i(x⁺⁺) x⁺] = p (P - diag P) w_i, without "
        "any s² part. Measured: the share of the noise variance s² that is left.",
        "identity",
        note="The paper has it up to lower order; independence of the two halves makes it exact.",
    ),
    Statement(
        "plain-population-gradient",
        "Lemma F.1",
        "Without augmentation, at b = 0, E[h_i(x) x] = (p P + s² I) w_i: weights grow along features only "
        "1 + p/s² times as fast as along noise.",
        "identity",
        note="The form that the lemma prints for b > 0 drops cross terms and is not tested.",
    ),
    Statement(
        "stage1-trajectory",
        "Hypothesis C.4",
        "In Stage I the squared norm along features grows by (1 - ηλ + ηκp(1 - d/d1))² a step, and by what batches "
        "add by chance. Measured: the logarithm of its growth over half of Stage I, over the prediction.",
        "identity",
        note="The paper has the growth without batch noise, which its batches of any polynomial size allow.",
    ),
    Statement(
        "stage1-duration",
        "Section 2.2, T1",
        "Stage I takes Θ(d log d/(η log log d)) steps; with constants, the steps after which the median share of "
        "feature energy reaches its threshold. Measured: T1 over the closed form.",
        "identity",
        note="The paper defines T1 in four ways that do not agree, two of which contradict its Theorem C.1(b, c). "
        "Batch noise was added to the closed form after population gradients alone were seen to be 12 % short; it has "
        "no fitted constant.",
    ),
    Statement(
        "energy-ceiling",
        "Lemma C.2 with finite batches",
        "Batches of K anchors inject noise, so the share of feature energy in Stage I settles below 1: near "
        "1/(1 + η(p + 2s²)s²d1/(Kp)).",
        "identity",
        note="The paper assumes batches of any polynomial size. The form was derived here, after a coarser one that "
        "drops the signal's part, 1/(1 + 2ηs⁴d1/(Kp)), was seen to be 0.03 too high.",
    ),
    Statement(
        "positive-pair-covariance",
        "Definition 2.3",
        "Cov(<w_i, x⁺>, <w_i, x⁺⁺>) = p(||Mᵀw_i||² - Σ_s w_is² P_ss): only features tie the two views together.",
        "identity",
    ),
    Statement(
        "dense-decoupling",
        "Section 3",
        "At any weights and biases, E<f(2Dξ), f(2(I-D)ξ)> = 0: the halves of the noise are independent and f is odd.",
        "identity",
    ),
    Statement(
        "initial-norms",
        "Lemma B.2(a)",
        "At initialisation E||w_i||² = σ0² d1. Measured: mean ||w_i||² over its prediction.",
        "identity",
    ),
    Statement(
        "lucky-set-size",
        "Lemma B.2(c)",
        "At initialisation E|Set_j| = m Pr(Beta(1/2, (d-1)/2) >= c2 log d/d). Measured: its ratio to that.",
        "identity",
        note="The paper bounds it by powers of d; the law is exact.",
    ),
    Statement(
        "logit-uniformity-slope",
        "Lemma C.3",
        "Near the start the logits are uniform up to O(Σ||w_i||²/(τ|B|)). Measured: the exponent of the largest "
        "deviation in Σ||w_i||² over four decades.",
        "scaling",
    ),
    Statement(
        "orthogonal-rows-similarity",
        "Lemma F.2",
        "With unit rows orthogonal to each other and to the features, ||f(x)||² is √m times the root mean square "
        "of <f(x), f(x')>.",
        "identity",
    ),
    Statement(
        "orthogonal-rows-loss",
        "Lemma F.2",
        "Noise alone lets the plain loss vanish: with such rows it is at most Õ(d/Σ||w_i||²).",
        "bound",
    ),
    Statement(
        "order-kept-in-stage1",
        "Theorem C.1",
        "Stage I keeps the order of a neuron's alignments: rank correlation of |<w_i, M_j>| between the start and T1.",
        "bound",
    ),
    Statement(
        "singletons-emerge",
        "Theorem 3.4",
        "With RandomMask each true feature ends in at least one neuron that holds it alone. Measured: the share of "
        "features with a neuron whose squared cosine to them exceeds 1/2.",
        "bound",
    ),
    Statement(
        "no-singletons-without-augmentation",
        "Theorem 3.2",
        "Without augmentation no neuron holds a single feature: share of features held by a singleton.",
        "bound",
    ),
    Statement(
        "sparse-energy",
        "Theorem 3.4",
        "With RandomMask the weights end in the span of the features: mean ||Mᵀw_i||²/||w_i||².",
        "bound",
    ),
    Statement(
        "firing-matches-feature",
        "Fact E.3",
        "A neuron fires only if one of its features is present: Pr(none is present | it fires), mean over neurons.",
        "bound",
        expected=False,
        note="Needs thresholds far above the noise in a neuron, a polylogarithm of d; at this size they end near it. "
        "Marked as not expected after the first run.",
    ),
    Statement(
        "amplitude-saturation",
        "Lemmas E.5, E.6",
        "Amplitudes stop growing at F_j = Θ(τ log d). Measured: the exponent of F_j in τ.",
        "scaling",
    ),
    Statement(
        "noise-removed",
        "Theorem 3.4",
        "f hardly moves when the noise is taken away: ||f(x) - f(Mz)|| <= Õ(1/√d) while ||f(Mz)|| >= Ω(1).",
        "bound",
        expected=False,
        note="Like firing-matches-feature it needs thresholds far above the noise in a neuron.",
    ),
    Statement(
        "downstream-regression",
        "Corollary 3.5",
        "A linear head on the representation regresses <w*, z> far better than one on the raw input: ratio of errors.",
        "ordering",
    ),
    Statement(
        "downstream-classification",
        "Corollaries 3.3, 3.5",
        "A linear head classifies sign <w*, z> better on the augmented than on the plain representation: "
        "difference of accuracies.",
        "ordering",
        note="Corollary 3.3 prints Pr(correct) = o(1), which flipping signs would refute; read: error Ω(1).",
    ),
    Statement(
        "loss-inversion",
        "Theorems 3.2, 3.4",
        "The augmented loss stays above the plain one although its features are better: difference of final losses.",
        "ordering",
        note="Negatives that agree with an anchor on its active signals put a floor under the augmented loss; "
        "noise identifies every sample in the plain one.",
    ),
    Statement(
        "plain-overwhelmed-by-noise",
        "Theorem 3.2, Fact F.4",
        "Without augmentation weights stay orthogonal to the features: mean share of squared norm outside their span.",
        "bound",
        expected=False,
        note="Needs d1/d, s²/p and the start far beyond a computer's reach: until the loss saturates, features grow "
        "1 + p/s² times as fast as noise. The cosine of f(x) and f(ξ) is near 1 already at a random start "
        "(about 1 - p d/(2 s² d1)), so it cannot tell the arms apart by itself.",
    ),
    Statement(
        "plain-noise-trend",
        "Theorem 3.2",
        "The share of squared norm outside the features' span grows with d1/d: difference between the largest and "
        "the smallest input dimension.",
        "ordering",
    ),
    Statement(
        "bias-would-grow",
        "Footnote 4",
        "Trained biases would grow with augmentation: share of neurons whose bias gradient descent would raise.",
        "bound",
        expected=False,
        note="An open check: the paper says so of its data without proof.",
    ),
    Statement(
        "bias-would-shrink",
        "Footnote 4",
        "Trained biases would shrink without augmentation: share of neurons whose bias gradient descent would raise.",
        "bound",
    ),
    Statement(
        "gradient-split",
        "Definition E.4",
        "-<∇L, M_j> is the sum of four terms, through the feature, the other features, and two kinds of crosstalk. "
        "Measured: largest relative difference to autograd.",
        "identity",
        note="With signs for which the activation is odd; the paper's print has a minus sign too many in each part "
        "and the wrong sign before the negatives.",
    ),
    Statement(
        "pseudo-objective-gradient",
        "Definition E.10",
        "The convex pseudo-objective with frozen gates has the objective's gradient at the current weights. "
        "Measured: largest relative difference to autograd.",
        "identity",
    ),
    Statement(
        "supervised-finds-the-same",
        "Message 3",
        "Supervised training of the same network learns the same features: share of features held by a singleton.",
        "bound",
        expected=False,
        note="Shown in the paper on images, and said of this data model in its introduction, without a theorem.",
    ),
)
