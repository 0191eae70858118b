"""What the code of a claim measured, as one value of each replica of the arms that it asked for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from featscope.claims.intervals import COUNTED, Law
from featscope.claims.soundness import holding


class ArmNotRunError(KeyError):
    """An arm was asked for that was not run."""


class Asked(Mapping[str, Any]):
    """Runs by arm, which knows the arms that were asked for."""

    def __init__(self, runs: Mapping[str, Any]) -> None:
        self.runs = runs
        self.arms: set[str] = set()

    def __getitem__(self, arm: str) -> Any:
        if arm not in self.runs:
            raise ArmNotRunError(arm)
        self.arms.add(arm)
        return self.runs[arm]

    def __contains__(self, arm: object) -> bool:
        return arm in self.runs

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


def require_one_a_replica(claim: str, samples: ArrayLike | float, runs: Iterable[Any]) -> None:
    """See that ``samples`` of a claim are as many as the replicas of one of ``runs``; a single number is of them all.

    Raises:
        ValueError: they are not.
    """
    shape = np.shape(samples)
    replicas = {run.sizes["replica"] for run in runs if "replica" in getattr(run, "sizes", ())}
    if len(shape) > 1:
        raise ValueError(f"{claim} measured an array of the shape {[*shape]}: expected one value a replica, [replica]")
    if shape and replicas and shape[0] not in replicas:
        counts = " or ".join(map(str, sorted(replicas)))
        raise ValueError(
            f"{claim} measured {shape[0]} values of {counts} replicas: expected one value a replica. Take a mean over "
            "the others, and leave NaN where a replica has none"
        )


def require_of_law(samples: np.ndarray, law: Law, trials: np.ndarray) -> None:
    """See that ``samples`` and ``trials`` ``[replica]`` are what a law is about.

    Raises:
        ValueError: a single number, which has no law but "exact"; a share or draws without trials, or not from 0 to 1;
            a yes or no that is neither 0 nor 1; trials below 0.
    """
    if samples.ndim == 0 and law != "exact":
        raise ValueError(f'a single number has no interval of a {law}: say law="exact" if no chance enters')
    if law in COUNTED and trials.shape != samples.shape:
        raise ValueError(f"law={law!r} needs how many things each replica counted: say things=... or Found(trials=...)")
    if (trials < 0).any():
        raise ValueError(f"some replica counted {trials[trials < 0].min():g} things: allowed is >= 0")
    finite = samples[np.isfinite(samples)]
    if law == "yes/no" and (other := finite[~np.isin(finite, (0.0, 1.0))]).size:
        raise ValueError(f"a yes/no is {other[0]:g} in some replica: allowed is 0 or 1. Compare it with a bound first")
    if law in COUNTED and holding((0.0, 1.0), samples) != (0.0, 1.0):
        far = finite[np.abs(finite - 0.5).argmax()]
        raise ValueError(f"a share is {far:g} in some replica: allowed is 0 to 1. Divide counts by what was counted")


def without_diverged(samples: ArrayLike | float, run: Any) -> ArrayLike | float:
    """NaN for replicas that diverged, at any point of the arm's axes, whatever a claim's code made of their NaN.

    Compared with anything it is False, and the largest of others is not the largest of all.
    """
    diverged = getattr(run, "data_vars", {}).get("diverged")
    if diverged is None or not (lost := diverged >= 0).any():
        return samples
    each, values = lost.any([dim for dim in lost.dims if dim != "replica"]).values, np.asarray(samples, np.float64)
    if values.ndim == 0:  # one number of all replicas
        return np.nan
    return np.where(each, np.nan, values) if values.shape == each.shape else samples
