"""Statistics of BatchNorm of a network with hidden weights and of the whole one."""

import pytest
import torch
from torch import nn

from featscope.models import ProjectionHead
from featscope.streams import Streams
from featscope.training import MagnitudePruning
from featscope.training.batch_norm import estimate_statistics

PRUNING = MagnitudePruning(0.5, "entry", "straight-through")


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 3)
    )


def images(seed: int = 1) -> torch.Tensor:
    return 2 + torch.randn(32, 2, 6, 6, generator=torch.Generator().manual_seed(seed))


def test_estimates_are_the_means_over_batches_and_modes_come_back():
    net, batches = network(), [images(1), images(2)]
    net[3].eval()
    estimate_statistics(net, batches)
    outputs = [net[0](x) for x in batches]
    mean = torch.stack([out.mean((0, 2, 3)) for out in outputs]).mean(0)
    variance = torch.stack([out.var((0, 2, 3)) for out in outputs]).mean(0)
    torch.testing.assert_close(net[1].running_mean, mean.detach())
    torch.testing.assert_close(net[1].running_var, variance.detach())
    assert [net.training, net[1].training, net[3].training] == [True, True, False]
    assert net[1].momentum == 0.1
    with pytest.raises(ValueError, match="no batches"):
        estimate_statistics(net, [])
    estimate_statistics(nn.Linear(2, 2), [])  # nothing to do


def test_a_batch_counts_by_its_values():
    torch.manual_seed(0)
    norm, x = nn.BatchNorm1d(3), torch.randn(258, 3, dtype=torch.float64)
    x[256:] += 3
    estimate_statistics(norm.double(), x.split(128))
    torch.testing.assert_close(norm.running_mean, x.mean(0))
    variances = sum(len(part) * part.var(0) for part in x.split(128)) / len(x)
    torch.testing.assert_close(norm.running_var, variances)


class Conditioned(nn.BatchNorm1d):
    """Is told something beside its input."""

    def forward(self, x, condition):
        return super().forward(x) + condition


