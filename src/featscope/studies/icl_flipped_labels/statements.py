"""What the study puts to the test. P is the dissertation's Chapter 5, D what is derived or chosen here."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "larger-is-better-without-flips",
        "P Section 5.6.1, Figures 5.1 and 5.2",
        "With no label inverted, the largest model is more accurate than the smallest. Measured: the difference of "
        "their accuracies on the same prompts.",
        "ordering",
        note="Bound: one per cent, so that equal ones do not do; a stated choice. "
        "Of hand-set learners `follows` stands for the largest, `ignores` for the smallest.",
    ),
    Statement(
        "larger-falls-faster",
        "P Section 5.6.1, Figures 5.1 and 5.2",
        "Accuracy falls faster with the share of inverted labels for the largest model than for the smallest. "
        "Measured: the difference of their slopes on the same prompts.",
        "ordering",
        note="Bound: a tenth of the slope -1 of a learner that trusts exemplars in proportion; a stated choice. "
        "Of hand-set learners `follows` stands for the largest, `ignores` for the smallest.",
    ),
    Statement(
        "small-is-flat",
        "P Section 5.6.1, Figures 5.1 and 5.2",
        "The accuracy of the smallest model stays flat over the share of inverted labels. Measured: its slope.",
        "bound",
        note="Bound: a quarter of the slope -1 of a learner that trusts exemplars in proportion; a stated choice.",
    ),
    Statement(
        "large-falls-below-chance",
        "P Section 5.6.1, Figures 5.1 and 5.2",
        "With all labels inverted, the largest model is less accurate than guessing.",
        "bound",
        note="P says that small models are seldom worse than guessing, and means that large ones are.",
    ),
    Statement(
        "follower-is-exact",
        "D",
        "A hand-set learner that takes from the exemplars which word goes with which meaning is right while fewer than "
        "half of the labels are inverted, wrong beyond, and undecided at one half. Measured: the largest distance of "
        "its accuracy from 1, 1/2 and 0.",
        "identity",
    ),
    Statement(
        "follower-trusts-in-proportion",
        "D",
        "That learner gives the true label the probability (M - k + 1/2)/(M + 1) with k of M labels inverted. "
        "Measured: the largest distance from it.",
        "identity",
    ),
    Statement(
        "ignorer-is-exact",
        "D",
        "A hand-set learner that ignores the exemplars answers alike at every share of inverted labels. Measured: the "
        "largest difference of its accuracy from that with none inverted.",
        "identity",
    ),
    Statement(
        "frequency-mirrors",
        "D",
        "A hand-set learner that says the exemplars' more frequent label is right with all labels inverted exactly "
        "where it is wrong with none. Measured: the sum of both accuracies.",
        "identity",
    ),
)
