"""Parts of the study of the prediction head: what claims make of trajectories set by hand, and averaged targets."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from small_prediction_head import STUDY

from featscope.data import PatchFeatures
from featscope.models import CubicPatches, IdentityInit, Online
from featscope.streams import Streams
from featscope.studies.prediction_head import PredictionHeadStudy, probes
from featscope.studies.prediction_head.objectives import PredictAverage
from featscope.studies.prediction_head.probes import MOMENTS
from featscope.theory import prediction_head as theory
from featscope.training.infinite_batches import moments
from featscope.training.phases import QUANTITIES

BOTH = {"diverse": 1.0, "predicted_collapse": 1.0}


def measured(id: str, runs: dict[str, xr.Dataset], arm: str) -> float:
    (test,) = (test for test in PredictionHeadStudy.tests if test.statement.id == id)
    return test.judge(STUDY, arm, runs).measured


def starts(**values: float | list[float]) -> xr.Dataset:
    """Two replicas alike of starts with these numbers."""
    columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
    axes = ("replica", "start")
    held = {name: (axes, np.array([each, each], dtype=float)) for name, each in zip(values, columns, strict=True)}
    return xr.Dataset(held, {"replica": [0, 1]})


def paths(head: list[list[float]], time: list[float] | None = None) -> xr.Dataset:
    """Two replicas alike of one path: E_12 and E_21 at looks, which are at every tenth step."""
    steps = 10 * np.arange(len(head))
    found = xr.Dataset(
        {
            "head": (("replica", "step", "path", "neuron"), np.array([head] * 2)[:, :, None]),
            "last_step": ("replica", [int(steps[-1])] * 2),
        },
        {"replica": [0, 1], "step": steps},
    )
    return found if time is None else found.assign(time=(("replica", "step", "path"), np.array([time] * 2)[..., None]))


# --- flow -------------------------------------------------------------------------------------------------------------


def test_the_head_is_bounded_by_the_length_of_the_slow_neuron_not_its_square():
    """The first start has ‖w_2‖ = 2, the second 1/2."""
    root = (STUDY.head.rate / 3) ** 0.5
    run = starts(**BOTH, slow_norm=[4.0, 0.25], head_peak=[0.9 * 2 * root, 0.6 * 0.5 * root])
    assert measured("peak-of-the-head", {"head": run}, "head") == pytest.approx(0.9)


def test_noise_decays_from_when_the_feature_is_learned():
    learned, data = 0.9 * STUDY.duration, moments(STUDY.data)
    end = theory.noise_decay(STUDY.duration - learned, 1.0, 0.95, 0, data, STUDY.data.noise_std)
    run = starts(
        collapsed=1.0, mixed=0.0, start_noise=1.0, end_noise=end, end_overlap=0.95, time_strong_learned=learned
    )
    assert float(end) < 0.5
    assert measured("noise-decays", {"no-head": run}, "no-head") == pytest.approx(1)


def test_what_the_head_has_when_the_strong_feature_is_learned_knows_the_noise_of_each_neuron():
    fast, slow, reached, noise, slow_noise = 0.03, 0.01, 0.5, 0.9, 1.1
    head = float(theory.head_at_phase_one(slow, fast, reached, noise, slow_noise, STUDY.head.rate))
    at = np.zeros((len(MOMENTS), len(QUANTITIES)))
    for moment, quantity, value in (
        ("start", "B_21", slow), ("start", "B_11", fast), ("T1", "B_11", reached), ("T1", "E_21", head),
    ):  # fmt: skip
        at[MOMENTS.index(moment), QUANTITIES.index(quantity)] = value
    run = starts(**BOTH, start_noise=noise, slow_noise=slow_noise)
    run = run.assign(moments=(("replica", "start", "moment", "quantity"), np.array([[at]] * 2))).expand_dims(
        {"input_dim": [100, 1000], "weak": [1.0, 2.0]}
    )
    assert measured("head-at-phase-one", {"sizes": run}, "sizes") == pytest.approx(1)


def test_a_neuron_that_has_learned_nothing_has_not_collapsed():
    """Of 64 neurons 48 have learned the strong feature, the others lean towards it."""
    overlap = torch.tensor([[0.9] * 48 + [0.2] * 16, [0.01] * 64])[None].double()
    feature, pure = torch.zeros(1, 64, dtype=torch.long), torch.ones(1, 64, dtype=torch.bool)
    parameters = SimpleNamespace(b=overlap, features=(feature, pure))
    learner = SimpleNamespace(order_parameters=parameters, state=torch.zeros(1, 64, 3))
    found = probes.widths(SimpleNamespace(learner=learner))["all_collapsed"].values[0]
    assert found.tolist() == [0.75] * 5 + [0.5, 0.0]


D, LOG, ROOT = STUDY.data.input_dim, np.log(STUDY.data.input_dim), STUDY.head.rate**0.5
SMALL = LOG * D**-0.5
AS_IT_SHOULD = (
    {"B_11": 0.1, "B_12": 0.1, "B_21": 0.1, "B_22": 0.1, "R_1": 1, "R_2": 1, "R_12": 0.1, "E_12": 0.1, "E_21": 1e-3},
    {"B_11": 1, "B_12": 0.1, "B_21": 0.1, "B_22": 0.1, "R_1": 0.5, "R_2": 0.5, "R_12": 0.1, "E_12": 0.1, "E_21": 0.1},
    {"B_11": 1, "B_12": 0.1, "B_21": 0.1, "B_22": 0.1, "R_1": 0.1, "R_2": 0.1, "R_12": 0.1, "E_12": 0.1, "E_21": 0.1},
    {"B_11": 1, "B_12": 0.1, "B_21": 0.1, "B_22": 1, "R_1": 0.1, "R_2": 0.1, "R_12": 0.1, "E_12": 0.1, "E_21": 1e-5},
)
"""Of each phase; moments have what the phase has that begins there, the end what the last has."""
CHANGES = {
    "first-phase": {
        "B_11": [0.09 / LOG], "B_12": [0.121], "B_21": [0.11 * LOG, 0.09 / LOG], "B_22": [0.079],
        "R_1": [11], "R_2": [0.09], "R_12": [1.1 * SMALL], "E_12": [1.1 * SMALL],
        "E_21": [-1.1 * LOG * STUDY.head.rate / D, 1.1 * LOG * STUDY.head.rate / D],
    },
    "second-phase": {
        "B_11": [0.09], "B_12": [0.121], "B_21": [0.079], "B_22": [0.121],
        "R_1": [0.9 * D**-0.75 / STUDY.data.strong**2 / LOG], "R_2": [0.9 * ROOT / LOG],
        "R_12": [1.1 * STUDY.data.strong * SMALL], "E_12": [1.1 * SMALL], "E_21": [1.1 * ROOT],
    },
    "third-phase": {
        "B_11": [11], "B_12": [0.079], "B_21": [0.121], "B_22": [0.079],
        "R_1": [0.09 / D, 1.1 * LOG * D**-0.75], "R_2": [0.9 * D**-0.5 / LOG, 1.1 * ROOT],
        "E_12": [1.1 * SMALL], "E_21": [0.09 * ROOT, 1.1 * ROOT],
    },
    "weak-grows-noise-falls": {"B_22": [0.098], "R_2": [0.102]},
    "end-phase": {
        "B_11": [0.09], "B_12": [-1.1 * SMALL], "B_21": [1.1 * SMALL], "B_22": [11],
        "R_1": [0.102], "R_2": [0.102], "E_21": [-1.1 * ROOT, 1.1 * ROOT],
    },
}  # fmt: skip
"""What quantities must not reach in the phase, each by itself."""
WHEN = {"first-phase": 0, "second-phase": 1, "third-phase": 2, "weak-grows-noise-falls": 2, "end-phase": 3}


def phases(
    name: str = "B_11", value: float = 1.0, phase: int | None = None, at_end: float = 1e-5
) -> dict[str, xr.Dataset]:
    """A start that the head rescues: all as it should be, but that one quantity gets to a value once in a phase."""
    usual = np.array([[float(each[quantity]) for quantity in QUANTITIES] for each in AS_IT_SHOULD])
    at, low, high, place = usual[[0, 1, 2, 3, 3]], usual.copy(), usual.copy(), QUANTITIES.index(name)
    at[MOMENTS.index("end"), QUANTITIES.index("E_21")] = at_end
    if phase is not None:
        low[phase, place], high[phase, place] = min(low[phase, place], value), max(high[phase, place], value)
    run = starts(**BOTH, time_substituted=2.0, time_weak_learned=3.0)
    held = {"moments": ("moment", at), "low": ("phase", low), "high": ("phase", high)}
    axes = {each: ("replica", "start", along, "quantity") for each, (along, _) in held.items()}
    return {"head": run.assign({each: (axes[each], np.array([[values]] * 2)) for each, (_, values) in held.items()})}


@pytest.mark.parametrize("id", CHANGES)
def test_each_quantity_of_a_phase_counts(id: str):
    assert measured(id, phases(), "head") == 1
    for name, values in CHANGES[id].items():
        for value in values:
            assert measured(id, phases(name, value, WHEN[id]), "head") == 0, (name, value)


def test_in_the_end_the_head_is_as_small_as_noise_leaves_it():
    for over, share in ((0.9, 1), (1.1, 0), (-1.1, 0)):
        runs = phases(at_end=over * SMALL * 0.01**1.5)
        assert measured("end-phase", runs, "head") == share


def test_phases_after_the_first_are_those_of_starts_that_borrow_before_they_learn():
    (run,) = phases().values()
    late = {"head": run.assign(time_substituted=run.time_weak_learned + 1)}
    for id in ("second-phase", "third-phase", "weak-grows-noise-falls"):
        assert np.isnan(measured(id, late, "head"))


@pytest.mark.parametrize(
    ("times", "share"),
    [((1, 2, 3, 4), 1), ((2, 1, 3, 4), 0), ((1, 3, 2, 4), 0), ((1, 2, 4, 3), 0), ((1, 2, 3, np.inf), 0)],
)
def test_four_phases_come_in_their_order_and_to_their_end(times: tuple[float, ...], share: float):
    names = ("strong_learned", "substituted", "weak_learned", "returned")
    run = starts(**BOTH, **{f"time_{name}": time for name, time in zip(names, times, strict=True)})
    assert measured("four-phases", {"head": run}, "head") == share


# --- batches ----------------------------------------------------------------------------------------------------------


def test_heads_are_compared_in_units_of_the_largest_of_the_flow():
    """Both entries of both looks, of which one E_21 is off by half of the flow's peak, .08."""
    rate = STUDY.optimizer.lr
    flow = paths([[0.0, 0.0], [0.02, 0.08]], time=[0.0, 10 * rate])
    runs = {"batches": paths([[0.0, 0.0], [0.02, 0.04]]), "batches-flow": flow}
    assert measured("sgd-head-follows-ode", runs, "batches") == pytest.approx(0.5 / 4)


def test_what_the_slow_neuron_has_borrowed_is_what_returns():
    run = paths([[0.0, 0.0], [0.3, -0.5], [0.3, -0.05]])
    assert measured("sgd-head-returns", {"batches": run}, "batches") == pytest.approx(0.1)


def test_targets_are_those_of_the_average():
    """Of an average with the opposite weights outputs are opposite, as neurons are odd: Σ corr changes its sign.

    In both cases the two networks see noise in one direction, of which a root is taken in float32: 3e-4 of rounding.
    """
    streams = Streams(0, [0, 1])
    source = PatchFeatures(input_dim=8, patches=6, feature_patches=2).build(streams.at("dictionary"))
    learner = Online(CubicPatches(), IdentityInit()).build(source, streams.at("weights"))
    objective = PredictAverage(samples=64).build(source, learner, streams)
    follows = objective(learner, source, streams.at("batch", 0)).detach()
    with torch.no_grad():
        objective.target.average.weight.neg_()
    torch.testing.assert_close(
        4 - objective(learner, source, streams.at("batch", 0)).detach(), follows, rtol=0, atol=2e-3
    )
    assert float((follows - 2).abs().min()) > 0.02
