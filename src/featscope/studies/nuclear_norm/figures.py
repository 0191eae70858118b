"""The figures of the study, and what is said of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.figures import Curve, Curves, Panel
from featscope.studies.base import Runs, Story
from featscope.studies.nuclear_norm.arms import CROSSINGS, FIXED_NU, FREE_ERM, FREE_NU, MATCHED, PLANE
from featscope.studies.nuclear_norm.solved import DECAYS, LEVELS, NORMS, RATIOS
from featscope.studies.summaries import chart, curve, in_case, in_words, percent, verdict
from featscope.theory import nuclear_norm as theory

if TYPE_CHECKING:
    from featscope.studies.nuclear_norm.linear import LinearClaims

_PATHS = {"l2": "Weight decay", "nu": "Nuclear norm"}
_DRAWN = (0.05, 0.2, 0.5)
_RATIO = "environmental features, d - r, over r/(4γ²)"
_PENALTIES = [f"weight decay, λ = {x:g}" for x in DECAYS] + [f"nuclear norm, λ = {x:g}" for x in NORMS]


def boundary(runs: Runs) -> Curves:
    """The boundary at equal training losses, with both accuracies, and accuracies over the loss."""
    run, panels = runs[PLANE], []
    height = np.array([1.0, -1.0])
    for path, title in _PATHS.items():
        lines = []
        for level in _DRAWN:
            tilt = float(run[f"{path}_matched"].isel(level=LEVELS.index(level)).mean())
            inside, outside = theory.plane_accuracies(tilt)
            label = f"loss {level:g}: {100 * inside:.1f} % in, {100 * outside:.1f} % out"
            lines.append(Curve(label, -tilt * height, height))
        upright = Curve("x_1 alone: 100 %, 100 %", np.array([0.0, 1e-9]), height, dashed=True)
        limit = Curve("the mean: 94 %, 86 %", -theory.mean_tilt() * height, height, dashed=True)
        panels.append(Panel(title, "x_1, always with the label", "x_2, in 70 % or 30 %", [*lines, upright, limit]))
    accuracies = []
    for path, title in _PATHS.items():
        inside, outside = theory.plane_accuracies(run[f"{path}_matched"])
        for values, where in ((inside, "in"), (outside, "out of")):
            label = f"{title.lower()}, {where} domain"
            accuracies.append(curve(values, label, "level", x=np.array(LEVELS), dashed=where == "in"))
    panels.append(Panel("Accuracy", "training loss", "share of right answers", accuracies))
    return chart(
        "boundary",
        "At equal training loss, does the nuclear norm turn the boundary less?",
        "Decision boundaries of the plane at three training losses, and their accuracies in and out of domain. Upright "
        "is the boundary that uses x_1 alone.",
        *panels,
        claims=("matched-loss-ordering", "errors-stand-3-to-7", "lda-limit", "mean-limit"),
    )


def _over(values: xr.DataArray) -> list[Curve]:
    return [curve(values.isel(penalty=at), label, "ratio", x=np.array(RATIOS)) for at, label in enumerate(_PENALTIES)]


def dimensions(study: "LinearClaims", runs: Runs) -> Curves:
    """Accuracy out of domain over the number of environmental features."""
    panels = []
    for arm, (r, gamma) in CROSSINGS.items():
        run = runs[arm].isel(penalty=0)
        counts = xr.DataArray(study.arm(arm).recipe.learner.counts, dims="ratio")
        formula = xr.apply_ufunc(theory.ood_accuracy, run.alpha, run.beta, r, counts, gamma).mean("replica").values
        lines = [*_over(runs[arm].ood_accuracy), Curve("normal formula", np.array(RATIOS), formula, dashed=True)]
        marks = [(1.0, "crossing"), (4.0, "Proposition 6.3")]
        panels.append(Panel(f"r = {r}, γ = {gamma:g}", _RATIO, "accuracy out of domain", lines, marks=marks))
    return chart(
        "dimensions",
        "From which dimension on do weight decay and the nuclear norm fail out of domain?",
        "Accuracy out of domain over the number of environmental features.",
        *panels,
        claims=("ood-crossing", "gaussian-formula", "nuclear-norm-beats-weight-decay"),
    )


def weights(runs: Runs) -> Curves:
    """Share of the weight that environmental features have over dimension."""
    panels = []
    for arm, (r, gamma) in CROSSINGS.items():
        for name, about in (("alpha", "invariant"), ("beta", "environmental")):
            lines = _over(r**0.5 * runs[arm][name])
            panels.append(Panel(f"{about}, r = {r}, γ = {gamma:g}", _RATIO, f"weight of an {about} feature, √r", lines))
    return chart(
        "weights",
        "What weights do environmental features get, by weight decay and by the nuclear norm?",
        "Weights of a feature times √r over the number of environmental features.",
        *panels,
        claims=("nuclear-norm-drops-the-environment", "erm-l2-structure"),
    )


def descent(runs: Runs) -> Curves:
    """Accuracy, rank and head over steps of gradient descent."""
    names = {FREE_ERM: "ERM", FREE_NU: "nuclear norm", FIXED_NU: "nuclear norm, fixed head"}
    about = {
        "ood_accuracy": ("Out of domain", "accuracy"),
        "rank_one": ("Rank of the features", "second singular value over the first"),
        "head_norm": ("Norm of the head", "‖a‖"),
    }
    panels = [
        Panel(title, "step", label, [curve(runs[arm][name], named) for arm, named in names.items()])
        for name, (title, label) in about.items()
    ]
    return chart(
        "descent",
        "Does gradient descent turn the boundary upright without a penalty, too?",
        "From the same features; a fixed head is all ones, a free one starts at random, and may grow while "
        "the features shrink.",
        *panels,
        claims=("descent-turns-the-boundary-upright", "features-become-rank-one", "scale-degeneracy"),
    )


def story(runs: Runs, claims: Sequence[Claim]) -> Story:
    """Which boundary, at what accuracies, and what of the theory is about the nuclear norm."""
    run, at = runs[PLANE], LEVELS.index(MATCHED)
    accuracies = [
        [percent(one) for one in theory.plane_accuracies(run[f"{path}_matched"].isel(level=at))]
        for path in ("l2", "nu")
    ]
    (_, decay), (_, norm) = accuracies
    words = {"holds": "turns the boundary less", "fails": "does not turn the boundary less"}
    own = verdict(claims, f"matched-loss-ordering@{PLANE}")
    crossing, drops = "ood-crossing@dimensions", "nuclear-norm-drops-the-environment@dimensions"
    printed, scale = f"toy-as-printed@{PLANE}", f"scale-degeneracy@{FREE_NU}"
    tilts = [in_words(run[f"{path}_matched"].isel(level=at)) for path in ("l2", "nu")]
    return Story(
        f"At equal training loss the nuclear norm {words.get(own, 'is not known to turn the boundary less')}: "
        f"{norm} right out of domain against {decay} with weight decay.",
        "One feature always agrees with the label, the other one in 70 % of cases in training and in 30 % out of "
        f"domain. The tilt of the boundary is how much of the second is used: at a training loss of {MATCHED:g} it "
        f"is {tilts[0]} with weight decay and {tilts[1]} with the nuclear norm. Errors in and out of domain stand 3 "
        "to 7 for every boundary.",
        {
            f"matched-loss-ordering@{PLANE}": "",
            crossing: in_case(
                claims,
                crossing,
                "A quarter of the dimension that the proposition asks for.",
                "Not at a quarter of the dimension that the proposition asks for.",
            ),
            drops: in_case(claims, drops, "What the theory shows of a bounded rank only.", ""),
            printed: in_case(
                claims,
                printed,
                "The printed pair of accuracies is possible.",
                "The printed pair of accuracies is not possible.",
            ),
            scale: in_case(claims, scale, "Fix the head, or bound it.", ""),
        },
    )
