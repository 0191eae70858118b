"""The figures of the study, described for the report to draw."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curves, Panel
from featscope.studies.base import Runs
from featscope.studies.domain_generalisation.arms import (
    LABELS,
    STRENGTHS,
    Norm,
    accuracy,
    by_target,
    chosen,
    rank,
)
from featscope.studies.domain_generalisation.published import COLUMNS, TABLE_E2
from featscope.studies.domain_generalisation.recipe import LEFT_OUT
from featscope.studies.summaries import bars, chart, curve, side_by_side, without_intervals

_ACCURACY = "accuracy in the domain left out (%)"


def accuracies(runs: Runs, said: str) -> Bars:
    """Every algorithm, plain and with penalties."""
    arms = [arm for arm in LABELS if arm in runs]
    each = {
        "plain": accuracy,
        "NU, 0.01": lambda run: accuracy(run, "nuclear"),
        "NU, chosen": lambda run: chosen(run, "nuclear"),
        "Frobenius, 0.01": lambda run: accuracy(run, "frobenius"),
        "Frobenius, chosen": lambda run: chosen(run, "frobenius"),
    }
    return bars(
        "accuracies",
        "Accuracy in a domain that was left out",
        f"{said}Means over the domains, each left out once. The strength is 0.01, or chosen on what is held out of the "
        "training domains.",
        [LABELS[arm] for arm in arms],
        {label: side_by_side([of(runs[arm]) for arm in arms]) for label, of in each.items()},
        _ACCURACY,
        within=(0.0, 100.0),
        claims=("classes-are-recognised", "a-new-domain-costs-accuracy"),
    )


def gains(runs: Runs, said: str) -> Bars:
    """What penalties gain over the same algorithm without; beside it, where domains are PACS's, what is printed."""
    arms = [arm for arm in LABELS if arm in runs]
    paper = _is_pacs(runs, said)
    each = {
        "NU, 0.01": lambda run: accuracy(run, "nuclear") - accuracy(run),
        "NU, chosen": lambda run: chosen(run, "nuclear") - accuracy(run),
        "Frobenius, chosen": lambda run: chosen(run, "frobenius") - accuracy(run),
    }
    made = bars(
        "gains",
        "What penalties gain",
        f"{said}Differences to the same algorithm without a penalty, paired by replica."
        + (" Beside them what Table E.2 prints for PACS, with another network, all of it trained." if paper else ""),
        [LABELS[arm] for arm in arms],
        {label: side_by_side([of(runs[arm]) for arm in arms]) for label, of in each.items()},
        "difference (points)",
        references=[(0.0, "equal")],
        claims=(
            "nu-beats-erm",
            "nu-changes-little",
            "nu-beats-erm-at-the-chosen-strength",
            "nu-beats-mixup",
            "nu-beats-swad",
            "nu-beats-frobenius",
        ),
    )
    if paper:
        found = [TABLE_E2[f"{arm}, NU"][1] - TABLE_E2[arm][1] if f"{arm}, NU" in TABLE_E2 else np.nan for arm in arms]
        made.series["NU, printed"] = without_intervals(found)
    return made


def strengths(run: xr.Dataset, said: str) -> Curves:
    """ERM over λ: accuracy, and three ranks."""
    at = np.array(STRENGTHS)

    def both(title: str, label: str, of: Callable[..., xr.DataArray]) -> Panel:
        def over(norm: Norm) -> xr.DataArray:
            return side_by_side([of(norm, strength) for strength in STRENGTHS])

        lines = [
            curve(over("nuclear"), "NU", "group", x=at),
            curve(over("frobenius"), "Frobenius", "group", x=at),
            curve(side_by_side([of()] * len(STRENGTHS)), "plain", "group", x=at, dashed=True),
        ]
        return Panel(title, "strength λ", label, lines, log_x=True)

    names = {
        "raw_rank": ("Stable rank", "stable rank"),
        "centred_rank": ("Stable rank, centred", "stable rank"),
        "entropy_rank": ("By entropy", "effective number of directions"),
    }
    return chart(
        "strengths",
        "What the strength does",
        f"{said}ERM, means over the domains left out; ranks are of features there.",
        both("Accuracy", _ACCURACY, partial(accuracy, run)),
        *(both(title, y, partial(rank, run, kind)) for kind, (title, y) in names.items()),
        claims=(
            "lambda-window-ends",
            "stable-rank-falls",
            "stable-rank-rises",
            "centred-stable-rank-falls",
            "entropy-rank-falls",
        ),
    )


def by_domain(runs: Runs, said: str) -> Bars:
    """ERM and SWAD in each domain; beside them what is printed for PACS, where domains are called as its are."""
    domains = _domains(runs["erm"].accuracy)
    paper = _is_pacs(runs, said)
    series = {}
    for arm in ("erm", "swad"):
        if arm in runs:
            series[LABELS[arm]] = by_target(runs[arm]).rename(target="group")
            series[f"{LABELS[arm]}, NU 0.01"] = by_target(runs[arm], "nuclear").rename(target="group")
    made = bars(
        "by-domain",
        "Each domain",
        f"{said}The domain left out."
        + (" Beside it Table E.2, with another network, all of it trained." if paper else ""),
        domains,
        series,
        _ACCURACY,
        within=(0.0, 100.0),
        claims=("printed-gains-exceed-their-errors", "nu-leads-the-printed-alternatives"),
    )
    if paper:
        for key, label in (("erm", "ERM, printed"), ("erm, NU", "ERM, NU, printed")):
            made.series[label] = without_intervals(TABLE_E2[key][0])
    return made


def _is_pacs(runs: Runs, said: str) -> bool:
    """Whether domains are called as PACS's are, so that what is printed of it may stand beside them."""
    return not said and "erm" in runs and has_names_of_pacs(runs["erm"])


def has_names_of_pacs(run: xr.Dataset) -> bool:
    """Whether the domains of an arm are called as PACS's are; not those of runs stored before names were."""
    return _domains(run.accuracy) == list(COLUMNS)


def _domains(accuracies: xr.DataArray) -> list[str]:
    """Their names, which stand in what is said of accuracies; numbers in runs that were stored before they did."""
    names = str(accuracies.attrs.get("long_name", "")).removeprefix(LEFT_OUT).split(", ")
    count = accuracies.sizes["target"]
    return names if len(names) == count else [f"domain {place + 1}" for place in range(count)]
