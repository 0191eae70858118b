"""When trajectories pass from phase to phase: states that are set by hand."""

from math import log

import pytest
import torch

from featscope.models.population import OrderParameters, Population, PopulationNetwork
from featscope.streams import Streams
from featscope.training import Flow
from featscope.training.phases import EVENTS, QUANTITIES, Phases, Signs, invariants, quantities

OF = Population.alike(1, (2.0, 1.0), (4.0, 2.0), 3.0, noise_std=1.0, rate=0.25)
DIM = 50


def state(b11: float, b12: float, b21: float, b22: float, r2: float = 0.5, e21: float = 0.0) -> torch.Tensor:
    """Packed, neuron 1 being the second one: roles are by overlaps, not by places."""
    b = torch.tensor([[b21, b22], [b11, b12]], dtype=torch.float64)
    r = torch.tensor([[r2, 0.1], [0.1, 0.6]], dtype=torch.float64)
    e = torch.tensor([[0.0, e21], [0.0, 0.0]], dtype=torch.float64)
    return OrderParameters(*(x[..., None] for x in (b, r, e))).pack().mT[None]


def watched(*states: torch.Tensor, frozen: bool = False) -> dict[str, torch.Tensor]:
    """What the rule remembers after ``states`` at times 0, 1, 2, ..., the first of which is the start."""
    learner = PopulationNetwork(states[0].clone(), 2, OF)
    learner.frozen.fill_(frozen)
    flow = Flow(learner, 100.0, Streams(0, range(1)), {"phases": Phases(DIM)})
    for time, one in enumerate(states):
        with torch.no_grad():
            learner.state.copy_(one)
        flow.time.fill_(float(time))
        flow.rules["phases"](flow, time)
    return {name: kept[0] for name, kept in flow.rules["phases"].trajectories().items()}


def test_events_come_at_the_times_at_which_they_first_happen():
    kept = watched(
        state(0.2, 0.05, 0.1, 0.1),
        state(0.6, 0.05, 0.1, 0.1, e21=0.01),  # strong learned; E_21 B_11³ is about twice B_21³
        state(0.6, 0.05, 0.1, 0.1, r2=0.05, e21=0.08),  # 17 times; R_2 is below E_21, and not below 0.0204
        state(0.6, 0.05, 0.1, 0.1, r2=0.02, e21=0.08),  # R_2 < 0.08 / log 50
        state(0.6, 0.05, 0.1, 0.4, r2=0.1, e21=0.09),  # the peak of E_21
        state(0.6, 0.05, 0.1, 0.7, r2=0.1, e21=0.02),  # weak learned
        state(0.6, 0.05, 0.1, 0.7, r2=0.1, e21=0.008),  # a tenth of the peak is 0.009
        state(0.2, 0.05, 0.1, 0.1),
    )
    times = {event: float(kept[event]) for event in EVENTS}
    assert times == {
        "strong_learned": 1.0,
        "substituted": 2.0,
        "noise_fallen": 3.0,
        "weak_learned": 5.0,
        "returned": 6.0,
    }
    assert float(kept["peak"]) == 0.09
    assert float(OrderParameters.unpack(kept["at_peak"][:, None], 2).b[0, 1, 0]) == 0.4
    assert float(OrderParameters.unpack(kept["at_substituted"][:, None], 2).e[0, 1, 0]) == 0.08
    assert int(kept["fast"]) == 1
    assert abs(float(kept["log_dim"]) - log(DIM)) < 1e-12


def test_a_head_that_was_never_large_has_not_returned_before_the_weak_feature_is_learned():
    kept = watched(state(0.6, 0.0, 0.1, 0.1, e21=0.05), state(0.6, 0.0, 0.1, 0.1), state(0.6, 0.0, 0.1, 0.1))
    assert float(kept["returned"]) == float("inf")


def test_a_frozen_head_counts_as_the_head_that_it_is():
    """√(η/η_E) |E_21| = 0.34 is below |B_11|, so that |B_22| need not be half of that."""
    learned = state(1.3, 0.01, 0.05, 0.55, e21=0.17)
    marked, of_frozen = (watched(learned, frozen=frozen) for frozen in (False, True))
    assert float(marked["weak_learned"]) == float(of_frozen["weak_learned"]) == 0.0
    moved = state(1.3, 0.01, 0.05, 0.55, e21=0.1)
    assert float(watched(learned, moved, frozen=True)["drift"]) == float(watched(learned, moved)["drift"]) > 0


def test_drift_is_the_largest_change_of_what_the_flow_keeps():
    kept = watched(state(0.2, 0.0, 0.1, 0.1), state(0.4, 0.0, 0.1, 0.1), state(0.3, 0.0, 0.1, 0.1))
    assert abs(float(kept["drift"]) - (0.4**2 - 0.2**2)) < 1e-12


def test_what_the_flow_keeps_is_norm_and_what_the_head_lends():
    y = OrderParameters.unpack(state(0.2, 0.0, 0.1, 0.3, r2=0.5, e21=0.4)[0].mT, 2)
    slow, fast = invariants(y, torch.tensor([0.25], dtype=torch.float64))[:, 0].tolist()
    assert abs(slow - (0.1**2 + 0.3**2 + 0.5 + 3 / 0.25 * 0.4**2)) < 1e-12
    assert abs(fast - (0.2**2 + 0.6 - 3 / 0.25 * 0.4**2)) < 1e-12
    frozen = invariants(y, torch.zeros(1, dtype=torch.float64))[0, 0]
    assert abs(float(frozen) - (0.1**2 + 0.3**2 + 0.5)) < 1e-12


def test_what_is_watched_is_by_role_and_positive_where_it_keeps_its_sign():
    """The second neuron is fast. E_12 is over R_1^1.5, and E_21 has the sign of B_11 B_21 at the start."""
    fast = torch.tensor([1])
    begun = Signs.of(OrderParameters.unpack(state(-0.2, 0.05, 0.1, -0.1)[0].mT, 2), fast)
    b, r, e = [[0.2, -0.3], [-0.6, -0.05]], [[0.5, -0.1], [-0.1, 0.64]], [[0.0, -0.4], [-0.3, 0.0]]
    y = OrderParameters(*(torch.tensor(one, dtype=torch.float64)[..., None] for one in (b, r, e)))
    found = dict(zip(QUANTITIES, quantities(y, fast, begun)[:, 0].tolist(), strict=True))
    assert found == pytest.approx(
        {"B_11": 0.6, "B_12": -0.05, "B_21": 0.2, "B_22": 0.3, "R_1": 0.64, "R_2": 0.5}
        | {"R_12": 0.1 / 0.32**0.5, "E_12": 0.3 / 0.512, "E_21": 0.4}
    )
