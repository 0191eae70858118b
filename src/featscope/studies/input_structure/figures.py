"""The figures of the study."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curves, Panel
from featscope.studies.base import Runs
from featscope.studies.input_structure.arms import (
    COVARIANCE,
    FOREIGN,
    FRACTIONS,
    PHOTOS_FOREIGN,
    PHOTOS_WHITE,
    SAME,
    WHITE,
    WIDE,
    InputStructureArms,
)
from featscope.studies.summaries import bars, chart, curve

_TITLES = {
    WHITE: "Digits and white Gaussians",
    COVARIANCE: "Gaussians of the digits' covariance",
    FOREIGN: "Digits and photographs in grey",
    SAME: "Digits and more digits",
    FRACTIONS[0.25]: "A quarter white Gaussians",
    FRACTIONS[0.75]: "Three quarters white Gaussians",
    WIDE: "A student of 50 units",
    PHOTOS_WHITE: "Photographs and white Gaussians",
    PHOTOS_FOREIGN: "Photographs and another data set",
}
_PARTS = {"original": "real inputs", "injected": "injected inputs"}


def learning(study: InputStructureArms, runs: Runs) -> Curves:
    """Figures 2.4 and A.18 to A.21: accuracy on each part over steps."""
    panels = []
    for arm, title in _TITLES.items():
        if arm not in runs:
            continue
        run, learner = runs[arm], study.arm(arm).recipe.learner
        x, share = np.array(learner.looks, dtype=float), study.share_injected(arm, run)
        mixture = (1 - share) * run.original + share * run.injected
        lines = [curve(run[name], label, "look", x=x, within=(0, 1)) for name, label in _PARTS.items()]
        lines.append(curve(mixture, "the mixture", "look", x=x, within=(0, 1)))
        lines.append(curve(run.alone, "real inputs, trained on alone", "look", x=x, dashed=True, within=(0, 1)))
        panels.append(Panel(title, "training step", "agrees with the teacher", lines))
    return chart(
        "learning",
        "What a student learns of real and of injected inputs",
        "Share of test inputs that the student labels as its teacher does, over steps; dashed, a student that saw real "
        "inputs only.",
        *panels,
        claims=("injected-part-is-worse", "injected-part-is-slower", "original-part-as-alone", "mixture-below-alone"),
    )


def sizes(study: InputStructureArms, run: xr.Dataset) -> Curves:
    """Figure A.22: loss over size of teachers on images and of students on Gaussians."""
    x = np.array(study.sizes, dtype=float)
    images = [
        curve(run.loss, "all images", "size", x=x),
        curve(run.loss_of_fewer, "a quarter of them", "size", x=x),
    ]
    names = ["the chosen teacher", f"teacher of {study.larger} units"]
    students = [curve(run.student_loss.isel(teacher=i), name, "size", x=x) for i, name in enumerate(names)]
    middle = float(np.exp(np.log(run.chosen).mean()))
    right = [curve(run.right, "teachers on images", "size", x=x, within=(0, 1))]
    right += [
        curve(run.student_right.isel(teacher=i), f"on Gaussians, {name}", "size", x=x, within=(0, 1))
        for i, name in enumerate(names)
    ]
    units, marks = "hidden units", [(middle, "chosen")]
    return chart(
        "sizes",
        "Loss over size, of teachers on images and of students on Gaussians",
        "Test loss and accuracy over size (Figure A.22). The classical regime ends at the first size that fits 99 % of "
        "what it is trained on; 'chosen' is the geometric mean of sizes at its minimum.",
        Panel("Teachers on images", units, "test loss", images, marks, log_x=True),
        Panel("Students on labelled Gaussians", units, "test loss", students, marks, log_x=True, log_y=True),
        Panel("Accuracy", units, "share of right answers", right, marks, log_x=True),
        claims=(
            "loss-descends-twice",
            "minimum-grows-with-samples",
            "student-minimum-at-teacher-size",
            "student-minimum-grows-with-teacher",
            "accuracy-has-no-minimum",
        ),
    )


def endings(runs: Runs, arms: Sequence[str]) -> Bars:
    """Accuracy on each part at the end, with the share of the most frequent label."""
    shown = {name: [runs[arm][name].isel(look=-1) for arm in arms] for name in ("original", "injected", "alone")}
    shown["majority"] = [runs[arm].majority for arm in arms]
    labels = {**_PARTS, "alone": "real inputs, trained on alone", "majority": "most frequent injected label"}
    series = {
        labels[name]: xr.concat(values, "arm", coords="minimal", compat="override") for name, values in shown.items()
    }
    return bars(
        "endings",
        "Where students end on each part",
        "Share of test inputs that the student labels as its teacher does, after the last step.",
        [arm.replace("-", " ").replace("=", " ") for arm in arms],
        series,
        "agrees with the teacher",
        within=(0, 1),
        claims=("injected-part-is-learned-at-all", "foreign-images-help-more-than-noise", "covariance-is-structure"),
    )
