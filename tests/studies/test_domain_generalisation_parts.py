"""What a training of domain generalisation minimises, moves, looks at and is asked about."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from featscope.streams import Streams
from featscope.studies.domain_generalisation import algorithms, recipe, source
from featscope.studies.domain_generalisation.adapter import Adapters, Layers

STREAMS, NETWORKS = Streams(0, [0]), Adapters(5, 8)


def domains() -> source.Domains:
    """Three domains of 40 samples; classes are three axes."""
    labels = torch.arange(120) % 3
    features = torch.eye(3, 5)[labels] + 0.3 * torch.randn(120, 5, generator=torch.Generator().manual_seed(0))
    return source.Domains(features, labels, torch.arange(120) // 40, ("a", "b", "c"), ("x", "y", "z"))


KNOWN = domains()
X, Y = KNOWN.inputs[:80], KNOWN.labels[:80]


def training(algorithm: str = "erm", **changes) -> recipe._Training:
    """One that leaves the third domain out; trained on are the others, checked is a sample in four of them."""
    sizes = {"units": 8, "batch": 8, "steps_each": 60, "rate": 0.02, "looks": 10} | changes
    made = recipe.LeaveOneOut(algorithm, (), data="here", digits="digits", encoder="pixels", trained="adapter", **sizes)
    index = torch.arange(120)
    return recipe._Training(
        made, KNOWN, NETWORKS, [index[:40], index[40:80]], index[:80:4], index[80:], STREAMS, target=2
    )


def minimised(algorithm: str, weights: Layers, step: int = 0) -> torch.Tensor:
    made = training(algorithm)
    return made._objective(made.recipe.penalties)(weights, X, Y, step)


def start() -> Layers:
    return NETWORKS.start(1, 3, STREAMS, 2)


def test_a_loss_is_a_mean_over_samples_whatever_the_batch():
    weights = start()
    torch.testing.assert_close(minimised("erm", weights)[0], cross_entropy(NETWORKS.outputs(weights, X)[1][0], Y))
    x, one, other, share = algorithms.mixed(X, Y, 2, STREAMS.at("mixed 2", 3))
    logits = NETWORKS.outputs(weights, x)[1][0]
    each = [cross_entropy(logits, labels, reduction="none") for labels in (one, other)]
    expected = (share * each[0] + (1 - share) * each[1]).mean()
    torch.testing.assert_close(minimised("mixup", weights, 3)[0], expected)


def test_no_gradient_goes_through_the_weights_of_domains():
    weights = start()
    minimised("group-dro", weights).sum().backward()
    logits = NETWORKS.outputs(weights, X)[1][0]
    of_domain = torch.stack([cross_entropy(logits[:40], Y[:40]), cross_entropy(logits[40:], Y[40:])])
    shares = (0.01 * of_domain.detach()).softmax(0)
    for part, expected in zip(weights, torch.autograd.grad((shares * of_domain).sum(), list(weights)), strict=True):
        torch.testing.assert_close(part.grad, expected, rtol=1e-5, atol=1e-7)
    assert shares[0] != shares[1]


def test_a_step_moves_every_part_by_its_rate():
    """Adam's first step is of one size."""
    began, kept = start(), training(steps_each=1, rate=0.03)._kept([recipe.Penalty("none", 0.0)])
    for before, after in zip(began, kept, strict=True):
        assert float((after - before).detach().abs().max()) == pytest.approx(0.03, rel=1e-3)


def test_looks_are_as_far_apart_as_said_and_the_last_is_at_the_end(monkeypatch):
    steps, looks, stepped, looked = [0], [], recipe._Best.stepped, recipe._Best.looked

    def counted(self, weights):
        steps[0] += 1
        stepped(self, weights)

    def noted(self, *given):
        looks.append(steps[0])
        looked(self, *given)

    monkeypatch.setattr(recipe._Best, "stepped", counted)
    monkeypatch.setattr(recipe._Best, "looked", noted)
    training(steps_each=7, looks=3)._kept([recipe.Penalty("none", 0.0)])
    assert looks == [2, 4, 6, 7]


def test_ranks_are_of_the_features_of_what_is_kept_in_the_domain_left_out(monkeypatch):
    kept, of = [], []
    keep, ranks = recipe._Training._kept, recipe.ranks
    monkeypatch.setattr(recipe._Training, "_kept", lambda self, p: kept.append(keep(self, p)) or kept[-1])
    monkeypatch.setattr(recipe, "ranks", lambda phi: of.append(phi) or ranks(phi))
    made = training(steps_each=2)
    found = made.answers([recipe.Penalty("none", 0.0)])
    with torch.no_grad():
        phi, logits = NETWORKS.outputs(kept[0], KNOWN.inputs[80:])
        _, checked = NETWORKS.outputs(kept[0], KNOWN.inputs[:80:4])
    torch.testing.assert_close(of[0], phi)
    for name, said, labels in (("accuracy", logits, KNOWN.labels[80:]), ("validation", checked, KNOWN.labels[:80:4])):
        assert float(found[name][0]) == pytest.approx(float((said[0].argmax(1) == labels).double().mean())), name
