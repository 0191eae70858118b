"""The closed form of a step's gradient against autograd, and who is served by which."""

from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from featscope.data import SparseCoding, SparseTokens
from featscope.data.sparse_tokens import SparseTokensSource
from featscope.kernels import BACKENDS
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLU, TokenMLP
from featscope.models.symmetric_relu import SymmetricReLUNetwork
from featscope.models.token_mlp import TokenMLPNetwork
from featscope.streams import Streams
from featscope.studies.decoupling.objectives import MaskedNegatives
from featscope.training import SGD, Contrastive, ContrastivePairs, MagnitudePruning, Training
from featscope.training import gradient as engine
from featscope.training.closed_form_contrastive import DERIVED_FROM
from featscope.training.pruning import PruningMask
from featscope.views import RandomMask, SameSample

REPLICAS = 3


class Rows(nn.Module):
    """Samples of one precision."""

    def __init__(self, dtype, tokens=()):
        super().__init__()
        self.dtype, self.tokens = dtype, tokens

    def sample(self, draws, count):
        return SimpleNamespace(x=draws.normal(count, *self.tokens, 13, dtype=self.dtype))

    def pairs(self, draws, count):
        x, y = (draws.normal(count, *self.tokens, 13, dtype=self.dtype) for _ in range(2))
        return SimpleNamespace(x=x, y=x + 0.3 * y)

    def build(self, draws):
        return self


@dataclass(frozen=True)
class Fixed:
    """A learner that is there already."""

    network: nn.Module

    def build(self, source, draws):
        return self.network


def layer(dtype, tokens=None, kind=None):
    draws = Streams(0, range(REPLICAS)).at("weights")
    weight = draws.normal(7, 13, dtype=dtype) * 0.4
    made = SymmetricReLUNetwork(weight) if tokens is None else TokenMLPNetwork(weight, tokens)
    made.bias.copy_(draws.uniform(7, dtype=dtype) / 2)
    made.bias[0] = 0
    return made if kind is None else kind(weight)


def both(experiment):
    """Loss and gradient in closed form, and by autograd on the same draws; None for what has no closed form."""
    weight = experiment.learner.weight
    seen, draws = experiment.seen(), experiment.streams.at("batch", 4)
    loss = engine.gradient(seen, experiment.source, experiment.objective, draws)
    found = None if loss is None else (loss, weight.grad.clone())
    weight.grad = None
    reference = experiment.loss(experiment.streams.at("batch", 4))
    reference.sum().backward()
    return found, (reference.detach(), weight.grad)


def agree(experiment, within):
    found, (loss, gradient) = both(experiment)
    assert found is not None
    assert gradient.norm() > 1e-3
    torch.testing.assert_close(found[0], loss, rtol=within, atol=within)
    torch.testing.assert_close(found[1], gradient, rtol=10 * within, atol=within * float(gradient.abs().max()))


LOSSES = [InfoNCE(), InfoNCE(0.5), InfoNCE(2.0, "1")]
OBJECTIVES = [
    Contrastive(RandomMask(), anchors=11, negatives=5),
    Contrastive(SameSample(), anchors=4, negatives=9),
    MaskedNegatives(RandomMask(), anchors=6, negatives=6),
    ContrastivePairs(pairs=9),
]
PRUNING = [None, MagnitudePruning(0.3), MagnitudePruning(0.3, gradient="straight-through")]
PRUNING += [MagnitudePruning(0.3, granularity="entry", gradient="straight-through"), MagnitudePruning(0.3, start=9)]


