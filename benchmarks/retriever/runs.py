"""Studies that ask the small model: their tables and pictures."""

import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from benchmarks.marked import DOCS, table
from featscope.language.load import RETRIEVER_LAYER
from featscope.language.methods import METHODS
from featscope.report.claim_view import views
from featscope.runs.stored import read_claims, read_environment, read_trajectory
from featscope.studies.gemfilter import GemFilterStudy

verdicts_of = runpy.run_path(str(DOCS / "verdict_table.py"))["table"]


class Shown(NamedTuple):
    """What the page of a study shows of its run, beside verdicts.

    Attributes:
        tables: by name.
        pictures: figure -> file below docs/images.
        seeds: that are run; tables are of the first.
    """

    tables: dict[str, Callable[[Path], str]]
    pictures: dict[str, str]
    seeds: tuple[int, ...] = (0,)


def mean_scores(folder: Path) -> str:
    """Of each way of reading, best first."""
    runs = {arm: run for arm, run in read_trajectory(folder).items() if "normalised" in run}
    means = {arm: (float(run.normalised.mean()), float(run.exact.mean())) for arm, run in runs.items()}
    ranked = sorted(means, key=lambda arm: (arm == "no-needle", -means[arm][0]))
    heading = ["arm", "mean normalised score", "answered whole"]
    return table(heading, [[f"`{arm}`", *(f"{mean:.3f}" for mean in means[arm])] for arm in ranked])


def scores_by_length(folder: Path) -> str:
    """Of each method, best first."""
    means = _means(folder)
    score, whole = (means[name].transpose("method", "length").values for name in ("score", "exact"))
    shown = np.column_stack([score, whole.mean(1)])
    rows = [[of.label, *(f"{one:.2f}" for one in row)] for of, row in zip(METHODS.values(), shown, strict=True)]
    return table(
        [*_LENGTHS, "answered whole, all lengths"], [rows[i] for i in np.argsort(-score.mean(1), kind="stable")]
    )


def choices_by_length(folder: Path) -> str:
    """Shares of prompts in which the filter layer, and the best other one, choose the needle; and the last token."""
    run = _means(folder)
    covered, layer = run.covered.transpose("layer", "length").values, RETRIEVER_LAYER
    other = max((i for i in range(len(covered)) if i != layer), key=lambda i: covered[i].mean())
    rows = {
        f"layer {layer} chooses of the needle": covered[layer],
        f"layer {other}, the next best, does": covered[other],
        f"layer {layer} chooses the last token": run.last_kept.isel(layer=layer).values,
    }
    return table(_LENGTHS, [[name, *(f"{one:.2f}" for one in shares)] for name, shares in rows.items()])


_LENGTHS = ["tokens", *map(str, GemFilterStudy().lengths)]


def _means(folder: Path) -> xr.Dataset:
    """Of the arm that asks the small model, over replicas."""
    return read_trajectory(folder)["retrieval"].mean("replica")


STUDIES: dict[str, Shown] = {
    "needle": Shown({"scores": mean_scores}, {"grids": "needle-grids.png", "unseen": "needle-unseen.png"}, (0, 1)),
    "gemfilter": Shown(
        {"scores": scores_by_length, "choices": choices_by_length},
        {"layers": "gemfilter-layers.png", "scores": "gemfilter-scores.png"},
    ),
    "longbench": Shown({}, {}),
    "icl-attention": Shown({}, {}),
    "icl-flipped-labels": Shown({}, {}),
}


def made(name: str, out: Path) -> dict[str, dict[str, str]]:
    """Run a study, copy its pictures, and give its tables."""
    shown, folders = STUDIES[name], []
    for seed in shown.seeds:
        folders.append(out / f"{name}-{seed}")
        command = str(Path(sys.executable).with_name("featscope"))
        run = [command, "run", name, "--seed", str(seed), "--out", str(folders[-1])]
        subprocess.run([*run, *(["--overwrite"] if folders[-1].exists() else [])], check=True)
    first = folders[0]
    for figure, file in shown.pictures.items():
        shutil.copy(first / "figures" / f"{figure}.png", DOCS / "images" / file)
    tables = {"claims": f"{_when(first)}\n\n{verdicts_of(first)}"}
    tables |= {which: of(first) for which, of in shown.tables.items()}
    if len(folders) > 1:
        tables["seeds"] = other_verdicts(*folders)
    return {f"studies/{name}.md": tables}


def _when(folder: Path) -> str:
    """How long it took, and when."""
    about = read_environment(folder)
    return (
        f"{about['seconds']:.0f} seconds on {about['cores']} cores of {about['processor']}, {datetime.now(UTC).date()}."
    )


def other_verdicts(one: Path, other: Path) -> str:
    """Claims whose verdicts differ between two runs, with what was measured."""
    sides = [
        {f"{view.claim.id}@{view.claim.arm}": view for view in views(read_claims(folder), labels={}, controls=())}
        for folder in (one, other)
    ]
    rows = [
        [f"`{key}`", *(f"{side[key].measured}<br>{side[key].interval}<br>{side[key].claim.verdict}" for side in sides)]
        for key, view in sides[0].items()
        if view.claim.verdict != sides[1][key].claim.verdict
    ]
    said = f"Of {len(sides[0])} verdicts {len(rows)} differ between two seeds."
    return f"{said}\n\n{table(['claim', one.name, other.name], rows)}" if rows else said
