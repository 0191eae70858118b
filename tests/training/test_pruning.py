"""Forward magnitude pruning: which weights go, what the loss then sees, and who learns."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from torch.nn.utils.parametrize import remove_parametrizations
from torch.nn.utils.prune import l1_unstructured
from torch.utils.checkpoint import checkpoint
from toys import experiment

from featscope.losses import Masked, paired, products
from featscope.models import AlexNet, SymmetricReLUNetwork
from featscope.options import ConfigError
from featscope.probes import embeddings
from featscope.streams import Streams
from featscope.training import SGD, GradientTraining, MagnitudePruning, Training
from featscope.training.pruning import PruningMask
from featscope.training.stack import stack

REPLICAS, NEURONS, INPUT, PAIRS = 3, 6, 5, 7
THRESHOLD, TAU = 0.3, 0.7


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network() -> SymmetricReLUNetwork:
    learner = SymmetricReLUNetwork(draw(REPLICAS, NEURONS, INPUT))
    learner.bias.fill_(THRESHOLD)
    return learner


def kept_of(config: MagnitudePruning, module: nn.Module) -> torch.Tensor:
    return config.on(module).mask.kept


def info_nce(anchor, keys) -> torch.Tensor:
    return (products(anchor, keys).div(TAU).logsumexp(-1) - paired(anchor, keys) / TAU).mean(-1)


def in_part(layer: nn.Module) -> nn.Module:
    return l1_unstructured(layer, "weight", 0.5)


def brelu(u: np.ndarray) -> np.ndarray:
    return np.sign(u) * np.maximum(np.abs(u) - THRESHOLD, 0)


# --- which weights go -----------------------------------------------------------------------------------------------


def test_each_replica_loses_its_own_smallest_neurons():
    learner = network()
    kept = kept_of(MagnitudePruning(1 / 3), learner)
    for replica, weight in enumerate(learner.weight.detach().numpy()):
        smallest = np.argsort(np.sqrt((weight**2).sum(1)))[:2]
        assert set(np.flatnonzero(~kept[replica].numpy())) == set(smallest)
    assert not torch.equal(kept[0], kept[1])


def test_an_ordinary_network_loses_its_smallest_entries_wherever_they_are_but_no_bias_and_no_norm():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        for bias in (module[0].bias, module[3].bias, module[1].bias):
            bias.zero_()
    pruner = MagnitudePruning(0.25, "entry", "straight-through").on(module)
    found = pruner.mask.pruned_parameters(module)
    assert set(found) == {"0.weight", "3.weight"}
    every = torch.cat([p.detach().flatten() for n, p in module.named_parameters() if n in found]).abs()
    limit = every.sort().values[round(0.25 * len(every))]
    for name, pruned in found.items():
        weight = module.get_parameter(name).detach()
        assert torch.equal(pruned.detach(), torch.where(weight.abs() >= limit, weight, 0))
    assert int((~pruner.mask.kept).sum()) == round(0.25 * len(every))


def test_filters_are_neurons_and_take_their_bias_with_them():
    module = nn.Conv2d(2, 4, 3)
    with torch.no_grad():
        module.weight[2] *= 0.01
    x = torch.rand(5, 2, 6, 6)
    pruned = MagnitudePruning(0.25).on(module)(x).pruned
    others = [0, 1, 3]
    assert (pruned[:, 2] == 0).all()
    assert torch.allclose(pruned[:, others], module(x).detach()[:, others])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_rows_of_recurrent_layers_take_their_biases_with_them(bidirectional):
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=bidirectional, proj_size=2)
    pruner = MagnitudePruning(0.25, gradient="straight-through").on(module)
    weights = [name for name, _ in module.named_parameters() if name.startswith("weight")]
    biases = {name.replace("weight", "bias"): name for name in weights if "_hr_" not in name}  # projections have none
    found = pruner.mask.pruned_parameters(module)
    assert set(found) == {*weights, *biases}
    for bias, weight in biases.items():
        gone = (found[weight] == 0).all(1)
        assert int(gone.sum()) == 4
        assert torch.equal(found[bias], module.get_parameter(bias).masked_fill(gone, 0))
    x = torch.randn(5, 2, 3)
    with pruner.hidden():
        expected = module(x)[0]
    torch.testing.assert_close(pruner(x)[0], expected)
    cell = nn.GRUCell(3, 4)
    assert set(MagnitudePruning(0.25).on(cell).mask.pruned_parameters(cell)) == {n for n, _ in cell.named_parameters()}


def test_by_direction_neurons_are_ranked_by_the_energy_of_all_neurons_along_them():
    learner = network()
    pruned = ~kept_of(MagnitudePruning(1 / 3, score="direction"), learner)
    by_norm = ~kept_of(MagnitudePruning(1 / 3), learner)
    for replica, weight in enumerate(learner.weight.detach().numpy()):
        along = [sum(np.dot(w, v / np.sqrt(v @ v)) ** 2 for w in weight) for v in weight]
        assert set(np.flatnonzero(pruned[replica].numpy())) == set(np.argsort(along)[:2])
    assert not torch.equal(pruned, by_norm)
    small = SymmetricReLUNetwork(1e-6 * learner.weight.detach().float())
    assert torch.equal(~kept_of(MagnitudePruning(1 / 3, score="direction"), small), pruned)


def test_singletons_of_a_feature_all_get_its_energy():
    """Feature 0: two neurons, of norms 3 and 1; feature 1: three of norm 1. By norm those of feature 0 would part."""
    weight = torch.zeros(1, 6, 4)
    weight[0, [0, 1], 0] = torch.tensor([3.0, -1.0])
    weight[0, [2, 3, 4], 1] = torch.tensor([1.0, 1.0, -1.0])
    mask = PruningMask(MagnitudePruning(score="direction"), SymmetricReLUNetwork(weight))
    (score,) = mask._magnitudes(SymmetricReLUNetwork(weight))
    assert score.tolist() == [[10, 10, 3, 3, 3, 0]]  # 0 for a neuron without weights
    pruned = ~kept_of(MagnitudePruning(4 / 6, score="direction"), SymmetricReLUNetwork(weight))
    assert pruned.tolist() == [[False, False, True, True, True, True]]
    half = ~kept_of(MagnitudePruning(2 / 6, score="direction"), SymmetricReLUNetwork(0.01 * weight))
    assert half.tolist() == [[False, False, True, False, False, True]]  # of equal ones the first


def test_each_layer_and_each_replica_has_directions_of_its_own():
    weight = torch.stack([torch.diag(torch.tensor([3.0, 2, 1])), torch.diag(torch.tensor([1.0, 2, 3]))])
    assert kept_of(MagnitudePruning(1 / 3, score="direction"), SymmetricReLUNetwork(weight)).tolist() == [
        [True, True, False],
        [False, True, True],
    ]
    layers = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        layers[0].weight.copy_(torch.tensor([[5.0, 0], [0, 4]]))
        layers[1].weight.copy_(torch.tensor([[1.0, 0], [0, 2]]))
    assert kept_of(MagnitudePruning(0.5, score="direction"), layers).tolist() == [[True, False, False, True]]


def test_entries_have_no_direction():
    with pytest.raises(ConfigError, match=r"MagnitudePruning.score = 'direction' .* allowed is 'norm' for granularity"):
        MagnitudePruning(granularity="entry", score="direction")


def test_replicas_may_have_ratios_of_their_own():
    learner = network()
    mask = PruningMask(MagnitudePruning(0.0), learner)
    mask.ratio.copy_(torch.tensor([0.0, 0.5, 0.3]))  # 0.3 of 6 neurons are rounded to 2
    mask.choose(learner)
    assert (~mask.kept).sum(1).tolist() == [0, 3, 2]


def test_among_equal_magnitudes_the_share_is_kept():
    learner = SymmetricReLUNetwork(torch.ones(2, 8, 3))
    for granularity in ("neuron", "entry"):
        kept = kept_of(MagnitudePruning(0.25, granularity), learner)
        assert kept.float().mean(1).tolist() == [0.75, 0.75]


# --- what the loss sees, and who learns -------------------------------------------------------------------------------


def test_theory_s_gradient_is_that_of_algorithm_1():
    """Softmax of the pruned network's similarities, activations and derivatives of the whole one (P (5), (21))."""
    learner = network()
    pruner = MagnitudePruning(1 / 3).on(learner)
    x, y = draw(REPLICAS, PAIRS, INPUT, seed=1), draw(REPLICAS, PAIRS, INPUT, seed=2)
    anchor, keys = pruner(x), pruner(y)
    assert isinstance(anchor, Masked)
    info_nce(anchor, keys).sum().backward()
    for r in range(REPLICAS):
        w, xs, ys = learner.weight[r].detach().numpy(), x[r].numpy(), y[r].numpy()
        norms = np.sqrt((w**2).sum(1))
        mask = (norms >= np.sort(norms)[2]).astype(float)
        expected, loss = np.zeros_like(w), 0.0
        for k in range(PAIRS):
            logits = [np.dot(mask * brelu(w @ xs[k]), mask * brelu(w @ ys[s])) / TAU for s in range(PAIRS)]
            p = np.exp(logits) / np.exp(logits).sum()
            loss -= np.log(p[k]) / PAIRS
            for i in range(NEURONS):
                pull = sum((p[s] - (s == k)) * brelu(w[i] @ ys[s]) for s in range(PAIRS))
                expected[i] += pull * (abs(w[i] @ xs[k]) >= THRESHOLD) * xs[k] / PAIRS / TAU
        assert np.allclose(learner.weight.grad[r].numpy(), expected)
        assert info_nce(anchor, keys)[r].item() == pytest.approx(loss)
        assert (np.abs(expected[mask == 0]).max(1) > 0).all()  # the pruned ones learn