@pytest.mark.parametrize("kernels", BACKENDS)
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("tokens", [None, 3])
def test_it_is_the_gradient_of_autograd_for_every_combination(kernels, dtype, within, tokens, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    for loss, objective, pruning in product(LOSSES, OBJECTIVES, PRUNING):
        recipe = Training(Rows(dtype), Fixed(layer(dtype, tokens)), replace(objective, loss=loss), SGD())
        recipe = replace(recipe, rules={"pruning": pruning})
        agree(recipe.build(Streams(1, range(REPLICAS))), within)


def of_tokens(pruning, noise, activity=1.0):
    data = SparseTokens(features=5, input_dim=16, token_activity=activity, eps_min=0.8, activity=0.6)
    objective = ContrastivePairs(pairs=32, noise=noise)
    recipe = Training(data, TokenMLP(width=6, init_norm=1.0), objective, SGD(), {"pruning": pruning})
    return recipe.build(Streams(1, range(REPLICAS)))


@pytest.mark.parametrize("kernels", BACKENDS)
@pytest.mark.parametrize(
    ("pruning", "noise"), [*product(PRUNING[:3], ["dense"]), (PRUNING[0], "projected"), (PRUNING[2], "projected")]
)
@pytest.mark.parametrize("activity", [1.0, 0.5])
def test_tokens_of_the_studies(kernels, pruning, noise, activity, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    agree(of_tokens(pruning, noise, activity), 2e-5)


def test_projected_noise_at_which_a_whole_and_a_pruned_network_would_look_is_refused():
    made = of_tokens(PRUNING[1], "projected")
    assert engine.gradient(made.seen(), made.source, made.objective, made.streams.at("batch", 4)) is None
    with pytest.raises(ValueError, match="projected noise was looked at twice; take dense noise"):
        made.advance(0)


@pytest.mark.parametrize("kernels", BACKENDS)
def test_numbers_that_differ_between_replicas(kernels, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    for scale, objective in product(("tau", "1"), OBJECTIVES):
        loss = InfoNCE(scale=scale)
        object.__setattr__(loss, "temperature", torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64))
        recipe = Training(Rows(torch.float32), Fixed(layer(torch.float32)), replace(objective, loss=loss), SGD())
        agree(recipe.build(Streams(1, range(REPLICAS))), 1e-5)


class Twice(SymmetricReLUNetwork):
    def forward(self, x):
        return 2 * super().forward(x)


class Same(SymmetricReLUNetwork):
    """Nothing is overridden, but who knows what a class of somebody's own will hold."""


@dataclass(frozen=True)
class Halved(InfoNCE):
    def __call__(self, anchor, positive, negatives):
        return super().__call__(anchor, positive, negatives) / 2


@dataclass(frozen=True)
class OneMore(Contrastive):
    def __call__(self, learner, source, draws):
        return super().__call__(learner, source, draws) + learner.weight.square().sum((1, 2))


def doubled(learner):
    learner.forward = lambda x: 2 * SymmetricReLUNetwork.forward(learner, x)


OWN = {
    "a learner": (Twice, OBJECTIVES[0], None),
    "a learner that changes nothing": (Same, OBJECTIVES[0], None),
    "a loss": (None, replace(OBJECTIVES[0], loss=Halved()), None),
    "an objective": (None, OneMore(anchors=5, negatives=5), None),
    "a forward of its own": (None, OBJECTIVES[0], doubled),
    "a hook on the pass": (
        None,
        OBJECTIVES[0],
        lambda learner: learner.register_forward_hook(lambda module, given, found: 2 * found),
    ),
    "a hook on the gradient": (None, OBJECTIVES[0], lambda learner: learner.weight.register_hook(lambda g: 2 * g)),
    "weights that are not trained": (None, OBJECTIVES[0], lambda learner: learner.weight.requires_grad_(False)),
    "thresholds that are trained": (None, OBJECTIVES[0], lambda learner: learner.bias.requires_grad_()),
    "thresholds of another precision": (
        None,
        OBJECTIVES[0],
        lambda learner: setattr(learner, "bias", learner.bias.double()),
    ),
    "tokens under attention": (
        lambda weight: TokenMLPNetwork(weight, 3, "softmax"),
        replace(OBJECTIVES[0], view=SameSample()),
        None,
    ),
}


@pytest.mark.parametrize("whose", OWN)
def test_what_is_ones_own_is_left_to_autograd(whose):
    kind, objective, change = OWN[whose]
    source = Rows(torch.float32, tokens=(3,) if "tokens" in whose else ())
    made = Training(source, Fixed(layer(torch.float32, kind=kind)), objective, SGD()).build(Streams(1, range(REPLICAS)))
    (change or (lambda learner: None))(made.learner)
    draws = made.streams.at("batch", 4)
    assert engine.gradient(made.seen(), made.source, made.objective, draws) is None
    assert made.learner.weight.grad is None
    assert torch.equal(draws.normal(3), made.streams.at("batch", 4).normal(3))  # nothing was drawn


@pytest.mark.parametrize(("where", "name"), DERIVED_FROM.places, ids=str)
def test_a_part_that_is_replaced_is_noticed(where, name, monkeypatch):
    made = Training(Rows(torch.float32), Fixed(layer(torch.float32)), OBJECTIVES[0], SGD()).build(Streams(1, [0, 1, 2]))
    assert engine.gradient(made.seen(), made.source, made.objective, made.streams.at("batch", 4)) is not None
    monkeypatch.setattr(where, name, lambda *_: None)
    assert engine.gradient(made.seen(), made.source, made.objective, made.streams.at("batch", 4)) is None


class Halving(PruningMask):
    """Halves weights where others hide them."""

    def _hide(self, parameter, kept):
        return parameter - super()._hide(parameter, ~kept) / 2


def test_a_mask_of_ones_own_is_left_to_autograd():
    rule = MagnitudePruning(0.5, gradient="theory", start=0)
    made = Training(Rows(torch.float32), Fixed(layer(torch.float32)), OBJECTIVES[0], SGD(), {"pruning": rule})
    experiment = made.build(Streams(1, range(REPLICAS)))
    assert engine.gradient(experiment.seen(), experiment.source, OBJECTIVES[0], experiment.streams.at("b")) is not None
    experiment.rules["pruning"].__class__ = Halving
    assert engine.gradient(experiment.seen(), experiment.source, OBJECTIVES[0], experiment.streams.at("b")) is None


def test_weights_that_are_computed_from_the_learners_are_left_to_autograd():
    made = Training(Rows(torch.float32), Fixed(layer(torch.float32)), OBJECTIVES[0], SGD()).build(Streams(1, [0, 1, 2]))
    seen = SymmetricReLUNetwork(made.learner.weight)
    seen.bias.copy_(made.learner.bias)
    del seen.weight
    seen.weight = 2 * made.learner.weight  # what a rule's ``seen(learner)`` may give
    draws = made.streams.at("batch", 4)
    assert engine.gradient(seen, made.source, made.objective, draws) is None
    made.objective(seen, made.source, draws).sum().backward()
    assert made.learner.weight.grad.norm() > 0


@dataclass(frozen=True)
class MeanRow:
    """Whose second half has one row, which stands for all."""

    def __call__(self, x, draws):
        return x, x.mean(1, keepdim=True)


@pytest.mark.parametrize("kernels", BACKENDS)
def test_a_positive_for_many_anchors_is_refused(kernels, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    objective = Contrastive(anchors=32, negatives=32, view=MeanRow())
    made = Training(SparseCoding(features=6, input_dim=32), SymmetricReLU(width=8), objective, SGD())
    experiment = made.build(Streams(1, range(REPLICAS)))
    for ask in (experiment.loss, lambda draws: engine.gradient(experiment.seen(), experiment.source, objective, draws)):
        with pytest.raises(ValueError, match=r"shapes \(3, 32, 32\) and \(3, 1, 32\): expected one shape"):
            ask(experiment.streams.at("batch", 0))


class OwnTokens(SparseTokensSource):
    """Whose inputs may be made in some other way."""


def test_projected_noise_of_ones_own_source_is_left_to_autograd():
    recipe = Training(SparseTokens(features=5, input_dim=16), TokenMLP(width=6), OBJECTIVES[3], SGD())
    for noise, known in (("dense", True), ("projected", False)):
        made = replace(recipe, objective=replace(OBJECTIVES[3], noise=noise)).build(Streams(1, range(REPLICAS)))
        made.source.__class__ = OwnTokens
        draws = made.streams.at("batch", 4)
        assert (engine.gradient(made.seen(), made.source, made.objective, draws) is not None) == known


def test_training_takes_the_closed_form_and_stays_where_autograd_goes(monkeypatch):
    data = SparseCoding(features=6, input_dim=32)
    recipe = Training(data, SymmetricReLU(width=8), Contrastive(anchors=16, negatives=16), SGD())
    one, other = (recipe.build(Streams(3, range(2))) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(one, "loss", None)  # which autograd would ask
        for step in range(30):
            one.advance(step)
    monkeypatch.setattr("featscope.training.gradient.gradient", lambda *_: None)
    for step in range(30):
        other.advance(step)
    torch.testing.assert_close(one.learner.weight, other.learner.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kernels", BACKENDS)
def test_training_goes_on_to_the_bit_where_it_was_left(kernels, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    data = SparseCoding(features=6, input_dim=32)
    recipe = Training(data, SymmetricReLU(width=8), Contrastive(anchors=16, negatives=16), SGD())
    whole, first, second = (recipe.build(Streams(3, range(2))) for _ in range(3))
    for step in range(8):
        whole.advance(step)
    for step in range(5):
        first.advance(step)
    tensors, numbers = first.state()
    second.restore({name: tensor.clone() for name, tensor in tensors.items()}, numbers)
    for step in range(5, 8):
        second.advance(step)
    assert torch.equal(whole.learner.weight, second.learner.weight)


def test_a_trainings_own_loss_is_asked():
    class Own(engine.GradientTraining):
        def loss(self, draws):
            return 3 * super().loss(draws)

    made = Training(Rows(torch.float32), Fixed(layer(torch.float32)), OBJECTIVES[0], SGD()).build(Streams(1, range(3)))
    plain = made._differentiate(4)
    made.__class__ = Own
    torch.testing.assert_close(made._differentiate(4), 3 * plain)


class Gain(Rows):
    """Whose scale is trained, too."""

    def __init__(self, dtype):
        super().__init__(dtype)
        self.gain = nn.Parameter(torch.ones(REPLICAS, 1, 1))

    def sample(self, draws, count):
        return SimpleNamespace(x=self.gain * super().sample(draws, count).x)


def test_a_source_that_learns_is_left_to_autograd():
    made = Training(Gain(torch.float32), Fixed(layer(torch.float32)), OBJECTIVES[0], SGD()).build(Streams(1, range(3)))
    made.advance(0)
    assert (made.source.gain.grad != 0).all()


@pytest.mark.parametrize("objective", OBJECTIVES[:2])
def test_weights_that_are_part_of_an_array(objective):
    made = Training(Rows(torch.float32), Fixed(layer(torch.float32)), objective, SGD()).build(Streams(1, range(3)))
    wide = torch.randn(3, 20, 13, generator=torch.Generator().manual_seed(0)) / 3
    made.learner.weight = nn.Parameter(wide[:, :7])
    agree(made, 1e-5)


@pytest.mark.parametrize(("data", "objective"), [(SparseTokens, OBJECTIVES[3]), (SparseCoding, OBJECTIVES[0])])
def test_layers_that_do_not_fit_are_refused(data, objective):
    kind = TokenMLP if data is SparseTokens else SymmetricReLU
    made = Training(data(features=5, input_dim=16), kind(width=6), objective, SGD()).build(Streams(1, range(3)))
    made.learner.weight = nn.Parameter(torch.randn(3, 6, 8))
    with pytest.raises((RuntimeError, TypeError)):
        made.advance(0)
