"""Parts of the study of fixed features: what is measured of networks, and what claims make of measurements by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.data import DictionaryBatch, DictionaryData
from featscope.data.sign_mixture import SignMixture
from featscope.models import Layers, TruncatedReLUNetwork
from featscope.streams import Streams
from featscope.studies.fixed_features import FixedFeatures, enumerated, mixtures, probes
from featscope.studies.fixed_features.arms import ENUMERATED, GENERAL, LITERAL, NETWORK
from featscope.studies.fixed_features.trained import accuracies

STREAMS = Streams(0, [0, 1])
STUDY = FixedFeatures().smallest()


def measured(id: str, arm: str, **values: tuple[tuple[str, ...], list]) -> float:
    """What a claim makes of ``values`` (axes but the replica, numbers), the same in two replicas."""
    held = {name: (("replica", *axes), np.stack([numbers] * 2)) for name, (axes, numbers) in values.items()}
    (test,) = (test for test in STUDY.tests if test.statement.id == id)
    run = xr.Dataset(held).assign_coords(replica=[0, 1])
    if "step" in run.dims:
        run = run.assign_coords(step=10 * np.arange(run.sizes["step"]))
        run = run.assign(last_step=("replica", [int(run["step"][-1])] * 2))
    return test.judge(STUDY, arm, {arm: run}).measured


def small() -> enumerated.EnumeratedInputs:
    return enumerated.Enumerated(DictionaryData(patterns=5, relevant=3), 4).build(STREAMS.at("inputs"))


# --- what is measured -------------------------------------------------------------------------------------------------


def test_balanced_accuracy_is_the_mean_of_both_classes_and_no_answer_is_half_right():
    answers, labels = torch.tensor([[1.0, 2.0, -1.0, 0.0]]), torch.tensor([[1.0, 1.0, 1.0, -1.0]])
    accuracy, balanced = accuracies(answers, labels)
    assert float(accuracy) == 2.5 / 4
    assert float(balanced) == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_classes_weigh_alike_in_the_moment_of_labels_and_inputs():
    """A quarter is of class 1. Patterns are γ/σ̃ on its side of 0 and as far on the other, the second twice as far."""
    labels = torch.tensor([[1.0, -1.0, -1.0, -1.0]])
    options, scale = SimpleNamespace(gamma=0.25, relevant=2), torch.full((1, 1, 1), 5.0)
    inputs = labels[..., None] * torch.tensor([0.25, 0.5, 0.0]) / scale
    layers = Layers(torch.eye(3)[None], torch.zeros(1, 3), torch.zeros(1, 3))
    source = SimpleNamespace(
        train_set=DictionaryBatch(inputs, labels),
        options=options,
        scale=scale,
        dictionary=None,
        target=torch.eye(3)[:1],
    )
    found = probes.turned(SimpleNamespace(source=source, learner=SimpleNamespace(stages=[layers])))
    assert found["moment"].values.tolist() == [pytest.approx([1.0, 2.0])]
    assert found["cosine"].values.tolist() == [[[1.0, 0.0, 0.0]]]


def test_drift_is_that_of_the_neuron_that_has_gone_farthest():
    began = Layers(torch.zeros(1, 2, 2).double(), torch.zeros(1, 2).double(), torch.tensor([[1.0, -2.0]]).double())
    network = TruncatedReLUNetwork(began, [began] * 3)
    with torch.no_grad():
        network.weights[:] = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        network.biases[:] = torch.tensor([[0.5, -0.75]])
        network.outer[:] = torch.tensor([[-1.25, -2.0]])
    batch = DictionaryBatch(torch.tensor([[[3.0, 4.0], [1.0, 0.0]]]), torch.ones(1, 2))
    source = SimpleNamespace(train_set=batch, test_set=batch, target=torch.eye(2)[:1])
    found = probes.drifting(SimpleNamespace(source=source, learner=network))
    wanted = {"outer_grown": 0.25, "weights_moved": 5.0, "biases_moved": 0.75, "outer_at_two": 2.0, "longest": 5.0}
    assert {name: float(found[name].values) for name in wanted} == wanted


def test_a_neuron_opposite_to_a_centre_is_not_near_it():
    source = SignMixture(6, 3, 0.01).build(STREAMS.at("mixture"))
    centre = int(source.labels.argmax())
    weight = source.centres[:, centre : centre + 1].float()
    learner = type("Silent", (), {"weight": weight, "__call__": lambda self, x: x[..., 0] * 0})()
    found = mixtures.found(SimpleNamespace(source=source, learner=learner, streams=STREAMS))
    cosines = source.centres[0] @ source.centres[0, centre] / source.centres[0, centre].square().sum()
    np.testing.assert_allclose(found["nearest"].values[0].numpy(), cosines.numpy(), atol=1e-6)
    assert float(found["nearest"].values.min()) == pytest.approx(-1)
    assert found["accuracy"].values.tolist() == [0.5, 0.5]


def test_what_pulls_off_the_patterns_is_the_largest_over_the_mean_on_them():
    here = small()
    found = enumerated.measured(SimpleNamespace(learner=here))["off_on"].values
    for replica, step, neuron in ((0, 0, 1), (1, 1, 6)):
        pulled = here.pulls[step].weights[replica, neuron].abs().tolist()
        wanted = max(pulled[3:]) / (sum(pulled[:3]) / 3)
        assert float(found[replica, step, neuron]) == pytest.approx(wanted)


def test_the_online_bound_is_that_of_descent_on_its_own_batches(monkeypatch):
    """Losses, gradients and the last rival by hand; other rivals may only lower the bound."""
    seen, gradient = [], enumerated._hinge_gradient

    def kept(x, y, margin):
        seen.append((x[0].numpy(), y[0].numpy()))
        return gradient(x, y, margin)

    monkeypatch.setattr(enumerated, "_hinge_gradient", kept)
    monkeypatch.setattr(enumerated, "ridge_fits", lambda x, y, penalties: x.new_zeros(0, len(x), x.shape[-1]))
    here, rate, theta, losses, squares = small(), enumerated._RATE, 0.0, [], []
    assert len(seen) == enumerated._ONLINE
    for x, y in seen:
        theta = np.zeros(x.shape[1]) + theta
        margins = y * (x @ theta)
        slope = -np.mean([(m < 1) * one * row for m, one, row in zip(margins, y, x, strict=True)], 0)
        losses.append(np.maximum(0, 1 - margins).mean())
        squares.append(slope @ slope)
        theta = theta - rate * slope
    rival = np.mean([np.maximum(0, 1 - y * (x @ theta)).mean() for x, y in seen])
    bound = rival + theta @ theta / (2 * rate * len(seen)) + rate * np.mean(squares)
    assert float(here.regret[0]) == pytest.approx(np.mean(losses) - bound)


# --- claims are arithmetic --------------------------------------------------------------------------------------------


def test_drift_as_far_as_it_can_go_is_at_its_bounds():
    """Neurons pulled the same way at every step by the longest input, with the step size that the arm trains with."""
    rate, outer, longest, looks = STUDY.arm(LITERAL).recipe.optimizer.lr, 0.3, 7.0, 10.0 * np.arange(4)
    step = ("step",)
    thresholds = np.array([sum(rate * (outer + rate * (t + 0.5)) for t in range(int(steps))) for steps in looks])
    run = {
        "outer_grown": (step, rate * looks),
        "weights_moved": (step, longest * thresholds),
        "biases_moved": (step, thresholds),
        "outer_at_two": (step, 0 * looks + outer),
        "longest": (step, 0 * looks + longest),
    }
    for id in ("second-layer-drift-bound", "first-layer-drift-bound", "threshold-drift-bound"):
        assert measured(id, LITERAL, **run) == pytest.approx(1), id


def test_pulls_that_are_missed_on_either_side_do_not_cancel():
    assert measured("step1-concentration", NETWORK, on_over_active=(("pull", "neuron"), [[0.8, 1.2], [3, 3]])) == (
        pytest.approx(0.2)
    )


def test_naming_the_common_class_is_not_learning():
    for id, arm in (("general-setting-is-learned", GENERAL), ("rare-class-is-learned", "negatives=0.9")):
        run = {"accuracy": (("step",), [0.5, 0.96]), "balanced": (("step",), [0.5, 0.9])}
        assert measured(id, arm, **run) == 0
        assert measured(id, arm, **run | {"balanced": (("step",), [0.5, 0.95])}) == 1


def test_the_least_loss_of_fixed_features_is_over_the_length_of_their_correlations():
    """‖v_A‖² = .01 and B = 2 leave a loss of .8 at least."""
    assert measured("fixed-features-have-a-loss", ENUMERATED, hinge=((), 0.85), least_correlation=((), 0.01)) == (
        pytest.approx(0.05)
    )