def test_to_mask_whole_neurons_in_one_member_of_a_pair_is_to_mask_them_in_both():
    """A neuron that is missing in the anchor adds nothing to a product, whatever it is in the key."""
    learner = network()
    pruner = MagnitudePruning(1 / 3).on(learner)
    x, y = draw(REPLICAS, PAIRS, INPUT, seed=1), draw(REPLICAS, PAIRS, INPUT, seed=2)
    gradients = []
    for keys in (pruner(y), learner(y)):
        learner.weight.grad = None
        info_nce(pruner(x), keys).sum().backward()
        gradients.append(learner.weight.grad.clone())
    assert torch.allclose(*gradients)


def test_straight_through_leaves_pruned_neurons_without_any_gradient():
    """Trap of taking "gradients of the pruned model for all parameters" at its word: pruned neurons only decay."""
    learner = network()
    pruner = MagnitudePruning(1 / 3, gradient="straight-through").on(learner)
    x, y = draw(REPLICAS, PAIRS, INPUT, seed=1), draw(REPLICAS, PAIRS, INPUT, seed=2)
    info_nce(pruner(x), pruner(y)).sum().backward()
    pruned = ~pruner.mask.kept
    assert (learner.weight.grad[pruned] == 0).all()
    assert (learner.weight.grad[~pruned].abs().amax(-1) > 0).all()


