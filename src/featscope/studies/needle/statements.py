"""What the study puts to the test. D is the dissertation (Section 9.4.1 and Appendix G), H what is derived here."""

from featscope.claims import Statement

_MEAN = "Means of the normalised score over lengths and depths."

STATEMENTS = (
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
        "the-needle-matters",
        "H",
        f"Answers come from the text: score with the needle in it less that without. {_MEAN}",
        "ordering",
        note="Words of an answer may be right by chance, or be those of another needle; scores of the methods are to "
        "be read against the score without the needle.",
    ),
)
