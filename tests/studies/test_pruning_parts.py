"""Parts of the study of pruning: what claims make of measurements by hand, and how options enter closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from small_pruning import STUDY, remembered

from featscope.losses import InfoNCE
from featscope.studies.pruning import Pruning, assumed
from featscope.studies.pruning.study import began, look_from
from featscope.theory.pruning import stated_factors
from featscope.training import ContrastivePairs, ProportionalBias

RATIOS, LOOKS = [0.0, 0.05, 0.125], [0, 100, 500]


def measured(id: str, arm: str, runs: dict[str, xr.Dataset], study: Pruning = STUDY) -> float:
    """What a claim makes of ``runs``."""
    (test,) = (test for test in study.tests if test.statement.id == id)
    return test.judge(study, arm, runs).measured


def at_start(**values: float) -> dict[str, xr.Dataset]:
    """What both arms of one step have, the same in two replicas."""
    run = xr.Dataset({name: ("replica", [value] * 2) for name, value in values.items()})
    return {"one-step": run, "one-step-noiseless": run}


def over_ratios(**values: list[list[float]]) -> xr.Dataset:
    """Two replicas alike, of each ratio what ``values`` has at `LOOKS`."""
    held = {name: (("replica", "ratio", "step"), np.array([each] * 2)) for name, each in values.items()}
    ends = {"last_step": [LOOKS[-1]] * 2, "pruning_began": [0, 0]}
    ended = {name: ("replica", end) for name, end in ends.items()}
    going = {"diverged": (("replica", "ratio"), [[-1] * len(RATIOS)] * 2)}
    return xr.Dataset(held | ended | going, {"replica": [0, 1], "ratio": RATIOS, "step": LOOKS})


# --- one step ---------------------------------------------------------------------------------------------------------


def test_what_is_gained_by_one_neuron_and_by_the_second_counts_by_the_smaller():
    for one, smaller in ((1.1, 0.1), (1.9, 0.1), (1.3, 0.3)):
        grown = at_start(growth_minority_whole=1.0, growth_minority_one=one, growth_minority_pruned=2.0)
        assert measured("monotone-in-ratio", "one-step", grown) == pytest.approx(smaller)


@pytest.mark.parametrize(("temperature", "scale", "over"), [(2.0, "tau", 1.0), (2.0, "1", 2.0), (0.5, "1", 0.5)])
def test_growth_by_the_miss_is_over_the_temperature_where_the_loss_is(temperature: float, scale: str, over: float):
    """L² p E[1 - ℓ'_p | j] = 16 · 0.03 · 0.5."""
    study = replace(STUDY, objective=ContrastivePairs(InfoNCE(temperature, scale), 128))
    run = at_start(growth_minority_whole=0.24 / over, presence=0.03, hardness_minority_whole=0.5)
    assert measured("growth-is-the-miss", "one-step-noiseless", run, study) == pytest.approx(1)


def test_printed_factors_are_those_of_the_arm_whose_step_is_measured():
    """One of eight features is rare there, and its frequency is not that of other arms."""
    data = STUDY.arm("one-step").recipe.data
    assert (data.minority, data.eps_min) == (1, 0.3) != (STUDY.data.minority, STUDY.data.eps_min)
    rare, common = stated_factors(1.0, 0.0, 1 / 8, 0.3, data.activity, 8)
    (test,) = (test for test in STUDY.tests if test.statement.id == "rare-growth-as-stated")
    for growth, verdict in ((1.001, "holds"), (0.999, "fails")):
        grown = [growth * (rare - 1) * (1 + tiny) for tiny in (-1e-6, 0.0, 1e-6)]
        run = xr.Dataset({"growth_minority_pruned": ("replica", grown)})
        assert test.judge(STUDY, "one-step", {"one-step": run}).verdict == verdict
    assert STUDY._stated() == pytest.approx((rare - 1, common - 1))


# --- where training ends ----------------------------------------------------------------------------------------------


def test_where_training_settles_is_asked_with_the_options_that_it_settles_by(monkeypatch: pytest.MonkeyPatch):
    """Thresholds are the last ones."""
    asked = {}

    def closed(*numbers, **options):
        asked.update(options, numbers=numbers)
        return np.ones(8)

    monkeypatch.setattr(assumed, "stationary_energies", closed)
    objective, bias = ContrastivePairs(InfoNCE(0.7, "1"), 96), ProportionalBias(0.1, 0.3, takes=50)
    replace(STUDY, objective=objective, bias=bias)._settled("tiers")
    activities, *rest = asked.pop("numbers")
    assert activities.tolist() == pytest.approx([0.1] * 6 + [0.02, 0.01])
    assert rest == [4, 0.05, 0.3, 96]
    assert asked == {"temperature": 0.7, "loss_scale": "1", "noise_variance": pytest.approx(0.05**2 / 4)}


def test_tiers_have_settled_in_the_last_quarter():
    """What they were before does not count."""
    data = STUDY.arm("tiers").recipe.data
    energies = remembered(
        0.1 * np.array(data.frequencies), 4, 0.05, 0.25, 128,
        temperature=1.0, loss_scale="tau", noise_variance=0.05**2 / 4,
    )  # fmt: skip
    steps = np.arange(0, 401, 50)
    late = steps > 300
    tiers = {"majority": energies[0], "next": energies[-2], "rarest": energies[-1]}
    held = {
        f"{tier}_energy": (("replica", "ratio", "step"), [[np.where(late, end, 9.0)] * 2] * 2)
        for tier, end in tiers.items()
    }
    run = xr.Dataset(held, {"ratio": [0.0, 0.125], "step": steps})
    assert measured("tiers-settle", "tiers", {"tiers": run}) == pytest.approx(1)


def test_networks_that_diverged_have_not_settled():
    """Though all of their features were as strong as each other."""
    level = [[1.0] * 3] * 3
    run = over_ratios(largest_energy=level, majority_energy=level)
    name = "random-start-direction"
    assert measured("settles-at-small-ratios", name, {name: run}) == 1
    run["diverged"][1, 1] = 400
    assert measured("settles-at-small-ratios", name, {name: run}) == 0.5


def test_pruning_by_direction_is_compared_with_none():
    """Not with pruning by norm, which may do harm."""
    by_norm = over_ratios(energy_ratio=[[0, 0, 0.5], [0, 0, 0.1], [0, 0, 0.1]])
    by_direction = over_ratios(energy_ratio=[[0, 0, 0.4], [0, 0, 0.7], [0, 0, 0.9]])
    runs = {"random-start": by_norm, "random-start-direction": by_direction}
    assert measured("random-start-direction", "random-start-direction", runs) == pytest.approx(0.2)


def test_pruning_has_begun_with_the_last_replica():
    run = over_ratios(overlap=[[np.nan] * 3, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    run["pruning_began"][:] = [20, 101]
    assert began(run) == 101
    assert look_from(run.overlap, 0.05, began(run)).values.tolist() == [0.3, 0.3]
    assert began(run.assign(pruning_began=run.pruning_began * 0 - 1)) == -1