class WithACondition(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = Conditioned(3).double()

    def forward(self, x):
        return self.norm(x, 1.0) if len(x) else x


def test_a_norm_of_one_s_own_may_be_told_more_and_batches_may_be_empty():
    torch.manual_seed(0)
    net, x = WithACondition(), torch.randn(10, 3, dtype=torch.float64)
    estimate_statistics(net, [x[:8], x[:0], x[8:]])
    torch.testing.assert_close(net.norm.running_mean, x.mean(0))


def test_a_compiled_module_is_not_compiled_anew_for_each_batch():
    torch.manual_seed(0)
    made = []

    def backend(graph, examples):
        made.append(graph)
        return graph.forward

    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    compiled, batches = torch.compile(net, backend=backend), torch.randn(12, 8, 3)
    for _ in range(2):
        estimate_statistics(net, batches, call=lambda _, x: compiled(x))
    torch.testing.assert_close(net[1].running_mean, net[0](batches).mean((0, 1)).detach(), rtol=1e-4, atol=1e-5)
    assert made == []
    compiled(batches[0])
    assert len(made) == 1


def breaking_off():
    yield images()
    raise RuntimeError("the loader broke")


@pytest.mark.parametrize(
    ("batches", "error"), [([], ValueError), (breaking_off(), RuntimeError), ([images()[:, :1]], RuntimeError)]
)
def test_statistics_stay_where_none_can_be_taken(batches, error):
    net = network()
    net(images())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(error):
        estimate_statistics(net, batches)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [part.training for part in net.modules()] == [True] * 7
    assert net[1].momentum == 0.1


def test_hidden_weights_leave_the_whole_network_s_statistics_alone():
    net, alone = network(), network()
    pruner = PRUNING.on(net)
    for _ in range(3):
        pruner(images())
        with pruner.hidden():
            net(images())
    assert torch.equal(net[1].running_mean, alone[1].running_mean)
    assert int(net[1].num_batches_tracked) == 0
    with pruner.hidden():
        assert int(net[1].num_batches_tracked) == 6
        assert (net[1].running_mean != alone[1].running_mean).any()
    pruner.refresh([images()])
    torch.testing.assert_close(net[1].running_mean, net[0](images()).mean((0, 2, 3)).detach())


def two_norms() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    for norm in (net[1], net[3]):
        norm.running_mean.fill_(5.0)
    return net


@pytest.mark.parametrize("start", [0, 2, 9])
def test_statistics_that_were_frozen_throughout_are_left_alone(start):
    x = 2 + torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
    net = two_norms()
    net[1].eval()
    pruner = MagnitudePruning(0.5, "entry", "straight-through", start=start).on(net)
    for _ in range(3):
        with pruner.hidden():
            net(x)
        pruner(x)
        pruner.update()
    assert pruner.refresh([x])
    assert net[1].running_mean.tolist() == [5.0] * 4
    torch.testing.assert_close(net[3].running_mean, net[:3](x).mean(0).detach())


def test_where_all_were_frozen_nothing_is_taken_and_of_a_model_from_elsewhere_everything():
    x = 2 + torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
    net = two_norms().eval()
    pruner = PRUNING.on(net)
    pruner(x)
    pruner.update()
    assert not pruner.refresh([x])
    assert all(net[place].running_mean.tolist() == [5.0] * 4 for place in (1, 3))
    assert PRUNING.on(net).refresh([x])
    torch.testing.assert_close(net[1].running_mean, net[0](x).mean(0).detach())
    net = two_norms()
    estimate_statistics(net, [x], only={"3"})
    assert net[1].running_mean.tolist() == [5.0] * 4
    assert (net[3].running_mean != 5).all()
    estimate_statistics(net, [], only=())  # nothing to do


def test_hiding_gives_the_straight_through_gradient_and_all_weights_back():
    called, hidden = network().eval(), network().eval()
    before = {name: value.clone() for name, value in hidden.state_dict().items()}
    PRUNING.on(called)(images()).square().sum().backward()
    pruner = PRUNING.on(hidden)
    with pruner.hidden():
        assert float((hidden[5].weight == 0).double().mean()) > 0.3
        hidden(images()).square().sum().backward()
    for one, other in zip(called.parameters(), hidden.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert all(torch.equal(value, before[name]) for name, value in hidden.state_dict().items())


def test_a_checkpoint_made_with_a_pruner_loads_without_it():
    class Tuned(nn.Module):
        def __init__(self, pruned: bool) -> None:
            super().__init__()
            self.net = network()
            if pruned:
                self.pruner = PRUNING.on(self.net)

    made, plain = Tuned(True), Tuned(False)
    made.pruner(images())
    plain.load_state_dict(made.state_dict())
    assert torch.equal(plain.net[5].weight, made.net[5].weight)
    assert not made.pruner.state_dict()


def test_the_schedule_counts_updates():
    net = nn.Linear(6, 6, bias=False)
    pruner = MagnitudePruning(0.5, "entry", "straight-through", start=2, every=2).on(net)
    x, zeros = torch.eye(6), []
    for step in range(6):
        zeros.append(int((pruner(x) == 0).sum()))
        with torch.no_grad():
            net.weight.copy_(torch.randn(6, 6, generator=torch.Generator().manual_seed(step)))
        kept = pruner.mask.kept.clone()
        pruner.update()
        assert torch.equal(kept, pruner.mask.kept) == (step + 1 not in (2, 4, 6))
    assert zeros == [0, 0, 18, 18, 18, 18]


def test_a_pair_given_to_a_head_names_the_cure():
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 8))
    out = MagnitudePruning(0.5).on(net)(images())
    head = ProjectionHead(8, 4).build(8, Streams(0, [0]).at("head"))
    for use in (head, torch.relu, lambda pair: pair.flatten(1), nn.LayerNorm(8)):
        with pytest.raises((TypeError, AttributeError), match="gradient='straight-through'"):
            use(out)


def test_theory_needs_both_networks_at_once():
    pruner = MagnitudePruning(0.5).on(network())
    with pytest.raises(ValueError, match="'straight-through'"), pruner.hidden():
        pass


class Remembering(nn.Linear):
    """Keeps what it has computed in evaluation mode until it is trained again."""

    cache = None

    def forward(self, x):
        if not self.training:
            self.cache = self.weight * 1
        return super().forward(x)

    def train(self, mode: bool = True):
        if mode:
            self.cache = None
        return super().train(mode)


def test_a_part_that_remembers_in_evaluation_mode_forgets_afterwards():
    net = nn.Sequential(Remembering(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4))
    net[2].eval()
    estimate_statistics(net, [torch.randn(8, 4)])
    assert net[0].cache is None
    assert [part.training for part in net.modules()] == [True, True, True, False]


def test_statistics_are_of_what_a_call_makes_of_a_batch():
    norm, batch = nn.BatchNorm1d(2), torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    estimate_statistics(norm, [batch], call=lambda network, given: network(3 * given))
    torch.testing.assert_close(norm.running_mean, 3 * batch.mean(0))
