"""Store what every study finds at a small size, and compare: `python tools/snapshot.py store|compare DIR [STUDY ...]`.

Kept as long as the frame is being redrawn: a study that is rewritten must find the same numbers, verdicts and figures.
"""

import gzip
import json
import shutil
import sys
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from featscope.threads import wait_without_spinning

wait_without_spinning()

import numpy as np
import xarray as xr

from featscope.commands.run import study_options
from featscope.runs.execute import run

SHAPES = "--data shapes --side 8 --batch 8 --steps 3 --probe-every 2"
SIZES = {
    "decoupling": "--data.features 12 --data.input-dim 128 --learner.width 48 --objective.anchors 64 "
    "--objective.negatives 32 --optimizer.weight-decay 0.01 --bias.growth 0.2 --steps 60 --probe-every 20",
    "imbalance": "--data.features 12 --data.input-dim 60 --data.activity 0.4 --learner.width 24 --objective.pairs 64 "
    "--optimizer.lr 0.05 --curve-steps 20 --steps 60",
    "pruning": "--data.features 8 --data.input-dim 32 --data.minority 3 --objective.pairs 64 --settling-steps 60 "
    "--steps 120",
    "prediction-head": "--starts 6 --duration 1e4 --steps 40",
    "tensor-power": "--sequences 3",
    "decoupling-images": "--data shapes --train 48 --test 32 --alexnet.width 4 --batch 8 --steps 3 --probe-every 2",
    "longtail-images": "--data shapes --imbalance 10 --largest 20 --probe 6 --test 5 --alexnet.width 4 --batch 8 "
    "--steps 3 --probe-every 2",
    "prediction-head-images": f"{SHAPES} --train 40 --test 24 --network.width 2 --projection.hidden 8 "
    "--projection.outputs 6",
    "gemfilter": "--lengths 96 128 --prompts 2 --keeps 32 64 --cost-lengths 300 400 --trained 128",
    "needle": "--lengths 96 160 --depths 3 --prompts 1",
    "longbench": "--examples 1",
    "icl-flipped-labels": "--items 16 --shots 4",
    "icl-attention": "--prompts 8",
}
SEEDS, REPLICAS = (0, 1), 3
TIMED = {"seconds", "whole_seconds", "first_seconds", "choice_seconds"}


def plain(value: Any) -> Any:
    """Figures and claims as JSON can hold them."""
    if is_dataclass(value):
        return {"type": type(value).__name__} | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray | np.generic | xr.DataArray):
        return np.asarray(value).tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def all_figures(study: Any, outcome: Any) -> list[Any]:
    from featscope.studies.summaries import identities

    return [*study.figures(outcome.runs), *identities(outcome.claims)]


def find(name: str, seed: int, out: Path) -> None:
    """Run a study and leave ``NAME.SEED.nc`` and ``NAME.SEED.json.gz`` in ``out``."""
    words = [*SIZES[name].split(), "--seed", str(seed), "--replicas", str(REPLICAS)]
    chosen, _, _ = study_options("run", name, words)
    with tempfile.TemporaryDirectory() as place:
        outcome = run(chosen.study, chosen.settings, Path(place) / "run")
        shutil.copy(Path(place) / "run/trajectory.nc", out / f"{name}.{seed}.nc")
    found = {
        "claims": [claim.to_json() for claim in outcome.claims],
        "figures": plain(list(all_figures(chosen.study, outcome))),
        "story": plain(chosen.study.story(outcome.runs, outcome.claims)),
    }
    with gzip.open(out / f"{name}.{seed}.json.gz", "wt") as file:
        json.dump(found, file)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two JSON values differ; keys that only the new one has are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{path}/{key} is gone" for key in old.keys() - new.keys()]
        return gone + [d for key in old.keys() & new.keys() for d in differences(old[key], new[key], f"{path}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i, (a, b) in enumerate(zip(old, new, strict=True)) for d in differences(a, b, f"{path}/{i}")]
    same = old == new or (old != old and new != new)
    return [] if same else [f"{path}: {str(old)[:150]!r} -> {str(new)[:150]!r}"]


def by_key(claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{claim['id']} ({claim['arm']})": claim for claim in claims}


def compare(name: str, seed: int, old: Path, new: Path) -> list[str]:
    """What is not as it was."""
    found = []
    for arm in sorted(xr.open_groups(old / f"{name}.{seed}.nc", engine="netcdf4")):
        a = xr.open_dataset(old / f"{name}.{seed}.nc", group=arm, engine="netcdf4")
        try:
            b = xr.open_dataset(new / f"{name}.{seed}.nc", group=arm, engine="netcdf4")
        except (OSError, KeyError):
            found.append(f"arm {arm} is gone")
            continue
        for variable in a.data_vars:
            if variable not in b:
                found.append(f"{arm}: {variable} is gone")
            elif not np.array_equal(a[variable].values, b[variable].values, equal_nan=a[variable].dtype.kind == "f"):
                found.append(f"{arm}: {variable} differs")
    stored = [json.loads(gzip.decompress((at / f"{name}.{seed}.json.gz").read_bytes())) for at in (old, new)]
    for one in stored:
        one["claims"] = by_key(one["claims"])
        one["figures"] = {figure["id"]: figure for figure in one["figures"]}
    return found + [line for line in differences(*stored) if not reworded(line)]


def reworded(line: str) -> bool:
    """Whether only words differ: titles and TeX of statements, how many claims hold, what intervals are."""
    return any(part in line for part in ("/statement:", "/caption:", "/headline", "/title:", "_label:", "/label:"))


def main() -> None:
    command, place, *names = sys.argv[1:]
    folder = Path(place)
    if command == "store":
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or SIZES:
            for seed in SEEDS:
                find(name, seed, folder)
        return
    with tempfile.TemporaryDirectory() as new:
        for name in names or SIZES:
            lost = 0
            for seed in SEEDS:
                find(name, seed, Path(new))
                for line in compare(name, seed, folder, Path(new)):
                    lost += 1
                    print(f"{name} seed {seed}: {line}")
            print(f"{name}: {'as it was' if not lost else f'{lost} differences'}")


if __name__ == "__main__":
    main()
