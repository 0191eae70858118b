"""The study of the prediction head, small: few starts, and arms that are cut where they show no more."""

from dataclasses import replace

from featscope.studies import Axis
from featscope.studies.prediction_head import PredictionHeadStudy
from featscope.testing import Trial

STUDY = PredictionHeadStudy(starts=16, duration=1e5, steps=2500)


def cheaper(name: str, **change):
    arm = STUDY.arm(name)
    return replace(arm, recipe=replace(arm.recipe, **change))


SIZES = Axis("data.input_dim", (100, 464, 2154, 10000)), Axis("data.weak", (2.0,))
CHEAPER = [
    *(cheaper(name, steps=40) for name in ("tied-head", "rare-weak", "both-features", "ratios")),
    cheaper("no-stop-gradient", duration=1e4),
    cheaper("equal-no-head", duration=300.0),
    replace(STUDY.arm("sizes"), over=SIZES),
    cheaper("batches", steps=1400),
    cheaper("batches-no-head", steps=1000),
    cheaper("frozen-head", steps=450),
    cheaper("batches-average", steps=500),
    cheaper("batches-average-no-head", steps=10),
    cheaper("batches-sphere", steps=1200),
    cheaper("random-batches", steps=10),
    cheaper("random-batches-no-head", steps=10),
]
"""Where the whole way would take long and shows no more of what is tested here."""
REPLICAS = {
    "widths": 4,
    "batches-sphere": 2,
    "batches": 8,
    "batches-flow": 8,
    "random-batches": 2,
    "random-batches-no-head": 2,
}
TRIAL = Trial(STUDY, replicas=4, more=REPLICAS, arms={arm.name: arm for arm in CHEAPER})
