"""What `imbalance` reads from trajectories at events, of whole curves, and of who fires."""

import numpy as np
import torch
import xarray as xr

from featscope.data import SparseTokensSource
from featscope.losses import InfoNCE
from featscope.models import TokenMLPNetwork
from featscope.streams import Streams
from featscope.studies.imbalance import probes, samples
from featscope.studies.imbalance.curves import least_rise, quieter
from featscope.studies.imbalance.stages import at_event, event_look, in_stage2
from featscope.training import SGD, ContrastivePairs, GradientTraining

RUN = xr.Dataset(
    {
        "stage1_end": ("replica", [3, -1, 10]),
        "stage2_end": ("replica", [10, -1, -1]),
        "loss": (("replica", "step"), np.arange(12.0).reshape(3, 4)),
    },
    {"step": [0, 5, 10, 20]},
)


def test_an_event_is_looked_at_from_the_next_look_on():
    assert event_look(RUN, RUN.stage1_end).values.tolist()[::2] == [1, 2]
    found = at_event(RUN, RUN.loss, RUN.stage1_end).values
    assert found[[0, 2]].tolist() == [1.0, 10.0]
    assert np.isnan(found[1])


def test_stage_2_is_between_its_events_and_never_where_it_did_not_end():
    assert in_stage2(RUN).transpose("replica", "step").values.tolist() == [[False, True, True, False]] + 2 * [
        [False] * 4
    ]


def test_a_curve_rises_by_the_least_that_it_does_between_two_points():
    values = xr.DataArray(
        [[[1.5, 1.0, 2.0]], [[3.0, 1.0, np.nan]]],
        dims=("replica", "noise_std", "eps_min"),
        coords={"eps_min": [1.0, 0.1, 0.5], "noise_std": [0.1]},
    )
    first, second = least_rise(values).values
    assert first == -0.5
    assert np.isnan(second)


def test_less_noise_is_compared_with_more():
    values = xr.DataArray([[[3.0, 5.0], [1.0, 1.0]]], dims=("replica", "noise_std", "eps_min"))
    assert quieter(values.assign_coords(noise_std=[0.1, 0.3])).values.tolist() == [3.0]


def test_firing_counts_who_fires_for_what():
    """Two neurons of one feature each, without noise; the second's threshold is above all that it sees."""
    frame, activity = torch.eye(6, 3)[None], torch.tensor([[0.5, 0.25, 0.25]])
    source = SparseTokensSource(frame, activity, torch.zeros(1), 4, 1.0, 1)
    source.means = True
    learner = TokenMLPNetwork(torch.eye(6, 3).mT[None, :2].contiguous(), 4)
    learner.bias[:] = torch.tensor([0.5, 2.0])
    experiment = GradientTraining(source, learner, ContrastivePairs(InfoNCE(), 8), SGD(), {}, Streams(0, [0]))
    with torch.no_grad():
        found = {name: float(one.values[0]) for name, one in samples.firing(experiment).items()}
    assert found["fires_alone"] == 0
    assert abs(found["heard"] - 2 / 3) < 0.05
    assert abs(found["firing_rate"] - 0.25) < 0.03
    assert found["members_rate"] == 0.375


def test_gradients_of_batches_are_compared_with_what_their_negatives_leave_of_the_population(monkeypatch):
    """Two pairs of one feature: of equal signs they pull by nothing, of other ones by all; 1 - 1/K is half of it."""
    monkeypatch.setattr(samples, "BATCH_SIZES", (2,))
    source = SparseTokensSource(torch.eye(2, 1)[None], torch.ones(1, 1), torch.zeros(1), 4, 1.0, 0)
    source.means = True
    learner = TokenMLPNetwork(torch.tensor([[[1e-3, 0.0], [-2e-3, 1e-3]]]), 4)
    experiment = GradientTraining(source, learner, ContrastivePairs(InfoNCE(), 2), SGD(), {}, Streams(0, [0]))
    assert abs(float(samples.batches(experiment)["batch_error"].values[0, 0]) - 0.5) < 1e-3


def test_the_largest_cosine_off_the_features_is_that_of_one_direction():
    """Of three directions off the features the first neuron has one, the second two alike, the third none."""
    root = 0.5**0.5
    weight = torch.tensor([[[0.0, 0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, root, -root], [2.0, 1.0, 0.0, 0.0, 0.0]]])
    source = SparseTokensSource(torch.eye(5, 2)[None], torch.ones(1, 2), torch.zeros(1), 4, 1.0, 1)
    experiment = GradientTraining(source, TokenMLPNetwork(weight, 4), None, SGD(), {}, Streams(0, [0]))
    with torch.no_grad():
        found = probes.trajectory(experiment)["off_cosine"].values[0]
    torch.testing.assert_close(found, torch.tensor([1.0, root, 0.0]))
