"""From measurements to verdicts."""

from collections.abc import Callable, Iterator, Sequence
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray as xr

from featscope.claims import Claim, fitted_exponent
from featscope.studies.base import Runs
from featscope.studies.tensor_power.statements import STATEMENTS
from featscope.theory import tensor_power as theory

if TYPE_CHECKING:
    from featscope.studies.tensor_power.study import TensorPower

THE = {statement.id: statement for statement in STATEMENTS}

DELTAS = (0.01, 0.1, 0.5, 1.0)
DIMENSION = 100  # d, where log d is a lead
LITTLE_LEAD = 1.1
LEMMAS_APPLY = ("step-sizes", "starts", "steep", "large-factors")
SLOW, FAST = "wrong-power", "linear"  # controls that are judged by another power: sums are too large, too small
CHANCE = "Tolerance: chance in the last step, and second order in η; a stated choice."


class Judged(NamedTuple):
    """An arm as sums are judged on it.

    Attributes:
        name: the arm's.
        run: what was measured.
        step_size: η, along the arm's axis where it has one.
        level: A.
        power: q that the lemmas are told.
        weight: q' likewise.
        applies: whether they may be.
    """

    name: str
    run: xr.Dataset
    step_size: xr.DataArray | float
    level: float
    power: int
    weight: int
    applies: bool

    def limit(self, *, weighted: bool = False) -> xr.DataArray:
        """Σ η C_t, or Σ η C_t x_t^q', as η goes to 0."""
        return law(theory.sum_limit, self.run["leader_start"], self.level, self.power, self.weight if weighted else 0)

    def at(self, **where: float) -> "Judged":
        """One point of the arm's axis."""
        size = where.get("step_size", self.step_size)
        return self._replace(run=self.run.sel(where, drop=True), step_size=size)


def law(formula: Callable[..., Any], *numbers: xr.DataArray | float, **words: bool) -> xr.DataArray:
    """A closed form of labelled numbers."""
    return xr.apply_ufunc(lambda *values: formula(*values, **words), *numbers)


def judged(study: "TensorPower", runs: Runs) -> dict[str, Judged]:
    """All arms on which sums are judged, by name."""
    found = {}
    for arm in study.arms():
        if arm.name in LEMMAS_APPLY or arm.name in (SLOW, FAST):
            config, run, applies = arm.config, runs[arm.name], arm.name in LEMMAS_APPLY
            size = run["step_size"] if "step_size" in run.dims else config.step_size
            power = config.power if applies else study.cubic.power
            found[arm.name] = Judged(arm.name, run, size, config.level, power, config.weight, applies)
    return found


