"""From a claim at several sizes to its trend."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from featscope.claims.claim import Claim
from featscope.claims.intervals import COUNTED
from featscope.trends.fit import fit_trend
from featscope.trends.trend import Trend

FORETOLD = (4, 16)
"""Sizes that are told, over the ladder's largest."""

_FEWEST_REPLICAS = 2


Bears = Literal["value", "ratio", "difference"]
"""What of a claim can be compared across sizes: the value itself, where the prediction is the same at every size; its
ratio to the prediction; or its difference from it, in tolerances where these depend on the size."""


@dataclass(frozen=True, eq=False)
class ClaimTrend:
    """A claim at all sizes of a ladder, and what they say of larger ones.

    Attributes:
        sizes: the sizes that were run, ascending.
        claims: the claim at each.
        compared: what is compared, in words.
        samples: that, at each size and in each replica ``[size, replica]``.
        intervals: the claims' intervals of it ``[size, 2]``.
        trend: the trend; None where it cannot be fitted.
        silent: why nothing is said of larger sizes; empty if something is.
    """

    sizes: tuple[float, ...]
    claims: tuple[Claim, ...]
    compared: str
    samples: Float[np.ndarray, "size replica"]
    intervals: Float[np.ndarray, "size 2"]
    trend: Trend | None
    silent: str

    @property
    def sound(self) -> Float[np.ndarray, "size replica"]:
        """The samples of the replicas that measured it at every size, to which the trend is fitted."""
        return self.samples[:, np.isfinite(self.samples).all(axis=0)]

    def to_json(self) -> dict[str, Any]:
        """The trend as it stands in ``trends.json``; numbers that are not finite become null."""
        first, trend = self.claims[0], self.trend
        rungs = [
            {"size": size, "verdict": claim.verdict}
            | {name: claim.to_json()[name] for name in ("measured", "interval", "predicted", "tolerance")}
            for size, claim in zip(self.sizes, self.claims, strict=True)
        ]
        said: dict[str, Any] = {"id": first.id, "relation": first.relation, "compared": self.compared, "at": rungs}
        said["silent"] = self.silent
        if trend is None:
            return said
        crossing = trend.crossing()
        return said | {
            "foretold": [{"factor": factor} | _plain(trend.at(factor)._asdict()) for factor in FORETOLD],
            "direction": trend.direction()._asdict(),
            "crossing": None if crossing is None else _plain(crossing._asdict()),
            "families": trend.families,
            "surprise": _finite(trend.surprise),
        }


def trend_of(claims: Sequence[Claim], sizes: Sequence[float], bears: Bears) -> ClaimTrend:
    """The trend of a claim.

    Args:
        claims: the claim at each size.
        sizes: the sizes, ascending.
        bears: what is compared across sizes.

    Raises:
        ValueError: the claim does not bear it.
    """
    first, told = claims[0], tuple(float(size) for size in sizes)
    predicted = np.array([claim.predicted for claim in claims])
    tolerance = np.array([claim.tolerance for claim in claims])
    shift, scale = np.zeros_like(predicted), np.ones_like(predicted)
    compared, within = "measured", shared_range(claims)
    if bears == "ratio":
        if (predicted <= 0).any():
            raise ValueError(f"{first.id} bears no ratio: predictions are {predicted.tolist()}, not all positive")
        scale, compared, within = predicted, "measured over predicted", (0.0 if within[0] >= 0 else -np.inf, np.inf)
    elif bears == "difference":
        shift, compared, within = predicted, "measured minus predicted", (-np.inf, np.inf)
        if first.relation == "=" and not _same(tolerance) and (tolerance > 0).all():
            scale, compared = tolerance, f"{compared}, in tolerances"
    known = np.isfinite(predicted + tolerance if first.relation == "=" else predicted)
    if not known.all():
        silent = f"nothing finite is predicted at {told[known.argmin()]:.12g}"
        ends = np.array([claim.interval for claim in claims])
        return ClaimTrend(told, tuple(claims), "measured", _samples(claims), ends, None, silent)
    predicted, tolerance = (predicted - shift) / scale, tolerance / scale
    if not (_same(predicted) and _same(tolerance)):
        raise ValueError(
            f"{first.id}: its prediction or tolerance depends on the size, so that its ladder must declare a ratio or "
            "a difference"
        )
    samples = (_samples(claims) - shift[:, None]) / scale[:, None]
    intervals = (np.array([claim.interval for claim in claims]) - shift[:, None]) / scale[:, None]
    found = ClaimTrend(told, tuple(claims), compared, samples, intervals, None, "")
    sound, single = found.sound, _is_single(first)
    if sound.shape[1] < (1 if single else _FEWEST_REPLICAS):
        fewest = told[int(np.isfinite(samples).sum(axis=1).argmin())]
        few = f"fewer than {_FEWEST_REPLICAS} replicas measured it at every size (least at {fewest:.12g})"
        return replace(found, silent=f"it was not measured at {fewest:.12g}" if single else few)
    if first.law == "extreme":
        worst = "it is the worst of random draws, a number a size, of which it is not known how far chance moved it"
        return replace(found, silent=worst)
    replicas = samples.shape[1]
    if lost := int((~np.isfinite(samples[-1])).sum()):
        what = f"{lost} of {replicas} replicas did not measure it at the largest size, and the others are a selection"
        return replace(found, silent=what)
    trials = _trials(claims) if bears == "value" else None
    if trials is not None and not (counted := np.greater(trials, 0)).all():
        return replace(found, silent=f"nothing was counted at {told[counted.argmin()]:.12g}")
    if sound.shape[1] < replicas:
        found = replace(found, compared=f"{compared}, of {sound.shape[1]} of {replicas} replicas")
    trend = fit_trend(
        np.array(told),
        sound,
        first.relation,
        float(predicted[0]),
        float(tolerance[0]),
        trials=trials,
        within=within,
    )
    return replace(found, trend=trend, silent=trend.silent)


def shared_range(claims: Sequence[Claim]) -> tuple[float, float]:
    """Ends of what can be measured; none where they depend on the size, as larger ones may have others."""
    low, high = claims[0].range
    same_low, same_high = (len({claim.range[end] for claim in claims}) == 1 for end in (0, 1))
    return low if same_low else -np.inf, high if same_high else np.inf


def _trials(claims: Sequence[Claim]) -> Float[np.ndarray, " size"] | None:
    """What a replica counts at each size, on average, where the measurement is a share; else None."""
    if claims[0].law == "yes/no":
        return np.ones(len(claims))
    return np.array([np.mean(claim.trials) for claim in claims]) if claims[0].law in COUNTED else None


def _is_single(claim: Claim) -> bool:
    """Whether a trend of it follows one number a size: the verdict is about the worst of all, and so is the trend."""
    return claim.law in ("extreme", "exact")


def _samples(claims: Sequence[Claim]) -> Float[np.ndarray, "size replica"]:
    """Measurements of the replicas that every size has; one where no chance enters, and the worst of an extreme."""
    single = _is_single(claims[0])
    each = [(claim.measured,) if single or not claim.values else claim.values for claim in claims]
    fewest = min(map(len, each))
    return np.array([values[:fewest] for values in each], dtype=float)


def _same(values: Float[np.ndarray, " size"]) -> bool:
    return bool(np.allclose(values, values[0], rtol=1e-9, atol=0))


def _plain(named: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [_finite(end) for end in value] if isinstance(value, tuple) else _finite(value)
        for name, value in named.items()
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value