def test_straight_through_gives_all_entries_the_gradient_at_the_pruned_weights():
    module = nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)).double()
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(module)
    x, target = draw(7, 5, seed=1), draw(7, 2, seed=2)
    (pruner(x) - target).square().sum().backward()
    first, second = (module[i].weight.detach().numpy() for i in (0, 2))
    limit = np.sort(np.abs(np.concatenate([first.ravel(), second.ravel()])))[14]
    w1, w2 = first * (np.abs(first) >= limit), second * (np.abs(second) >= limit)
    gradient1, gradient2 = np.zeros_like(w1), np.zeros_like(w2)
    for sample, wanted in zip(x.numpy(), target.numpy(), strict=True):
        hidden = np.maximum(w1 @ sample, 0)
        error = 2 * (w2 @ hidden - wanted)
        gradient2 += np.outer(error, hidden)
        gradient1 += np.outer((w2.T @ error) * (hidden > 0), sample)
    assert np.allclose(module[2].weight.grad.numpy(), gradient2)
    assert np.allclose(module[0].weight.grad.numpy(), gradient1)
    assert (gradient1[w1 == 0] != 0).any()


def test_in_an_ordinary_loop_all_weights_are_trained_and_registered_once():
    encoder = AlexNet(width=2).build(None, Streams(0, [0]).at("learner"))
    before = [p.detach().clone() for p in encoder.parameters()]
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(encoder)
    assert not pruner.state_dict()
    assert not list(pruner.parameters())
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    pruner(torch.rand(4, 3, 32, 32)).square().sum().backward()
    optimizer.step()
    kept = pruner.mask.kept.clone()
    pruner.update()
    assert not torch.equal(kept, pruner.mask.kept)
    assert all(not torch.equal(p, b) for p, b in zip(encoder.parameters(), before, strict=True))


def test_gradients_are_taken_off_the_module_as_a_pruner_has_no_parameters():
    encoder = nn.Linear(4, 3)
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(encoder)
    pruner(torch.rand(2, 4)).sum().backward()
    pruner.zero_grad()
    assert encoder.weight.grad is None


def test_a_pruner_in_place_of_a_part_is_told_as_optimizers_and_checkpoints_would_miss_its_weights():
    encoder = nn.Linear(4, 3)
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(encoder)
    model = nn.Sequential(pruner, nn.Linear(3, 2))
    with pytest.warns(
        UserWarning, match=r"'0' is a Pruner, .* lack the weights of the Linear within, .* pruner\.hidden"
    ):
        assert len([*model.parameters()]) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len([*model.parameters()]) == 2, "it is told once"
        beside = nn.ModuleDict({"encoder": encoder})
        beside["pruner"] = MagnitudePruning(0.5, "entry", "straight-through").on(encoder)
        assert [name for name, _ in beside.named_parameters()] == ["encoder.weight", "encoder.bias"]
        assert not [*pruner.parameters()]


