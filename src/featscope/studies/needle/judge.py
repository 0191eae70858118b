"""From scores to verdicts. All differences are paired: arms ask the same prompts."""

from collections.abc import Iterator

import numpy as np

from featscope.claims import Claim
from featscope.language.haystack import score
from featscope.studies.base import Runs
from featscope.studies.needle.statements import STATEMENTS

THE = {statement.id: statement for statement in STATEMENTS}

PAPERS_ANSWER = "eat a sandwich and sit in dolores park on a sunny day."
PAIRED = "Bound: 0, the sign of a difference paired by prompt."
CLOSE = 0.05
NEARLY = "Tolerance: five points in a hundred, a stated choice. Paired by prompt."
COMPLETE = 0.99
MOSTLY = 0.95
EXPECTED = "Bound: 95 in a hundred, a stated choice: a part of the needle may be guessed."
GUESSED = 0.1
RARELY = "Bound: a tenth, a stated choice for 'not given'. Words of other needles may be right by chance."
CONTROL = "Control: full attention on texts without the needle."


def claims(runs: Runs) -> Iterator[Claim]:
    """The ceiling of scores, methods against each other, and what answers rest on."""
    means = {arm: run["normalised"].mean(("length", "depth", "prompt")).values for arm, run in runs.items()}
    first = next(iter(runs))
    yield THE["perfect-answer"].equals(
        score(PAPERS_ANSWER, PAPERS_ANSWER), 1.0, 0.0, arm=first, why="Tolerance: none; words are counted."
    )
    if {"gemfilter", "snapkv"} <= means.keys():
        ahead = means["gemfilter"] - means["snapkv"]
        yield THE["gemfilter-beats-snapkv"].at_least(ahead, 0.0, arm="gemfilter", why=PAIRED)
    if {"question-kept", "snapkv"} <= means.keys():
        ahead = means["question-kept"] - means["snapkv"]
        yield THE["question-kept-beats-snapkv"].at_least(ahead, 0.0, arm="question-kept", why=PAIRED)
    if {"gemfilter", "full"} <= means.keys():
        ahead = means["gemfilter"] - means["full"]
        yield THE["gemfilter-beats-full"].at_least(ahead, 0.0, arm="gemfilter", why=PAIRED)
    if {"snapkv", "full"} <= means.keys():
        yield THE["snapkv-is-like-full"].equals(means["snapkv"] - means["full"], 0.0, CLOSE, arm="snapkv", why=NEARLY)
    if "gemfilter" in runs:
        run = runs["gemfilter"]
        complete = (run["normalised"] >= COMPLETE).values.reshape(run.sizes["replica"], -1)
        touched = (run["kept"] > 0).values.reshape(complete.shape)
        share = (complete & touched).sum(1) / np.maximum(complete.sum(1), 1)
        if complete.any(1).all():
            yield THE["answer-was-kept"].at_least(share, MOSTLY, arm="gemfilter", why=EXPECTED)
    for arm in [name for name in ("full", "no-needle") if name in runs]:
        control = arm == "no-needle"
        yield THE["no-needle-no-answer"].at_most(
            means[arm],
            GUESSED,
            arm=arm,
            expected=control,
            why=f"{RARELY} {CONTROL if control else 'Here the needle is in the text.'}",
        )
