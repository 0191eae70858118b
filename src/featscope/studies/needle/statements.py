"""What the study puts to the test. P is Shi 2024 (Section 9.4.1 and Appendix G), D what is derived here."""

from featscope.claims import Statement

_MEAN = "Means of the normalised score over lengths and depths."

STATEMENTS = (
    Statement(
        "gemfilter-beats-snapkv",
        "P Section 9.4.1, Figure 9.4",
        f"GemFilter answers better than SnapKV: difference of their scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "question-kept-beats-snapkv",
        "D, for P Section 9.4.1",
        f"GemFilter that keeps the last tokens in any case answers better than SnapKV, which does: difference of their "
        f"scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "gemfilter-beats-full",
        "P Section 9.4.1, Figure 9.4",
        f"GemFilter answers better than full attention: difference of their scores. {_MEAN}",
        "ordering",
    ),
    Statement(
        "snapkv-is-like-full",
        "P Section 9.4.1, Figure 9.4",
        f"SnapKV answers as well as full attention: difference of their scores. {_MEAN}",
        "identity",
    ),
    Statement(
        "the-needle-matters",
        "D",
        f"Answers come from the text: score with the needle in it less that without. {_MEAN}",
        "ordering",
        note="Words of an answer may be right by chance, or be those of another needle; scores of the methods are to "
        "be read against the score without the needle.",
    ),
)