class Recomputing(nn.Module):
    """Computes its activations anew in the backward pass, and says so."""

    def __init__(self, switch: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.switch = switch
        setattr(self, switch, True)

    def forward(self, x):
        def layers(x):
            return self.second(torch.tanh(self.first(x)))

        return checkpoint(layers, x, use_reentrant=False) if getattr(self, self.switch) else layers(x)


@pytest.mark.parametrize("switch", ["gradient_checkpointing", "grad_checkpointing"])
def test_activation_checkpointing_is_refused_but_within_hidden(switch):
    module, x = Recomputing(switch).double(), draw(3, 4)
    model = nn.Sequential(module)
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(model)
    with pytest.raises(ValueError, match=f"'0' has {switch} = True, .* use `with pruner.hidden"):
        pruner(x)
    with torch.no_grad():
        seen = pruner(x)
    with pruner.hidden():
        model(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    setattr(module, switch, False)
    out = pruner(x)
    assert torch.equal(out, seen)
    out.square().sum().backward()
    for parameter, gradient in zip(model.parameters(), found, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_what_is_hidden_and_shown_is_seen_within_one_region_of_autocast():
    module, x = nn.Linear(4, 4, bias=False), torch.eye(4)
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(module)
    with torch.autocast("cpu", torch.bfloat16):
        whole = module(x)
        with pruner.hidden():
            assert int((module(x) == 0).sum()) == 8
        assert torch.equal(module(x), whole)


def test_start_and_every_count_calls_of_update():
    late = MagnitudePruning(0.5, "entry", "straight-through", start=2).on(nn.Linear(4, 4))
    began = [late.began]
    for _ in range(2):
        late.update()
        began.append(late.began)
    assert began == [False, False, True]
    layer = nn.Linear(4, 4)
    rare = MagnitudePruning(0.5, "entry", "straight-through", every=3).on(layer)
    chosen = []
    for call in range(1, 7):
        before = rare.mask.kept.clone()
        nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(call))
        rare.update()
        if not torch.equal(before, rare.mask.kept):
            chosen.append(call)
    assert chosen == [3, 6]


def test_nothing_to_prune_is_said():
    with pytest.raises(ValueError, match="LayerNorm has no weight matrix"):
        MagnitudePruning(0.5).on(nn.LayerNorm(3))


def test_modes_of_a_pruner_are_its_modules_and_probes_restore_them():
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5))
    pruner = MagnitudePruning(0.5, gradient="straight-through").on(module)
    pruner.eval()
    assert not any(part.training for part in module.modules())
    pruner.train()
    assert all(part.training for part in module.modules())
    module[1].eval()
    embeddings(pruner, [torch.ones(3, 4)])
    assert [part.training for part in module.modules()] == [True, True, False]


def test_norms_over_several_axes_are_no_weights():
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.LayerNorm([8, 4, 4]))
    for granularity in ("neuron", "entry"):
        mask = PruningMask(MagnitudePruning(0.5, granularity=granularity), module)
        assert {name for name, _ in mask._weights(module)} == {"0.weight"}


class Factors(nn.Module):
    """Parts of ConvNeXt, of its second version and of a vision transformer that are no matrices."""

    def __init__(self, outputs: int = 4) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((4, 1, 1), 1e-6))
        self.weight, self.bias = nn.Parameter(torch.zeros(1, 1, 1, 4)), nn.Parameter(torch.zeros(1, 1, 1, 4))
        self.cls_token, self.position_embeddings = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(torch.ones(1, 5, 4))
        self.patches = nn.Conv2d(1, 4, 1)
        self.own = nn.Parameter(torch.ones(3, 4))
        self.attention, self.memory = nn.MultiheadAttention(4, 2), nn.GRU(1, 2)
        self.head = nn.Linear(4, outputs)


def test_factors_of_channels_and_single_tokens_are_no_weights():
    both = {"patches.weight", "own", "attention.in_proj_weight", "attention.out_proj.weight"}
    both |= {"memory.weight_ih_l0", "memory.weight_hh_l0"}
    for granularity, more in (("neuron", set()), ("entry", {"position_embeddings", "head.weight"})):
        mask = PruningMask(MagnitudePruning(0.6, granularity=granularity), module := Factors(1))
        assert {name for name, _ in mask._weights(module)} == both | more
    hidden = MagnitudePruning(0.5, gradient="straight-through").on(module := Factors()).mask.pruned_parameters(module)
    biases = {"patches.bias", "attention.in_proj_bias", "attention.out_proj.bias", "head.bias"}
    biases |= {"memory.bias_ih_l0", "memory.bias_hh_l0"}
    assert set(hidden) == both | {"head.weight"} | biases


