"""Recipes of Algorithm 1 with infinite batches, and of training that begins where its head helps."""

from dataclasses import replace

import jaxtyping
import pytest
import torch

from featscope.axes import with_options
from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatches, IdentityInit, Online
from featscope.models.population import of_weights
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.theory.prediction_head import ends_on_strong, patch_moments
from featscope.training import SGD, Flow, PredictOtherView
from featscope.training.infinite_batches import InfiniteBatches, RandomStarts, RescuedTraining, TrainingStart, moments
from featscope.training.phases import LEARNED
from featscope.training.stack import stack, together

SMALL = InfiniteBatches(start=RandomStarts(2), duration=10.0)
CLOSE = PatchFeatures(input_dim=100, patches=16, weak=3.0)


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Types and shapes are not checked: there are hundreds of steps, and other tests check each part of one."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def follow(flow: Flow) -> None:
    while (flow.arrived < 0).any():
        flow.advance(0)


def test_numbers_of_options_differ_within_one_program():
    """Two values of every number of the recipe, and two dimensions, against each alone."""
    values = {
        "data.strong": 3.0,
        "data.weak": 1.5,
        "data.strong_share": 0.3,
        "data.noise_std": 0.8,
        "head.rate": 0.4,
        "duration": 20.0,
        "data.input_dim": 40,
    }
    recipes = [SMALL, *(with_options(SMALL, {option: value}) for option, value in values.items())]
    parts, alone = ([recipe.build(Streams(0, range(2))) for recipe in recipes] for _ in range(2))
    assert together(parts, [None] * len(parts)) == [list(range(len(parts)))]
    follow(stack(parts))
    ends = []
    for part, single in zip(parts, alone, strict=True):
        follow(single)
        torch.testing.assert_close(part.learner.state, single.learner.state, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(part.time, single.time, rtol=1e-12, atol=0)
        for name, kept in single.rules["phases"].named_buffers():
            torch.testing.assert_close(part.rules["phases"].get_buffer(name), kept, rtol=1e-8, atol=1e-9)
        ends.append(single.learner.state.detach())
    for end in ends[1:]:
        assert not torch.allclose(end, ends[0], rtol=1e-3)


def test_a_flow_that_goes_on_is_the_one_that_was_never_stopped():
    whole, first, second = (SMALL.build(Streams(0, range(2))) for _ in range(3))
    for step in range(40):
        whole.advance(step)
    for step in range(15):
        first.advance(step)
    second.restore(*first.state())
    for step in range(15, 40):
        second.advance(step)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_starts_are_the_same_with_and_without_head():
    with_head, without = (replace(SMALL, head=head).build(Streams(0, range(2))) for head in (IdentityInit(), None))
    assert torch.equal(with_head.learner.state, without.learner.state)
    assert (without.learner.rate == 0).all()
    follow(without)
    assert (without.learner.order_parameters.e == 0).all()


def test_what_is_asked_of_loss_and_head_reaches_the_equation():
    loss = NonContrastive(normalization="none", stop_gradient=False)
    of = replace(SMALL, loss=loss, tied=True).build(Streams(0, range(1))).learner.population()
    assert (of.normalization, of.stop_gradient, of.tied) == ("none", False, True)
    with pytest.raises(ConfigError, match=r"InfiniteBatches\.loss = .* allowed is a loss with normalization 'batch'"):
        replace(SMALL, loss=NonContrastive("l2"))


@pytest.mark.parametrize("other", [NonContrastive(scale="squared"), NonContrastive(eps=1e-5)])
def test_a_loss_that_the_equation_does_not_follow_is_refused(other):
    with pytest.raises(ConfigError, match=r"InfiniteBatches\.loss = .* 'none', scale 'correlation' and eps 0\. The eq"):
        replace(SMALL, loss=other)


def test_single_neurons_have_no_phases():
    flow = replace(SMALL, start=RandomStarts(5, width=1), head=None).build(Streams(0, range(2)))
    assert len(flow.rules) == 0
    assert flow.learner.state.shape == (2, 5, 3)  # B_11, B_12 and R_1


def test_moments_are_those_of_the_data():
    assert moments(replace(CLOSE, both=True)) == patch_moments(16, 4, 4.0, 3.0, both=True)
    assert moments(replace(CLOSE, strong_share=0.7)) == patch_moments(16, 4, 4.0, 3.0, 0.7)


def test_the_start_of_training_has_its_overlaps():
    encoder = CubicPatches(overlaps=(0.3, 0.05, 0.12, 0.15))
    flow = InfiniteBatches(CLOSE, TrainingStart(encoder)).build(Streams(0, range(2)))
    y = flow.learner.order_parameters
    wanted = torch.tensor([[0.3, 0.05], [0.12, 0.15]], dtype=torch.float64)
    torch.testing.assert_close(y.b, wanted[..., None].expand(2, 2, 2), atol=1e-6, rtol=0)
    source = CLOSE.build(Streams(0, range(2)).at("dictionary"))
    weight = encoder.build(source, Streams(0, range(2)).at("weights")).weight.detach()
    _, r = of_weights(weight.double(), source.dictionary.double())
    torch.testing.assert_close(y.r, r.movedim(0, -1))


# --- From weights that the flow rescues -------------------------------------------------------------------------------

HEAD = IdentityInit(rate=0.1)
RESCUED = RescuedTraining(
    CLOSE,
    Online(CubicPatches(), HEAD),
    PredictOtherView(samples=8),
    SGD(lr=0.02, weight_decay=0.0),
    flow=InfiniteBatches(CLOSE, head=HEAD, duration=60.0),
)


def test_training_begins_where_the_flow_rescues():
    streams = Streams(0, range(1))
    training = RESCUED.build(streams)
    b, r = of_weights(training.learner.encoder.weight.detach().double(), training.source.dictionary.double())
    assert ends_on_strong(b.numpy(), moments(CLOSE).same).all()
    state = torch.cat([b.flatten(1), r[:, [0, 0, 1], [0, 1, 1]], torch.zeros(1, 2)], 1)
    flow = Flow(RESCUED.flow.network(state[:, None]), 60.0, streams)
    follow(flow)
    feature, pure = flow.learner.order_parameters.features
    assert pure.all()
    assert (feature[0] != feature[1]).all()
    assert (flow.learner.order_parameters.b.abs().amax(1) >= LEARNED).all()
    alone = replace(RESCUED, learner=Online(CubicPatches(), None)).build(streams)
    assert torch.equal(alone.learner.encoder.weight, training.learner.encoder.weight)


def test_a_replica_of_which_no_start_is_rescued_in_time_says_so():
    soon = replace(RESCUED, flow=replace(RESCUED.flow, duration=0.5))
    assert [int(recipe.build(Streams(0, range(1))).events()["unrescued"]) for recipe in (RESCUED, soon)] == [-1, 0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": replace(CLOSE, noise_std=CLOSE.noise_std / 2)}, r"a flow on the same data\. Give both"),
        ({"flow": replace(RESCUED.flow, frozen=True)}, "a flow with a head that is not frozen"),
        ({"flow": replace(RESCUED.flow, head=None)}, "a flow with a head that is not frozen"),
    ],
)
def test_a_flow_that_would_not_be_what_it_says_is_refused(changed, said):
    with pytest.raises(ConfigError, match=rf"RescuedTraining\.flow = .* is out of range: allowed is {said}"):
        replace(RESCUED, **changed)
