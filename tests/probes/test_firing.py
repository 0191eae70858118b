"""When neurons fire."""

import jaxtyping
import pytest
import torch

from featscope.probes import (
    cosine_to_noise,
    false_firing,
    firing_rate,
    missed_firing,
    moved_by_noise,
    wrong_firing,
)

ACTIVATION = torch.tensor([[[1.0, 0, 0], [0, -2.0, 0], [3.0, 1.0, 0], [0, 0, 0]]])
CODES = torch.tensor([[[1.0, 0], [0, 0], [0, -1.0], [-1.0, 1.0]]])
MEMBERS = torch.tensor([[[True, False], [True, True], [False, True]]])


def test_rates_count_whatever_is_not_zero():
    assert firing_rate(ACTIVATION)[0].tolist() == [0.5, 0.5, 0]


def test_of_what_is_no_number_it_is_not_known_whether_it_fires():
    activation = torch.tensor([[1.0, torch.nan], [0, 0]])
    assert firing_rate(activation).tolist() == pytest.approx([0.5, torch.nan], nan_ok=True)


@pytest.mark.parametrize("measure", [false_firing, missed_firing, wrong_firing])
@pytest.mark.parametrize("at", [0, 3])
def test_of_what_is_no_number_it_is_not_known_whether_it_is_right(measure, at):
    activation, known = ACTIVATION.clone(), measure(ACTIVATION, CODES, MEMBERS)[0]
    activation[0, at, 0] = torch.nan
    found = measure(activation, CODES, MEMBERS)[0].tolist()
    assert found == pytest.approx([torch.nan, *known[1:].tolist()], nan_ok=True)


def test_false_firing_is_the_share_of_firings_without_an_own_feature():
    found = false_firing(ACTIVATION, CODES, MEMBERS)[0]
    assert found[:2].tolist() == [0.5, 0.5]
    assert found[2].isnan()


def test_missed_firing_is_the_share_of_own_features_that_meet_silence():
    assert missed_firing(ACTIVATION, CODES, MEMBERS)[0].tolist() == pytest.approx([1 / 2, 2 / 3, 1])


def test_the_cosine_to_noise_is_a_mean_over_inputs_where_neither_vanishes():
    of_input = torch.tensor([[[1.0, 0], [1.0, 1.0], [0, 0], [1.0, 0]], [[0.0, 0]] * 4])
    of_noise = torch.tensor([[[2.0, 0], [1.0, 0], [1.0, 0], [0, 0]], [[1.0, 0]] * 4])
    found = cosine_to_noise(of_input, of_noise)
    assert float(found[0]) == pytest.approx((1 + 0.5**0.5) / 2)
    assert found[1].isnan()


def test_what_noise_moves_is_relative_to_the_signal_where_there_is_one():
    of_signal = torch.tensor([[[3.0, 0], [0, 4.0], [9.0, 9.0]]])
    codes = torch.tensor([[[1.0, 0], [0, -1.0], [0, 0]]])
    moved = of_signal + torch.tensor([[[0, 1.0], [2.0, 0], [5.0, 5.0]]])
    assert float(moved_by_noise(moved, of_signal, codes)) == pytest.approx((5 / 25) ** 0.5)


def test_of_three_firings_one_lacks_its_feature():
    activations, codes = (torch.tensor(of)[None, :, None] for of in ([1.0, 1, 1, 0], [1.0, 1, 0, 0]))
    assert float(false_firing(activations, codes, torch.ones(1, 1, 1, dtype=torch.bool))) == pytest.approx(1 / 3)


def test_wrong_firing_tells_the_dead_the_loud_and_the_right_apart():
    codes = torch.tensor([[[1.0], [0.0], [0.0], [-1.0]]])
    activation = torch.stack([codes[..., 0], torch.zeros(1, 4), torch.ones(1, 4)], -1)
    members = torch.ones(1, 3, 1, dtype=torch.bool)
    assert wrong_firing(activation, codes, members).tolist() == [[0.0, 1.0, 0.5]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: cosine_to_noise(ACTIVATION, ACTIVATION[:, :1]),
        lambda: moved_by_noise(ACTIVATION, ACTIVATION[:, :1], CODES),
        lambda: moved_by_noise(ACTIVATION, ACTIVATION, CODES[:, :1]),
        *(
            lambda its=its: its(ACTIVATION, CODES[:, :1], MEMBERS)
            for its in (false_firing, missed_firing, wrong_firing)
        ),
        *(
            lambda its=its: its(ACTIVATION, CODES, MEMBERS[:, :1])
            for its in (false_firing, missed_firing, wrong_firing)
        ),
    ],
)
def test_a_single_row_is_not_compared_with_all(call, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(ValueError, match=r"pairs have shapes .* and .*; allowed (is one shape|are as many rows)"):
        call()


def test_of_a_vector_there_is_no_rate(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(ValueError, match=r"activations have shape \(4,\); allowed is \[batch, neuron\]"):
        firing_rate(torch.ones(4))


@pytest.mark.parametrize("measure", [false_firing, missed_firing, wrong_firing])
def test_members_of_other_features_and_arrays_of_numpy_are_refused_by_name(measure, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=rf"members are of 1 features: allowed is {CODES.shape[-1]}, those of codes"):
        measure(ACTIVATION, CODES, MEMBERS[..., :1])
    for arguments in ((ACTIVATION.numpy(), CODES, MEMBERS), (ACTIVATION, CODES.numpy(), MEMBERS)):
        with pytest.raises(TypeError, match=r"got a ndarray: expected a torch\.Tensor"):
            measure(*arguments)