def test_replicas_do_not_make_a_matrix_of_factors():
    module = OwnLayer(draw(REPLICAS, NEURONS, INPUT))
    module.replica_axis, module.scale = True, nn.Parameter(torch.zeros(REPLICAS, NEURONS, 1))
    assert [name for name, _ in PruningMask(MagnitudePruning(0.5, "entry"), module)._weights(module)] == ["weight"]


def test_a_single_output_is_no_neuron_to_prune():
    with pytest.raises(ValueError, match="Linear has no weight matrix"):
        MagnitudePruning(0.6).on(nn.Linear(4, 1))


def dropping() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 40), nn.Dropout(0.5), nn.ReLU(), nn.Linear(40, 3))


def test_both_networks_of_a_pair_have_one_dropout():
    module, x = dropping(), torch.randn(7, 5)
    torch.manual_seed(1)
    plain, drawn = module(x), torch.rand(3)
    torch.manual_seed(1)
    pair = MagnitudePruning(0.0).on(module)(x)
    assert torch.equal(torch.rand(3), drawn)
    assert torch.equal(pair.pruned, plain)
    assert torch.equal(pair.dense, plain)


def test_random_numbers_of_the_module_s_gpus_are_drawn_once(monkeypatch):
    forked, fork, module = [], torch.random.fork_rng, dropping()
    pruner = MagnitudePruning(0.0).on(module)
    places = [SimpleNamespace(device=torch.device(name), is_cuda=name != "cpu") for name in ("cuda:1", "cpu", "cuda:1")]
    monkeypatch.setattr(module, "parameters", lambda: places)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: (forked.append(devices), fork([]))[1])
    pruner(torch.randn(7, 5))
    assert forked == [{torch.device("cuda:1")}]


def test_statistics_of_the_pruned_network_begin_with_the_first_choice():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    pruner = MagnitudePruning(0.0, "entry", "straight-through", start=4).on(module)
    for _ in range(4):
        pruner(3 + torch.randn(32, 4))
        pruner.update()
    x = torch.randn(5, 4)
    pruner.eval()
    assert pruner.began
    assert torch.equal(pruner(x), module(x))
    pruner.train()
    pruner(torch.randn(32, 4))
    pruner.update()  # chooses again, and leaves them
    pruner.eval()
    assert not torch.allclose(pruner(x), module(x))
    assert pruner.refresh([x])


def test_neurons_of_a_transposed_convolution_are_refused():
    refuses_rows(nn.ConvTranspose2d(8, 8, 3))


def refuses_rows(part: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(4, 4), part)
    with pytest.raises(ValueError, match=f"'1' is of the kind {type(part).__name__}, whose rows are inputs"):
        MagnitudePruning(0.5).on(module)
    MagnitudePruning(0.5, granularity="entry", gradient="straight-through").on(module)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_inputs_of_an_embedding_are_no_neurons(kind):
    refuses_rows(kind(8, 4))


