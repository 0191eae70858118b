"""What the paper says, and what follows from its system."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "ode-gradient-exact",
        "App. A, (A.1), (A.2)",
        "With infinite batches the learner is a closed system in B, R and E. Measured: the gradient of Algorithm 1's "
        "loss on a large batch, three neurons and a random head, along the equation's.",
        "identity",
        note="(A.2) as printed lacks factors 3 and 1/2, Phi has a wrong exponent, and C2 is twice too large.",
    ),
    Statement(
        "norm-head-invariant",
        "Lemma B.8a; derived",
        "||w_k||² - 3(η/η_E)(Σ E_jk² - Σ E_kr²) does not change, as outputs are normalised. Measured: its largest "
        "change in any trajectory.",
        "identity",
    ),
    Statement(
        "no-head-selection-rule",
        "App. F; derived",
        "Without head a neuron ends on the strong feature if and only if α_1^1.5 |B_j1| > α_2^1.5 |B_j2| at the start. "
        "Measured: share of neurons for which it is so.",
        "identity",
    ),
    Statement(
        "collapse-probability",
        "Theorem 4.3; derived",
        "Both neurons end on the strong feature with probability (1 - (2/π) arctan((α_2/α_1)^1.5))². Measured: share "
        "of starts that the rule sends there, minus that.",
        "identity",
        note="The theorem has 1 - o(1), which is the limit of ever stronger features: 0.61 at α_1/α_2 = 2, 0.85 at 4.",
    ),
    Statement(
        "collapse-without-head",
        "Theorem 4.3, Cor. 4.4",
        "Where the rule says so, both neurons end on the strong feature. Measured: the share of such starts.",
        "bound",
    ),
    Statement(
        "neurons-correlate",
        "Cor. 4.4",
        "Collapsed neurons are one: |Corr(f_1, f_2)| is near 1. Measured: its mean where both have collapsed.",
        "bound",
    ),
    Statement(
        "any-width-collapses",
        "Theorem 4.3",
        "Any number of neurons collapses on the strong feature. Measured: share of starts in which all 64 do.",
        "bound",
        expected=False,
        note="At a finite ratio of strengths each neuron may end on the weak feature, so wide networks never collapse "
        "as a whole.",
    ),
    Statement(
        "width-law",
        "Theorem 4.3; derived",
        "m neurons without head all collapse with the m-th power of one neuron's probability. Measured: the largest "
        "difference over m = 1, 2, 4, 8.",
        "identity",
    ),
    Statement(
        "head-rescues",
        "Theorem 4.1",
        "With the head the neurons learn different features, where they would both learn the strong one without. "
        "Measured: share of such starts.",
        "ordering",
        note="The theorem has probability 1 - o(1) in d.",
    ),
    Statement(
        "rescue-grows-with-dimension",
        "Theorem 4.1",
        "That share tends to 1 with d. Measured: the share at d = 10,000 minus that at 100.",
        "ordering",
    ),
    Statement(
        "diverse-neurons-decorrelate",
        "Cor. 4.2",
        "Neurons that learned different features hardly correlate: |Corr(f_1, f_2)| = O(d^-1/2). Measured: its mean.",
        "bound",
    ),
    Statement(
        "four-phases",
        "Section 5",
        "The fast neuron learns the strong feature, the slow one borrows it, the slow one learns the weak feature, the "
        "head returns. Measured: share of rescued trajectories that pass these in this order.",
        "ordering",
    ),
    Statement(
        "noise-falls-before-weak-is-learned",
        "(C.1), App. C and D",
        "The second phase ends when R_2 < |E_21|/log d, before the weak feature is learned. Measured: share of rescued "
        "trajectories in which it happens, and in this order.",
        "ordering",
        expected=False,
        note="(C.1) prints E_12 for E_21. The marker takes log d for large.",
    ),
    Statement(
        "substitution",
        "Lemma 5.2 / C.8",
        "Before the weak feature is learned, the slow neuron borrows the strong one: |E_21 B_11³| is far above "
        "|B_21³|. Measured: share of rescued trajectories in which it is ten times larger at the peak of E_21.",
        "ordering",
    ),
    Statement(
        "head-has-the-sign",
        "Lemma C.8",
        "E_21 takes the sign of B_11 B_21. Measured: share of rescued trajectories in which it has it at its peak.",
        "ordering",
    ),
    Statement(
        "others-stand-still",
        "Lemma C.8",
        "While the head rises, from T_1 to substitution, all other overlaps stay. Measured: median over rescued "
        "trajectories of the largest relative change.",
        "bound",
    ),
    Statement(
        "acceleration",
        "Lemma 5.3 / D.8",
        "Having borrowed the strong feature, the slow neuron learns the weak one faster: H_21/H_22 is large. Measured: "
        "median over rescued trajectories of its log10 at the peak of E_21.",
        "bound",
    ),
    Statement(
        "peak-of-the-head",
        "Lemma E.7; derived",
        "|E_21| never exceeds ||w_2(0)|| √(η_E/3η). Measured: the largest ratio in any trajectory.",
        "bound",
        note="The paper's √2 takes the norm of a random neuron for √2; it is 1.",
    ),
    Statement(
        "rise-and-fall",
        "Proposition 5.4",
        "||E - I|| rises and falls. Measured: |E_21| in the end over its peak, median over rescued trajectories.",
        "bound",
    ),
    Statement(
        "head-returns-to-identity",
        "App. E.1; derived",
        "In the end E_21 decays at the rate η_E (C0/C1)(α_1/α_2)⁶(B_11/B_22)⁶. Measured: the rate over that, median "
        "over rescued trajectories.",
        "identity",
    ),
    Statement(
        "noise-decays",
        "Theorem E.2b; derived",
        "A neuron that has learned a feature loses its noise as R = (R_0^-2 + ct)^-1/2. Measured: R_1 in the end over "
        "that, where both neurons collapsed.",
        "identity",
    ),
    Statement(
        "phase1-time",
        "Lemma B.13; derived",
        "T_1 = C2 · 15 s⁶ R_1³/(12 C0 α_1⁶ B_11(0)⁴). Measured: T_1 over that, median at d = 1000 and above.",
        "identity",
    ),
    Statement(
        "phase1-scaling",
        "Lemma B.13",
        "T_1 grows as d². Measured: exponent of its median over d.",
        "scaling",
    ),
    Statement(
        "optimum-value",
        "Cor. E.3",
        "The loss tends to 2(1 - C0/C1). Measured: median loss of rescued starts in the end.",
        "identity",
    ),
    Statement(
        "loss-cannot-see-collapse",
        "Theorems 4.1, 4.3",
        "Collapsed and diverse networks reach the same loss. Measured: median loss where both neurons collapsed minus "
        "that where they are diverse.",
        "identity",
    ),
    Statement(
        "no-stop-gradient-collapses",
        "Section 5.3",
        "Without stop-gradient the head rescues nothing. Measured: share of starts as in `head-rescues`.",
        "bound",
    ),
    Statement(
        "no-normalisation-strong-leads",
        "Section 5.3",
        "Without output normalisation the strong feature dominates, head or not. Measured: share of starts in which "
        "the largest overlap is with the strong feature, where both neurons would end on it without head.",
        "bound",
    ),
    Statement(
        "no-normalisation-no-rescue",
        "Section 5.3",
        "Without output normalisation the head rescues nothing. Measured: share of starts as in `head-rescues`.",
        "bound",
    ),
    Statement(
        "asymmetry-rescues",
        "Section 1.1",
        "It takes an asymmetric head. Measured: share rescued with the head minus that with one that is trained but "
        "kept symmetric.",
        "ordering",
        expected=False,
        note="The paper argues so; the symmetric head that it argues against is set by hand, not trained.",
    ),
    Statement(
        "sgd-follows-ode",
        "Theorem 4.1, N ≥ poly(d)",
        "Algorithm 1 on batches follows the flow. Measured: mean distance of its overlaps from the flow's, from the "
        "same weights, over training.",
        "bound",
    ),
    Statement(
        "random-start-sgd",
        "Theorem 4.1",
        "Algorithm 1 on batches, from random weights: both neurons learn the strong feature without head, different "
        "ones with it. Measured: share of networks with different features in the end.",
        "ordering",
        expected=False,
        note="Of random weights in 100 dimensions those are taken that flow rescues by time 60, a few in a hundred; "
        "others take thousands of times longer than noise of batches leaves.",
    ),
    Statement(
        "symmetric-head-baseline",
        "Section 1.1, (1.1)",
        "A symmetric head that is set by hand in a linear network becomes of rank one if input variances are very "
        "unequal. Measured: share of the larger eigenvalue in its trace.",
        "bound",
    ),
    Statement(
        "sgd-head-rescues",
        "Theorem 4.1, Figure 7",
        "Algorithm 1 from given overlaps: with the head the slow neuron ends on the weak feature, without on the "
        "strong one. Measured: |B_22| - |B_21| in the end.",
        "ordering",
    ),
)
