"""From measurements to verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from featscope.claims import Claim
from featscope.studies.base import Runs
from featscope.studies.icl_attention.statements import STATEMENTS

if TYPE_CHECKING:
    from featscope.studies.icl_attention.study import IclAttention

THE = {statement.id: statement for statement in STATEMENTS}

Layout = Literal["correct", "wrong", "swapped", "unrelated"]
LAYOUTS: Mapping[Layout, str] = {
    "correct": "the right label",
    "wrong": "the wrong label",
    "swapped": "the right label, and the irrelevant sentence first",
    "unrelated": "the right label, and another irrelevant sentence in place of the relevant one",
}
CONTROLS: tuple[Layout, ...] = ("swapped", "unrelated")

UNIFORM, FOCUSED = "uniform", "focused"
HAND_SET: Mapping[str, float] = {UNIFORM: 1.0, FOCUSED: 0.1}
"""Weight on what is not the relevant sentence, which has 1."""
LARGE = 1e9
"""Parameters from which P's findings are expected; its smallest model has 13 billion."""
MAINLY, MORE = 0.5, 0.05
ROUNDING = 1e-6
FLOATS = "Tolerance: rounding of weights in float32."


def arm_name(model: str, layout: Layout) -> str:
    """Of a model's arm."""
    return f"{model}-{layout}"


def models(study: "IclAttention", runs: Runs) -> list[str]:
    """Short names of the models, smallest first by what was counted."""
    return sorted(study.short_names, key=lambda model: float(runs[arm_name(model, "correct")]["parameters"][0]))


def claims(study: "IclAttention", runs: Runs) -> Iterator[Claim]:
    """Models first, then what is known exactly."""
    names = models(study, runs)
    smallest, largest = names[0], names[-1]

    def size(model: str) -> float:
        return float(runs[arm_name(model, "correct")]["parameters"][0])

    def about(model: str) -> str:
        return f"Expected from {LARGE:.0e} parameters on; this model has {size(model):.2g}."

    if len(names) > 1:
        ids: dict[str, Layout] = {
            "larger-attends-to-both": "correct",
            "larger-attends-to-both-wrong-label": "wrong",
        }
        for id_, layout in ids.items():
            yield _both(
                runs,
                id_,
                arm_name(smallest, layout),
                arm_name(largest, layout),
                expected=size(smallest) >= LARGE,
                why=about(smallest),
            )
    arm = arm_name(smallest, "correct")
    yield THE["small-attends-to-relevant"].at_most(
        runs[arm]["ratio"].values, MAINLY, arm=arm, why=about(smallest), expected=size(smallest) >= LARGE
    )
    for model in names:
        ratios = {layout: runs[arm_name(model, layout)]["log_ratio"] for layout in ("correct", "unrelated")}
        arm = arm_name(model, "correct")
        yield THE["relevance-beyond-position"].at_most(
            (ratios["correct"] - ratios["unrelated"]).values,
            0.0,
            arm=arm,
            why=about(model),
            expected=size(model) >= LARGE,
        )
    for id_ in ("larger-attends-to-both", "larger-attends-to-both-wrong-label"):
        yield _both(runs, id_, FOCUSED, UNIFORM, expected=True, why="Hand-set readers, whom labels do not move.")
    for arm, expected in ((FOCUSED, True), (UNIFORM, False)):
        yield THE["small-attends-to-relevant"].at_most(
            runs[arm]["ratio"].values, MAINLY, arm=arm, why="A hand-set reader.", expected=expected
        )
    for arm, weight in HAND_SET.items():
        yield THE["normalised-is-exact"].equals(
            runs[arm]["normalised_ratio"].values, weight, ROUNDING, arm=arm, why=FLOATS
        )
        yield THE["raw-is-exact"].equals(runs[arm]["raw_over_lengths"].values, weight, ROUNDING, arm=arm, why=FLOATS)


def _both(runs: Runs, id_: str, small: str, large: str, *, expected: bool, why: str) -> Claim:
    more = runs[large]["ratio"] - runs[small]["ratio"]
    return THE[id_].at_least(more.values, MORE, arm=large, why=f"Compared with {small}. {why}", expected=expected)


def headline(study: "IclAttention", runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence a model."""
    parts = []
    for model in models(study, runs):
        ratios = [float(runs[arm_name(model, layout)]["ratio"].mean()) for layout in LAYOUTS]
        parts.append(
            f"{model}: the irrelevant sentence has {ratios[0]:.2f} times the norm of the relevant one "
            f"({ratios[1]:.2f} with the wrong label, {ratios[2]:.2f} if it comes first, {ratios[3]:.2f} beside another "
            "irrelevant sentence)"
        )
    return "; ".join(parts) + "."