@pytest.mark.parametrize("gradient", ["straight-through", "theory"])
@pytest.mark.parametrize("granularity", ["entry", "neuron"])
@pytest.mark.parametrize(
    "made",
    [weight_norm, nn.utils.weight_norm, orthogonal, spectral_norm, nn.utils.spectral_norm, in_part],
    ids=["weight_norm", "old_weight_norm", "orthogonal", "spectral_norm", "old_spectral_norm", "prune"],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_layers_that_make_their_weight_of_other_parameters_are_left_whole(made, granularity, gradient):
    module = nn.Sequential(nn.Linear(3, 4), made(nn.Linear(4, 5)))
    with pytest.warns(UserWarning, match=r"^'1' of Sequential make their weight of other .*take that off first"):
        pruner = MagnitudePruning(0.5, granularity, gradient).on(module)
    assert set(pruner.mask.pruned_parameters(module)) <= {"0.weight", "0.bias"}
    MagnitudePruning(0.5, granularity, gradient).on(module[0])


def test_parameters_that_are_only_called_so_are_weights():
    """As a factor ``scale`` beside a matrix ``scale_w``."""
    part = nn.Linear(3, 4)
    part.scale, part.scale_w = torch.ones(4), nn.Parameter(torch.randn(4, 3))
    assert kept_of(MagnitudePruning(0.5, "entry", "straight-through"), part).sum() == 12


def test_a_layer_whose_parametrisation_was_removed_is_pruned():
    layer = weight_norm(nn.Linear(4, 6))
    with (
        pytest.warns(UserWarning, match="^'' of ParametrizedLinear make"),
        pytest.raises(ValueError, match="has no weight matrix"),
    ):
        MagnitudePruning(0.5).on(layer)
    assert kept_of(MagnitudePruning(0.5), remove_parametrizations(layer, "weight")).sum() == 3


class Experts(nn.Module):
    """A parameter of three axes, as in transformers' Mixtral: experts, outputs, inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.down_proj = nn.Parameter(torch.randn(4, 5, 3))


def test_experts_of_a_layer_are_no_neurons():
    with pytest.raises(ValueError, match=r"^'1.down_proj' has 3 axes .*allowed is granularity = 'entry'"):
        MagnitudePruning(0.5).on(nn.Sequential(nn.Linear(3, 3), Experts()))
    assert kept_of(MagnitudePruning(0.5, "entry"), Experts()).sum() == 30
    assert kept_of(MagnitudePruning(0.5), nn.Bilinear(3, 2, 4)).sum() == 2


def test_rows_of_transformers_conv1d_are_no_neurons():
    refuses_rows(pytest.importorskip("transformers.pytorch_utils").Conv1D(6, 4))


# --- as a rule of an experiment ---------------------------------------------------------------------------------------


class Pairs(nn.Module):
    """Pairs with independent noise."""

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(replicas, 1, 1))

    def pairs(self, draws):
        x = draws.normal(PAIRS, INPUT) * self.scale
        return x, x + 0.1 * draws.normal(PAIRS, INPUT)


def contrast(learner, source, draws):
    x, y = source.pairs(draws)
    return info_nce(learner(x), learner(y))


def trained(config: MagnitudePruning, steps: int, replicas=range(2)) -> GradientTraining:
    streams = Streams(0, replicas)
    learner = SymmetricReLUNetwork(0.5 * streams.at("learner").normal(NEURONS, INPUT))
    e = GradientTraining(Pairs(len(replicas)), learner, contrast, SGD(0.05, 0.0), {"pruning": config}, streams)
    for step in range(steps):
        e.advance(step)
    return e


@dataclass(frozen=True)
class PairData:
    """Options of `Pairs`."""

    def build(self, draws):
        return Pairs(draws.replicas)


class OwnLayer(nn.Module):
    """A learner that says nothing of its replica axis."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return x @ self.weight.mT


@dataclass(frozen=True)
class Own:
    """Options of `OwnLayer`."""

    def build(self, source, draws):
        return OwnLayer(draws.normal(NEURONS, INPUT))


@dataclass(frozen=True)
class Contrast:
    """Options of `contrast`."""

    def build(self, source, learner, streams):
        return contrast


def test_a_learner_of_ones_own_is_pruned_replica_by_replica():
    e = Training(PairData(), Own(), Contrast(), SGD(0.05, 0.0), {"pruning": MagnitudePruning(0.5)}).build(
        Streams(0, range(2))
    )
    kept, norms = e.rules["pruning"].kept, e.learner.weight.detach().norm(dim=-1)
    assert kept.shape == (2, NEURONS)
    assert kept.sum(1).tolist() == [NEURONS // 2] * 2
    assert torch.equal(kept, norms > norms.sort(dim=1).values[:, NEURONS // 2 - 1 : NEURONS // 2])
    assert set(e.learner.state_dict()) == {"weight"}
    e.advance(0)


def test_the_objective_sees_the_pruned_network_and_probes_the_whole_one():
    e = trained(MagnitudePruning(0.5), 0)
    seen = e.seen()
    assert (seen(torch.ones(2, 1, INPUT)).pruned == 0).sum(-1).tolist() == [[3], [3]]
    assert (e.learner(torch.ones(2, 1, INPUT)) != 0).all()
    draws = e.streams.at("batch", 0)
    assert torch.equal(e.loss(e.streams.at("batch", 0)), contrast(seen, e.source, draws))


def test_pruning_nothing_changes_nothing():
    for gradient in ("theory", "straight-through"):
        pruned, plain = (
            trained(config, 5).learner.weight
            for config in (MagnitudePruning(0.0, gradient=gradient), MagnitudePruning(0.5, start=9))
        )
        assert torch.allclose(pruned, plain, atol=1e-6)


def test_start_and_every():
    e = trained(MagnitudePruning(0.5, start=3, every=2), 2)
    assert e.seen() is e.learner
    rule = e.rules["pruning"]
    assert rule.kept.all()
    assert e.events()["pruning_began"].tolist() == [-1, -1]
    kept = []
    for step in range(2, 7):
        e.advance(step)
        with torch.no_grad():
            e.learner.weight.copy_(draw(2, NEURONS, INPUT, seed=step))  # so that each choice is another one
        kept.append(rule.kept.clone())
    changes = [not torch.equal(a, b) for a, b in pairwise(kept)]
    assert changes == [False, True, False, True]  # chosen after steps 3, 5, 7
    assert e.events()["pruning_began"].tolist() == [3, 3]
    assert e.seen() is not e.learner


def test_a_checkpoint_holds_the_mask_and_training_goes_on_as_if_never_interrupted():
    config = MagnitudePruning(0.5, every=4)
    whole, half, resumed = trained(config, 7), trained(config, 3), trained(config, 0)
    assert {name for name in half.state_dict() if name.startswith("rules")} == {
        "rules.pruning.kept",
        "rules.pruning.ratio",
        "rules.pruning.began",
    }
    assert [name for name in half.state_dict() if "learner" in name] == ["learner.weight", "learner.bias"]
    resumed.load_state_dict(half.state_dict())
    for step in range(3, 7):
        resumed.advance(step)
    assert torch.equal(resumed.learner.weight, whole.learner.weight)
    assert torch.equal(resumed.rules["pruning"].kept, whole.rules["pruning"].kept)


def test_ratios_are_stacked_like_other_numbers_of_a_sweep():
    ratios = (0.0, 0.25, 0.5)
    alone = [trained(MagnitudePruning(ratio), 4) for ratio in ratios]
    parts = [trained(MagnitudePruning(ratio), 0) for ratio in ratios]
    whole = stack(parts)
    for step in range(4):
        whole.advance(step)
    for part, single in zip(parts, alone, strict=True):
        assert torch.allclose(part.learner.weight, single.learner.weight, atol=1e-6)
        assert torch.equal(part.rules["pruning"].kept, single.rules["pruning"].kept)
    assert not torch.allclose(parts[0].learner.weight, parts[2].learner.weight, atol=1e-4)


def test_rules_without_seen_leave_the_learner_alone():
    e = experiment()
    assert e.seen() is e.learner


@pytest.mark.parametrize("options", [{"ratio": 1.0}, {"ratio": -0.1}, {"every": 0}, {"start": -1}])
def test_wrong_options_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"MagnitudePruning.{field} = .* is out of range"):
        MagnitudePruning(**options)


def test_weights_that_are_hidden_twice_are_shown_whole():
    layer = nn.Linear(4, 6)
    whole = layer.weight.detach().clone()
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(layer)
    pruner.hide()
    pruner.hide()
    assert not torch.equal(layer.weight, whole)
    pruner.show()
    assert torch.equal(layer.weight, whole)


@pytest.mark.parametrize("how", ["foreach", "fused", "by hand"])
def test_a_step_while_weights_are_hidden_is_refused_as_it_would_be_lost(how):
    layer, x = nn.Linear(4, 6), torch.ones(2, 4)
    whole = layer.weight.detach().clone()
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(layer)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, **({} if how == "by hand" else {how: True}))
    pruner.hide()
    layer(x).sum().backward()
    if how == "by hand":
        layer.weight.data -= 0.1 * layer.weight.grad
    else:
        optimizer.step()
    with pytest.raises(ValueError, match=r"'weight' was changed .* after `show`"):
        pruner.show()
    assert torch.equal(layer.weight, whole)
    with pruner.hidden(), MagnitudePruning(0.5, "entry", "straight-through").on(layer).hidden():  # of two one by one
        layer(x).sum().backward()
    optimizer.step()
    assert not torch.equal(layer.weight, whole)


def test_weights_that_are_nan_are_not_changed_ones():
    layer = nn.Linear(4, 6)
    with torch.no_grad():
        layer.weight[0, 0] = torch.nan
    layer(torch.ones(2, 4))
    pruned = MagnitudePruning(0.5, "entry", "straight-through")
    with pruned.on(layer).hidden(), pruned.on(layer).hidden():
        layer(torch.ones(2, 4))
    assert layer.weight.isnan().sum() == 1


@pytest.mark.parametrize("head_first", [True, False])
def test_an_embedding_that_shortens_its_rows_may_be_hidden(head_first):
    table, head = nn.Embedding(5, 4, max_norm=0.5), nn.Linear(4, 5)
    head.weight = table.weight
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(
        nn.Sequential(*[head, table][:: 1 if head_first else -1])
    )
    with pruner.hidden():
        rows = table(torch.arange(5))
    assert float(rows.detach().norm(dim=1).max()) < 0.51


class InTwoPlaces(nn.Module):
    """One part by two names, as a target that is the trained network itself."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
        self.target = self.online
        self.table = nn.Embedding(5, 6)
        self.head = nn.Linear(6, 5)
        self.head.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.target(x) + self.table(x.argmax(1)))


@pytest.mark.parametrize("gradient", ["straight-through", "theory"])
def test_a_part_in_several_places_and_a_shared_weight_are_pruned_everywhere_and_trained(gradient):
    torch.manual_seed(0)
    module, x = InTwoPlaces().double(), draw(8, 4)
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    pruner = MagnitudePruning(0.5, "entry", gradient).on(module)
    through = MagnitudePruning(0.5, "entry", "straight-through").on(module)
    with through.hidden():
        wanted = module(x)
        wanted.square().sum().backward()
    gradients = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    found = pruner(x)
    torch.testing.assert_close(found if gradient == "straight-through" else found.pruned, wanted)
    if gradient == "straight-through":
        found.square().sum().backward()
        torch.testing.assert_close([parameter.grad for parameter in module.parameters()], gradients)
    now = dict(module.named_parameters()) | dict(module.named_buffers())
    assert all(now[name] is one for name, one in own.items())


def _straight_through() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    pruner = MagnitudePruning(0.5, granularity="entry", gradient="straight-through").on(model)
    pruner.update()
    return model, pruner


def test_a_block_within_another_hides_and_shows_nothing():
    model, pruner = _straight_through()
    whole = model.weight.detach().clone()
    with pruner.hidden():
        hidden = model.weight.detach().clone()
        with pruner.hidden():
            assert torch.equal(model.weight, hidden)
        assert torch.equal(model.weight, hidden)
    assert torch.equal(model.weight, whole)
    assert not torch.equal(hidden, whole)


def test_nothing_is_chosen_while_weights_are_hidden():
    _, pruner = _straight_through()
    with pruner.hidden():
        for choose in (pruner.update, lambda: pruner.resume(3)):
            with pytest.raises(ValueError, match="would be chosen again for good: allowed is a call after"):
                choose()
    pruner.update()


def test_neurons_of_half_precision_are_ranked_by_norms_in_full():
    torch.manual_seed(0)
    layer = nn.Linear(512, 256).bfloat16()
    norms = layer.weight.detach().float().norm(dim=1)
    assert len(layer.weight.detach().norm(dim=1).unique()) < 100
    pruner = MagnitudePruning(0.25, "neuron", "straight-through").on(layer)
    pruner.mask.choose(layer)
    kept = pruner.mask.kept[0]
    assert norms[~kept].max() <= norms[kept].min()
    large = nn.Linear(512, 64).half()
    nn.init.normal_(large.weight)
    by_direction = MagnitudePruning(0.25, "neuron", "straight-through", score="direction").on(large)
    assert all(one.isfinite().all() for one in by_direction.mask._magnitudes(large))


def test_layers_that_share_a_weight_have_all_their_biases_hidden():
    torch.manual_seed(0)
    net = nn.ModuleDict({"a": nn.Linear(4, 8), "b": nn.Linear(4, 8)})
    net["b"].weight = net["a"].weight
    pruner = MagnitudePruning(0.5, "neuron", "straight-through").on(net)
    pruner.mask.choose(net)
    gone = ~pruner.mask.kept[0]
    with pruner.hidden():
        for name in ("a", "b"):
            assert (net[name](torch.zeros(1, 4))[0, gone] == 0).all()
            assert (net[name](torch.zeros(1, 4))[0, ~gone] != 0).all()


def test_attention_with_a_bias_for_three_weights_is_refused_by_neuron():
    with pytest.raises(ValueError, match="one bias for all: allowed is granularity = 'entry'"):
        MagnitudePruning(0.5, "neuron", "straight-through").on(nn.MultiheadAttention(8, 2, kdim=4, vdim=4))
    MagnitudePruning(0.5, "neuron", "straight-through").on(nn.MultiheadAttention(8, 2, kdim=4, vdim=4, bias=False))
    MagnitudePruning(0.5, "entry", "straight-through").on(nn.MultiheadAttention(8, 2, kdim=4, vdim=4))


def test_both_passes_of_a_pair_see_the_same_inputs_where_the_module_works_in_place():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x.sub_(0.5).div_(0.25))

    torch.manual_seed(0)
    net, x = Scaled(), torch.rand(5, 4)
    pruner = MagnitudePruning(0.0, "entry", "theory").on(net)
    pruner.mask.choose(net)
    expected = net(x.clone())
    pair = pruner(x.clone())
    assert torch.equal(pair.pruned, pair.dense)
    assert torch.equal(pair.dense, expected)
