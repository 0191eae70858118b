"""What the study puts to the test. P is the dissertation's Chapter 9 and Appendix G, D what is asked of the study here.

Scores are in points from 0 to 100, as in P's tables. A mean is over tasks of the mean over a task's examples.
"""

from featscope.claims import Statement

MARGIN = 2.0
"""Points that scores called comparable may differ by; a stated choice, as P names none."""

STATEMENTS = (
    Statement(
        "gemfilter-is-comparable-to-snapkv",
        "P Section 9.4.2, Table 9.1",
        "At equal k GemFilter scores as SnapKV does. Measured: the difference of means, paired by example; the "
        "interval is over examples.",
        "identity",
        note=f"Tolerance: {MARGIN:g} points, a stated choice. Where all methods find next to nothing "
        "(something-to-lose), scores are close for want of anything to lose, and nothing is decided.",
    ),
    Statement(
        "gemfilter-is-no-worse-than-h2o",
        "P Section 9.4.2, Table 9.1",
        "GemFilter scores at least what H2O does. Measured: the difference of means, paired by example; the interval "
        "is over examples.",
        "ordering",
        note="P says significantly better, and compares with H2O at k = 4096 and prompts cut to 8192 tokens; here both "
        "have one k and one prompt. Undecided where something-to-lose does not hold.",
    ),
    Statement(
        "something-to-lose",
        "D",
        "The model with all keys and values scores so much that to lose all of it would be more than the tolerance.",
        "bound",
        note=f"Bound: twice the tolerance of {MARGIN:g} points. It asks whether this model and these tasks can tell "
        "methods apart at all.",
    ),
    Statement(
        "compression",
        "P Section 9.4.2",
        "GemFilter reads 8 % of the prompt's tokens at k = 1024 and 32 % at 4096. Measured: mean k over mean n, over "
        "examples.",
        "identity",
        note="8 % times k/1024, as 32 is 4 times 8. Tolerance: a tenth, as one number stands for three tokenizers. "
        "Expected of the whole benchmark and uncut prompts alone.",
    ),
    Statement(
        "kept-is-k",
        "P Algorithm 2 and Section G.4.2",
        "Of a prompt of n tokens exactly min(k, n) are kept. Measured: the largest difference over examples.",
        "identity",
        note="Whole numbers: no tolerance.",
    ),
    Statement(
        "published-averages-are-means",
        "P Tables 9.1, 9.2 and G.1",
        "The average that each row prints is the mean of its scores. Measured: the largest difference, in points.",
        "bound",
        note="Bound: half of the last printed digit, and 10⁻⁹ for the sum in floating point.",
    ),
    Statement(
        "published-scores-are-comparable",
        "P Section 9.4.2, Table 9.1; Section G.4.7, Table G.1",
        "P's own averages of GemFilter and SnapKV are comparable at every k. Measured: the largest difference of "
        "averages at equal k, in points.",
        "bound",
        expected=False,
        note=f"Bound: the {MARGIN:g} points of gemfilter-is-comparable-to-snapkv. Not expected: the tables have -2.51 "
        "(Phi 3.5, k = 2048) and -3.10 (Llama 3.1 with chat template).",
    ),
)
