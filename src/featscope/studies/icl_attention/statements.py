"""What the study puts to the test. P is the dissertation's Chapter 5, D what is derived or chosen here."""

from featscope.claims import Statement

_RATIO = "the mean over prompts of norm(irrelevant) / norm(relevant), with the right label"

STATEMENTS = (
    Statement(
        "larger-attends-to-both",
        "P Section 5.6.2, Figure 5.3",
        "The largest model attends to the irrelevant sentence more, next to the relevant one, than the smallest does. "
        f"Measured: the difference of their ratios, {_RATIO}.",
        "ordering",
        note="Bound: 0.05, so that equal ones do not do; a stated choice. Of hand-set readers "
        "`uniform` stands for the largest, `focused` for the smallest.",
    ),
    Statement(
        "larger-attends-to-both-wrong-label",
        "P Section 5.6.2, Figure 5.3",
        "The same with the wrong label.",
        "ordering",
    ),
    Statement(
        "small-attends-to-relevant",
        "P Section 5.6.2, Figure 5.3",
        f"The smallest model attends mainly to the relevant sentence. Measured: the ratio, {_RATIO}.",
        "bound",
        note="Bound: one half for 'mainly'; a stated choice.",
    ),
    Statement(
        "relevance-beyond-position",
        "D",
        "The relevant sentence is attended to more than an irrelevant one that stands in its place. Measured: the "
        "mean over prompts of the logarithm of the length-normalised ratio, less that with two irrelevant sentences.",
        "bound",
        note="Sentences nearer to the label are attended to more whatever they say; this takes the place out.",
    ),
    Statement(
        "normalised-is-exact",
        "D",
        "Hand-set weights of 1 on the relevant sentence and w elsewhere have a length-normalised ratio of w. "
        "Measured: the ratio's mean over prompts.",
        "identity",
    ),
    Statement(
        "raw-is-exact",
        "D",
        "Their raw ratio is w times the square root of the ratio of lengths. Measured: the raw ratio over that, mean "
        "over prompts.",
        "identity",
    ),
)
