"""What the study puts to the test. D is the dissertation (Section 9.4.1 and Appendix G), H what is derived here."""

from featscope.claims import Statement

_MEAN = "Means of the normalised score over lengths and depths."

STATEMENTS = (
    Statement(
        "perfect-answer",
        "H, for D Figures 9.4, G.1 and G.2",
        "The score of a perfect answer to the needle of the paper's release is 1. Measured: its raw score.",
        "identity",
        expected=False,
        note="The expected answer has 12 words of which 11 differ, so 11/12 = 0.917 is the most that the paper's grids "
        "can show. Normalised scores divide by it.",
    ),
    Statement(
        "gemfilter-beats-snapkv",
        "D Section 9.4.1, Figure 9.4",
        f"GemFilter answers better than SnapKV: difference of their scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "question-kept-beats-snapkv",
        "H, for D Section 9.4.1",
        f"GemFilter that keeps the last tokens in any case answers better than SnapKV, which does: difference of their "
        f"scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "gemfilter-beats-full",
        "D Section 9.4.1, Figure 9.4",
        f"GemFilter answers better than full attention: difference of their scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "snapkv-is-like-full",
        "D Section 9.4.1, Figure 9.4",
        f"SnapKV answers as well as full attention: difference of their scores. {_MEAN}",
        "identity",
    ),
    Statement(
        "answer-was-kept",
        "D Section 9.4.2",
        "Where GemFilter's answer is complete, its choice had tokens of the needle: share of complete answers with it.",
        "bound",
    ),
    Statement(
        "no-needle-no-answer",
        "H",
        "Without the needle in the text, answers are not given: the score.",
        "bound",
        note="Whatever the model knows or guesses without reading; scores of the methods are to be read against it.",
    ),
)
