"""From measurements to verdicts. All differences are paired: a replica's arms share network and test images."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.claims import Claim
from featscope.studies.base import Runs
from featscope.studies.longtail_images.statements import STATEMENTS
from featscope.studies.longtail_images.table2 import TABLE_2

THE = {statement.id: statement for statement in STATEMENTS}

PerReplica = Float[np.ndarray, " replica"]
PAIRED = "Bound: 0, the sign of a difference paired by replica."
GAIN = 0.01
GAINED = "Bound: one point in a hundred, a stated choice that a network which learns nothing cannot reach."
CONTROL = "Control: the untrained network takes the place of the trained one."
UNPRUNED = "Control: this arm does not prune."
BALANCED = "Control: this arm has no tail."


def accuracy(run: xr.Dataset) -> PerReplica:
    """Mean over classes of the linear probe's accuracy."""
    return run["class_accuracy"].mean("class").values


def gap(run: xr.Dataset) -> PerReplica:
    """Δ_20: accuracy on the 20 % of classes at the head minus that on the 20 % at the tail."""
    return -tail_minus_head(run["class_accuracy"])


def tail_minus_head(by_class: xr.DataArray) -> PerReplica:
    """Mean over the last 20 % of classes minus mean over the first 20 %; at least one class each."""
    share = max(1, round(0.2 * by_class.sizes["class"]))
    tail, head = by_class.isel({"class": slice(-share, None)}), by_class.isel({"class": slice(share)})
    return (tail.mean("class") - head.mean("class")).values


def claims(runs: Runs, ratio: float | None, pruned_share: float) -> Iterator[Claim]:
    """What the comparison rests on, then Table 2, then the mechanism.

    Args:
        runs: what was measured.
        ratio: ρ that was asked for; None where the data have their own, and there is no balanced control.
        pruned_share: α.
    """
    plain, pruned = runs["plain"], runs["pruned"]
    for arm in ("pruned", "plain"):
        yield THE["pruned-share"].equals(
            runs[arm]["pruned_share"].values,
            pruned_share,
            1e-3,
            arm=arm,
            expected=arm == "pruned",
            why="Tolerance: α is rounded to whole weights, of which the smallest networks have thousands. "
            + (UNPRUNED if arm == "plain" else ""),
        )
    for arm in ("plain", "untrained"):
        yield THE["training-helps"].at_least(
            accuracy(runs[arm]) - accuracy(runs["untrained"]),
            GAIN,
            arm=arm,
            expected=arm == "plain",
            why=GAINED if arm == "plain" else CONTROL,
        )
    gain = accuracy(pruned) - accuracy(plain)
    born_small = 100 * pruned["pruned_from_start"].mean().item()
    yield THE["pruning-raises-accuracy"].at_least(
        gain,
        0.0,
        arm="pruned",
        why=f"{PAIRED} Of the weights pruned at the end, {born_small:.0f} % were the smallest before training already; "
        f"of weights taken by lot, {100 * pruned_share:.0f} % would be.",
    )
    printed = min(row.accuracy[1][0] - row.accuracy[0][0] for row in TABLE_2) / 100
    yield THE["pruning-gains-as-printed"].at_least(gain, printed, arm="pruned", why="Bound: Table 2.")
    yield THE["pruning-lowers-gap"].at_least(gap(plain) - gap(pruned), 0.0, arm="pruned", why=PAIRED)
    if ratio is not None:
        yield from _with_balanced_control(runs, ratio)


def _with_balanced_control(runs: Runs, ratio: float) -> Iterator[Claim]:
    plain, pruned, balanced, both = (runs[arm] for arm in ("plain", "pruned", "balanced", "balanced-pruned"))
    for arm in ("plain", "balanced"):
        sizes = runs[arm]["class_size"]
        yield THE["class-sizes"].equals(
            (sizes.min("class") - sizes.max("class") / ratio).values,
            0.0,
            1.0,
            arm=arm,
            expected=arm == "plain",
            why="Tolerance: one image, sizes are rounded down. " + (BALANCED if arm == "balanced" else ""),
        )
    yield THE["as-many-images"].equals(
        (balanced["class_size"].sum("class") - plain["class_size"].sum("class")).values,
        0.0,
        0.0,
        arm="balanced",
        why="Tolerance: none, these are counts.",
    )
    yield THE["imbalance-costs-accuracy"].at_least(accuracy(balanced) - accuracy(plain), 0.0, arm="plain", why=PAIRED)
    yield THE["imbalance-opens-gap"].at_least(gap(plain) - gap(balanced), 0.0, arm="plain", why=PAIRED)
    on_tail, on_balanced = accuracy(pruned) - accuracy(plain), accuracy(both) - accuracy(balanced)
    yield THE["pruning-helps-the-long-tail-more"].at_least(
        on_tail - on_balanced,
        0.0,
        arm="pruned",
        why=f"{PAIRED} Gains in points: {_points(on_tail)} on the long tail, {_points(on_balanced)} balanced.",
    )
    rises = tail_minus_head(plain["doubt_added"]), tail_minus_head(balanced["doubt_added"])
    yield THE["pruning-doubts-the-tail"].at_least(
        rises[0] - rises[1],
        0.0,
        arm="plain",
        why=f"{PAIRED} Tail minus head: {rises[0].mean():+.4f} on the long tail, {rises[1].mean():+.4f} balanced.",
    )


def _points(difference: PerReplica) -> str:
    return f"{100 * difference.mean():+.2f}"


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""
    shown = {"after training on a long tail": "plain", "with pruning": "pruned"}
    if "balanced" in runs:
        shown["after training on balanced images"] = "balanced"
    shown["before training"] = "untrained"
    first, *others = (f"{100 * accuracy(runs[arm]).mean():.1f} % {words}" for words, arm in shown.items())
    accuracies = ", ".join([first.replace("%", "% of the test images", 1), *others])
    gain = next(claim for claim in claims if claim.id == "pruning-raises-accuracy")
    expected = [claim.verdict for claim in claims if claim.expected]
    return (
        f"A linear probe names {accuracies}; that pruning raises it {_words(gain)}; {expected.count('holds')} of the "
        f"{len(expected)} statements expected to hold at this size do."
    )


def _words(claim: Claim) -> str:
    return "is undecided" if claim.verdict == "undecided" else claim.verdict