def claims(study: "TensorPower", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    arms = judged(study, runs)
    yield from _bounds(arms)
    yield from _limit(study, arms)
    yield from _powers(arms)
    yield from _rivals(study, runs)
    yield from _weighted(arms)
    yield from _square(arms)


def smallest(values: xr.DataArray) -> xr.DataArray:
    """Over everything but the replica; NaN if any is."""
    return values.min([dim for dim in values.dims if dim != "replica"], skipna=False)


def largest(values: xr.DataArray) -> xr.DataArray:
    """Over everything but the replica; NaN if any is."""
    return values.max([dim for dim in values.dims if dim != "replica"], skipna=False)


def mean(values: xr.DataArray) -> xr.DataArray:
    """Over sequences; NaN if any is."""
    return values.mean("sequence", skipna=False)


def _over_deltas(arm: Judged, name: str, bounds: Sequence[xr.DataArray]) -> xr.DataArray:
    limit = arm.limit(weighted=name == "weighted")
    return xr.concat([(arm.run[name] - bound) / limit for bound in bounds], "delta")


def _bounds(arms: dict[str, Judged]) -> Iterator[Claim]:
    which = f"δ in {DELTAS}."
    for name, arm in arms.items():
        run, plain = arm.run, arm.step_size * arm.level**arm.power
        where = run["leader_start"], arm.level, arm.power
        if name != SLOW:
            lower = [law(theory.sum_lower_bound, *where, delta, 0.0) for delta in DELTAS]
            yield THE["lower-bound"].at_least(
                smallest(_over_deltas(arm, "total", lower)), 0.0, arm=name, why=which, expected=arm.applies
            )
        if name != FAST:
            upper = [law(theory.sum_upper_bound, *where, delta, plain * run["factor"]) for delta in DELTAS]
            yield THE["upper-bound"].at_most(
                largest(_over_deltas(arm, "total", upper)), 0.0, arm=name, why=which, expected=arm.applies
            )
        if arm.applies:
            upper = [law(theory.sum_upper_bound, *where, delta, plain) for delta in DELTAS]
            yield THE["upper-bound-any-factor"].at_most(
                largest(_over_deltas(arm, "total", upper)),
                0.0,
                arm=name,
                why=f"{which} C_t is up to {float(run['factor'].max()):.3g}.",
                expected=name != "large-factors",
            )


def _limit(study: "TensorPower", arms: dict[str, Judged]) -> Iterator[Claim]:
    for name, arm in arms.items():
        start, end, total = (arm.run[of] for of in ("leader_start", "leader_end", "total"))
        if name != SLOW:
            yield THE["limit-is-a-floor"].at_least(
                smallest(total / arm.limit() - 1), 0.0, arm=name, expected=arm.applies
            )
        if name != FAST:
            ceiling = law(theory.sum_ceiling, start, end, arm.power, arm.run["ratio"])
            yield THE["limit-has-a-ceiling"].at_most(largest(total / ceiling - 1), 0.0, arm=name, expected=arm.applies)
    sizes = arms["step-sizes"]
    eta = sizes.run["step_size"].values
    finest = sizes.at(step_size=float(eta[0]))
    for arm in (finest, _largest_start(arms["linear"])):
        yield THE["small-step-limit"].equals(
            mean(arm.run["total"] / arm.limit()),
            1.0,
            float(arm.step_size),
            arm=arm.name,
            why=f"Tolerance: η = {float(arm.step_size):g}; by first-order-term the error is less.",
            expected=arm.applies,
        )
    excess = mean(sizes.run["total"] - sizes.limit()).transpose("replica", "step_size")
    yield THE["error-is-first-order"].equals(
        fitted_exponent(eta, excess.values), 1.0, 0.1, arm="step-sizes", why=CHANCE
    )
    start = finest.run["leader_start"]
    size_biased = study.scale * exp(study.spread**2)
    predicted = law(theory.sum_excess, start, study.level, study.power, eta[0], size_biased)
    yield THE["first-order-term"].equals(
        excess.isel(step_size=0) / mean(predicted), 1.0, 0.1, arm="step-sizes", why=CHANCE
    )


def _powers(arms: dict[str, Judged]) -> Iterator[Claim]:
    for arm in (arms["starts"], arms["linear"]):
        starts = arm.run["start"].values
        for claim, name, power in (
            ("time-goes-as-power", "total", 1 - arm.power),
            ("weighted-goes-as-power", "weighted", 1 + arm.weight - arm.power),
        ):
            beyond = arm.level**power / -power
            sums = mean(arm.run[name] + beyond).transpose("replica", "start").values
            yield THE[claim].equals(
                fitted_exponent(starts, sums),
                power,
                float(arm.step_size),
                arm=arm.name,
                why=f"Tolerance: η = {float(arm.step_size):g}.",
                expected=arm.applies,
            )


def _largest_start(arm: Judged) -> Judged:
    return arm.at(start=float(arm.run["start"][-1]))


def rival_growth(run: xr.Dataset) -> xr.DataArray:
    """y/y_0 at the last t with x_t <= A."""
    return run["rival_before"] / run["rival_start"]


def _rivals(study: "TensorPower", runs: Runs) -> Iterator[Claim]:
    sizes, rivals, k = runs["step-sizes"], runs["rivals"], study.power - 1
    eta = float(sizes["step_size"][0])
    finest = sizes.sel(step_size=eta)
    start = finest["rival_start"]
    ends = finest["leader_start"], finest["leader_end"]
    exact = law(theory.rival_inverse_power, start, *ends, study.strongest, study.power)
    yield THE["rival-follows-law"].equals(
        mean((finest["rival_end"] ** -k - exact) * start**k),
        0.0,
        eta,
        arm="step-sizes",
        why=f"Tolerance: η = {eta:g}; the error is of order η x_0^(q-1).",
    )
    for arm, run, power, error in (
        ("rivals", rivals.sel(lead=LITTLE_LEAD), study.power, study.step_size),
        ("step-sizes", sizes, study.power, float(sizes["step_size"].max())),
        ("overtaken", runs["overtaken"], study.power, study.step_size),
        (FAST, runs[FAST], study.cubic.power, study.step_size),
    ):
        yield THE["rival-stays-small"].at_most(
            largest(rival_growth(run)),
            float(theory.rival_ceiling(LITTLE_LEAD, power)) * (1 + error),
            arm=arm,
            why=f"1 + η = {1 + error:g} times that, as it is the limit of small η.",
            expected=arm in ("rivals", "step-sizes"),
        )
    for arm, run in (("rivals", rivals.sel(lead=log(DIMENSION))), ("overtaken", runs["overtaken"])):
        yield THE["rival-stands-still"].at_most(
            largest(rival_growth(run) - 1), log(DIMENSION) ** -k, arm=arm, expected=arm == "rivals"
        )


def _weighted(arms: dict[str, Judged]) -> Iterator[Claim]:
    sizes = arms["step-sizes"]
    for arm in (sizes.at(step_size=float(sizes.run["step_size"][0])), _largest_start(arms["linear"])):
        eta = float(arm.step_size)
        yield THE["weighted-limit"].equals(
            mean(arm.run["weighted"] / arm.limit(weighted=True)),
            1.0,
            eta * arm.power,
            arm=arm.name,
            why=f"Tolerance: q η = {eta * arm.power:g}; a step is up to η C_t.",
            expected=arm.applies,
        )
    for name, arm in arms.items():
        if name not in ("step-sizes", "starts", "steep", SLOW):
            continue
        plain = arm.step_size * arm.level**arm.power
        where = arm.run["leader_start"], arm.level, arm.power, arm.weight
        upper = [law(theory.weighted_upper_bound, *where, delta, plain) for delta in DELTAS]
        yield THE["weighted-upper-bound"].at_most(
            largest(_over_deltas(arm, "weighted", upper)), 0.0, arm=name, why=f"δ in {DELTAS}.", expected=arm.applies
        )
        if not arm.applies:
            continue
        for claim, mended in (("weighted-lower-bound", False), ("weighted-lower-bound-mended", True)):
            size = plain * (arm.run["factor"] if mended else 1.0)
            lower = [law(theory.weighted_lower_bound, *where, delta, size, mended=mended) for delta in DELTAS]
            yield THE[claim].at_least(
                smallest(_over_deltas(arm, "weighted", lower)),
                0.0,
                arm=name,
                why=f"δ in {DELTAS}, q = {arm.power}, q' = {arm.weight}.",
                expected=mended or name != "steep",
            )


def _square(arms: dict[str, Judged]) -> Iterator[Claim]:
    starts = arms["starts"]
    least = starts.at(start=float(starts.run["start"][0])).run
    allowed = law(theory.e8_allowance, least["leader_start"])
    apart = least["leader_end"] ** 2 - least["area"]
    yield THE["sum-is-square"].at_most(
        mean(abs(apart) / allowed),
        1.0,
        arm="starts",
        why=f"Bound: constants 1. x_T² - C is {float(apart.mean()):.3f}, and 1/2 in the limit x_T = 1, x_0 = 0.",
    )
    yield THE["sum-is-end"].at_most(
        mean(abs(least["leader_end"] - least["area"]) / allowed), 1.0, arm="starts", why="Bound: constants 1."
    )
    sizes = arms["step-sizes"]
    for arm, expected in (
        (_largest_start(starts), True),
        (sizes.at(step_size=float(sizes.run["step_size"][0])), True),
        (arms["large-factors"], False),
    ):
        end, start, area = (arm.run[of] for of in ("leader_end", "leader_start", "area"))
        eta = float(arm.step_size) * arm.level ** (arm.power - 1)
        yield THE["sum-is-half-the-square"].equals(
            mean(1 - (start**2 + 2 * area) / end**2),
            0.0,
            eta,
            arm=arm.name,
            why=f"Tolerance: η A^(q-1) = {eta:g}; squared steps add up to about η A^(q+1)/(q+1).",
            expected=expected,
        )


def headline(study: "TensorPower", runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""
    sizes = judged(study, runs)["step-sizes"]
    error = sizes.run["total"] / sizes.limit() - 1

    def percent(values: xr.DataArray) -> str:
        return f"{100 * float(values.mean()):.1g} %"

    growth = [float(rival_growth(runs["rivals"].sel(lead=lead)).max()) for lead in (LITTLE_LEAD, log(DIMENSION))]
    wrong = sorted({claim.id for claim in claims if claim.verdict == "fails" and claim.arm in ("starts", "steep")})
    return (
        f"Lemma G.1's sum is above its closed form by {percent(error.isel(step_size=-1))} at η = "
        f"{float(sizes.run['step_size'][-1]):g} and {percent(error.isel(step_size=0))} at η = "
        f"{float(sizes.run['step_size'][0]):g}. A rival grows at most {growth[0]:.2f} times behind a lead of 10 %, and "
        f"by {100 * (growth[1] - 1):.2g} % behind one of log {DIMENSION}. Wrong as printed: "
        f"{', '.join(wrong) or 'none'}."
    )
