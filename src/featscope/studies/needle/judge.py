"""From scores to verdicts. All differences are paired: arms ask the same prompts."""

from collections.abc import Iterator

import numpy as np

from featscope.claims import Claim
from featscope.studies.base import Runs
from featscope.studies.needle.statements import STATEMENTS

THE = {statement.id: statement for statement in STATEMENTS}

GAIN = 0.01
PAIRED = "Bound: one point in a hundred, a stated choice, so that a tie is no gain. Paired by prompt."
CLOSE = 0.05
NEARLY = "Tolerance: five points in a hundred, a stated choice. Paired by prompt."
HALF = 0.5
FAR = "Bound: a half, a stated choice. Paired by prompt but for the needle."


def claims(runs: Runs) -> Iterator[Claim]:
    """Methods against each other, undecided where full attention does not answer either; and what answers rest on."""
    means = {arm: run["normalised"].mean(("length", "depth", "prompt")).values for arm, run in runs.items()}
    if "full" in means and (means["full"] - means["no-needle"]).mean() < HALF:  # nothing is answered that could be lost
        unread = np.full_like(means["full"], np.nan)
        means |= dict.fromkeys(means.keys() - {"full", "no-needle"}, unread)
    if {"gemfilter", "snapkv"} <= means.keys():
        ahead = means["gemfilter"] - means["snapkv"]
        yield THE["gemfilter-beats-snapkv"].at_least(ahead, GAIN, arm="gemfilter", why=PAIRED)
    if {"question-kept", "snapkv"} <= means.keys():
        ahead = means["question-kept"] - means["snapkv"]
        yield THE["question-kept-beats-snapkv"].at_least(ahead, GAIN, arm="question-kept", why=PAIRED)
    if {"gemfilter", "full"} <= means.keys():
        ahead = means["gemfilter"] - means["full"]
        yield THE["gemfilter-beats-full"].at_least(ahead, GAIN, arm="gemfilter", why=PAIRED)
    if {"snapkv", "full"} <= means.keys():
        yield THE["snapkv-is-like-full"].equals(means["snapkv"] - means["full"], 0.0, CLOSE, arm="snapkv", why=NEARLY)
    if "full" in means:
        yield THE["the-needle-matters"].at_least(means["full"] - means["no-needle"], HALF, arm="full", why=FAR)
