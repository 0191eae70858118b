"""What is held out: how it is read, what is done with it, and what a look leaves as it was."""

import random
import warnings
from collections import UserDict
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, Subset, TensorDataset

from featscope.integrations import Monitor
from featscope.integrations.batches import copied, run_model, size_of
from featscope.integrations.held_out import HeldOut
from featscope.integrations.undisturbed import undisturbed
from featscope.training import MagnitudePruning


class Doubling(nn.Module):
    """Works on its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x):
        return self.layer(x.mul_(2))


class Remembering(nn.Linear):
    """Keeps what it has computed in evaluation mode until it is trained again."""

    cache = None

    def forward(self, x):
        if not self.training and self.cache is None:
            self.cache = self.weight.detach() * 1
        return super().forward(x) if self.training else x @ self.cache.T

    def train(self, mode: bool = True):
        if mode:
            self.cache = None
        return super().train(mode)


class Writing(nn.Linear):
    """Writes what it has seen into buffers: in place, by another tensor, and into a table that grows."""

    def __init__(self) -> None:
        super().__init__(6, 4)
        self.register_buffer("queue", torch.zeros(3))
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("table", torch.zeros(1), persistent=False)
        self.length = 1

    def forward(self, x):
        self.queue += len(x)
        self.seen = self.seen + len(x)
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.table = torch.arange(self.length)
        return super().forward(x)


class ShuffledBatches:
    """Places of batches, by a generator of its own."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __iter__(self):
        return iter(torch.randperm(64, generator=self.generator).view(4, 16).tolist())

    def __len__(self) -> int:
        return 4


class Counting:
    """A loader that counts the batches that were read."""

    def __init__(self, batches) -> None:
        self.batches, self.read = batches, 0

    def __iter__(self):
        for batch in self.batches:
            self.read += 1
            yield batch


def test_a_part_that_remembers_in_evaluation_mode_forgets_after_a_look():
    net = nn.Sequential(Remembering(6, 4), nn.BatchNorm1d(4))
    net[1].eval()
    monitor = Monitor(net, [torch.randn(16, 6)], every=1)
    assert net[0].cache is None
    assert [part.training for part in net.modules()] == [True, True, False]
    before = monitor.latest["spread"]
    with torch.no_grad():
        net[0].weight.copy_(net[0].weight[:1].expand(4, 6))
    monitor.step()
    assert monitor.latest["spread"] != before


def test_a_model_that_works_in_place_sees_the_same_batch_at_every_look():
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    given = x.clone()
    monitor = Monitor(Doubling(), [given], every=1)
    first = monitor.latest
    monitor.step()
    assert torch.equal(given, x)
    assert monitor.latest == pytest.approx(first, nan_ok=True)


def test_batches_are_copied_in_whatever_holds_them():
    x = torch.randn(2, 3)
    batch = UserDict(input_ids=x, more=[(x, "name")])
    other = copied(batch)
    assert type(other) is UserDict
    for one in (other["input_ids"], other["more"][0][0]):
        assert torch.equal(one, x)
        assert one.data_ptr() != x.data_ptr()
    assert other["more"][0][1] == "name"
    assert batch["input_ids"] is x


@pytest.mark.filterwarnings("ignore:held_out comes class by class")
@pytest.mark.parametrize("labels", [torch.arange(8) % 2, torch.zeros(8, dtype=torch.long)])
def test_every_process_reads_as_many_batches(monkeypatch, labels):
    """Of a loader that is one for all, whatever the labels are that each sees."""
    read = []
    for rank in (0, 1):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        loader = Counting([(torch.randn(8, 6), labels if rank == 0 else torch.arange(8) % 2) for _ in range(5)])
        monitor = Monitor(nn.Linear(6, 4), loader, samples=16)
        monitor.step()
        monitor.close()
        read.append(loader.read)
    assert read == [3, 3]


def test_a_loader_s_own_generator_is_left_as_it_was():
    held = torch.Generator().manual_seed(1)
    sampler = torch.utils.data.RandomSampler(range(64), generator=torch.Generator().manual_seed(2))
    data = TensorDataset(torch.randn(64, 6))
    for loader in (
        DataLoader(data, batch_size=16, shuffle=True, generator=held),
        DataLoader(data, batch_size=16, sampler=sampler),
    ):
        states = held.get_state(), sampler.generator.get_state()
        Monitor(nn.Linear(6, 4), loader, samples=32)
        assert torch.equal(held.get_state(), states[0])
        assert torch.equal(sampler.generator.get_state(), states[1])


def test_generators_behind_a_batch_sampler_are_left_as_they_were():
    data, of_sampler, of_batches = TensorDataset(torch.randn(64, 6)), torch.Generator(), torch.Generator()
    shuffled = BatchSampler(RandomSampler(data, generator=of_sampler), 16, drop_last=False)
    states = of_sampler.get_state(), of_batches.get_state()
    for batch_sampler in (shuffled, ShuffledBatches(of_batches)):
        Monitor(nn.Linear(6, 4), DataLoader(data, batch_sampler=batch_sampler), samples=32)
    assert torch.equal(of_sampler.get_state(), states[0])
    assert torch.equal(of_batches.get_state(), states[1])


@pytest.mark.parametrize("breaks", [False, True])
def test_what_forward_writes_into_buffers_is_taken_back(breaks):
    model = Writing()
    queue, before = model.queue, {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ZeroDivisionError) if breaks else nullcontext():
        Monitor(model, [torch.randn(50, 6)], reduce=lambda rows: rows * (1 // (not breaks)))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.queue is queue
    assert model.table.shape == (6,)  # by no checkpoint, and made together with its length
    assert model.length == 6


def test_buffers_that_a_look_leaves_alone_are_not_written():
    """Or a graph that training still holds could not be differentiated."""
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval()
    net.register_buffer("adjacency", torch.eye(3).to_sparse())
    loss = net(torch.randn(5, 6)).square().sum()
    Monitor(net, [torch.randn(16, 6)])
    loss.backward()
    assert net[0].weight.grad is not None


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_pruner_has_beside_it_is_left_as_it_was(alone):
    encoder = nn.Sequential(Writing(), nn.BatchNorm1d(4))
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(encoder)
    with nullcontext() if alone else pytest.warns(UserWarning, match="which has no parameters"):
        model = (pruner if alone else nn.Sequential(pruner, nn.Linear(4, 2))).train()
        encoder[1].eval()
        Monitor(model, [torch.ones(4, 6)])
    assert [part.training for part in encoder.modules()] == [True, True, False]
    assert not encoder[0].queue.any()


def test_random_numbers_of_the_model_s_gpus_are_left_alone(monkeypatch):
    forked, fork = [], torch.random.fork_rng
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: (forked.append(devices), fork([]))[1])
    places = [SimpleNamespace(device=torch.device(name)) for name in ("cuda:2", "cpu", "cuda:2")]
    net = nn.Linear(6, 4)
    monkeypatch.setattr(net, "parameters", lambda recurse: places)
    for model in (net, MagnitudePruning(0.0).on(net)):
        with undisturbed(model):
            pass
    assert forked == [{0, 2}] * 2


@pytest.mark.parametrize(
    ("held_out", "told"),
    [
        (torch.randn(6, 5, 3), r"one tensor of shape \[6, 5, 3\]: allowed is a loader.* Give \[held_out\], or"),
        ((torch.randn(6, 3), torch.arange(6)), r"tensors of different axes, \[6, 3\], \[6\], as of one batch"),
        ((torch.randn(6, 3), np.arange(6)), r"tensors of different axes, \[6, 3\], \[6\], as of one batch"),
        ((np.ones((6, 3)), np.arange(6)), r"tensors of different axes, \[6, 3\], \[6\], as of one batch"),
        ({"x": torch.randn(6, 3), "labels": torch.arange(6)}, r"one mapping: .* Give \[held_out\]"),
    ],
)
def test_a_single_batch_in_place_of_batches_is_refused(held_out, told):
    """Its tokens would be samples, or its labels a batch."""
    with pytest.raises(ValueError, match=f"held_out is {told}"):
        HeldOut(held_out, 4)


def test_parts_of_a_tensor_are_batches():
    assert HeldOut(torch.randn(6, 3).split(2), 6).samples == 6


def test_a_batch_without_a_sample_is_passed_over():
    x, y = torch.randn(8, 6), torch.arange(8) % 2
    for none in ((x[:0], y[:0]), {"x": x[:0]}, ()):
        found = HeldOut([(x, y), none, (x, y), none], 100)
        assert (found.samples, len(found.batches), found.labels.tolist()) == (16, 2, [*y.tolist()] * 2)
    assert HeldOut([(x[:0], y[:0]), (x, y)], 8).samples == 8


def test_a_mapping_beside_labels_is_counted_and_given_by_name():
    class Named(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    batch = ({"x": torch.ones(16, 6)}, torch.arange(16) % 4)
    assert size_of(batch) == 16
    torch.manual_seed(0)
    model = Named(6, 4)
    torch.testing.assert_close(run_model(model, batch), model(batch[0]["x"]))
    assert size_of({"scale": torch.tensor(2.0), **batch[0]}) == 16


def test_a_mapping_without_a_tensor_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"held_out has a batch without a tensor of samples \(text: list\): allowed are mappings"
    ):
        HeldOut([{"text": ["a", "b"]}], 8)


def test_rows_that_are_views_do_not_keep_all_tokens(monkeypatch):
    kept, cat = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda rows, *more: (kept.extend(rows), cat(rows, *more))[1])
    found = HeldOut([torch.randn(4, 50, 3)] * 2, 8).features(nn.Identity(), "", lambda states: states[:, 0])
    assert found.shape == (8, 3)
    assert {row.untyped_storage().nbytes() for row in kept} == {4 * 3 * 4}


class Masking:
    """A collator, a data set, or a part of one, that draws by generators of its own, which it makes when asked."""

    def __init__(self, *held: object) -> None:
        self.inner, self.made = held, None
        for place, one in enumerate(held):
            setattr(self, f"held_{place}", one)

    def draw(self) -> None:
        for one in (*self.inner, self.made):
            if isinstance(one, Masking):
                one.draw()
            elif isinstance(one, torch.Generator):
                torch.rand(1, generator=one)
            elif one is not None:
                one.random(1) if isinstance(one, np.random.Generator) else one.random_sample()
        self.made = self.made or torch.Generator().manual_seed(3)
        self.other = torch.Generator()

    def __call__(self, samples):
        self.draw()
        return torch.stack(samples)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, place):
        self.draw()
        return torch.ones(6) * place


class Dropped(Dataset):
    """Uses one after another of what it holds."""

    def __init__(self, steps) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return 32

    def __getitem__(self, place):
        for one in (self.steps[0], *self.steps[1]):
            one.draw()
        return torch.ones(6) * place


def test_generators_in_lists_are_left_as_they_were():
    held = torch.Generator(), torch.Generator()
    both = ConcatDataset([Masking(held[1]), Dropped([Masking(held[0]), (Masking(),)])])
    Monitor(nn.Linear(6, 4), DataLoader(both, batch_size=8), samples=96)
    assert all(torch.equal(one.get_state(), torch.Generator().get_state()) for one in held)


@pytest.mark.parametrize("bound", [lambda one: one, lambda one: one.__call__, lambda one: partial(one.__call__)])
def test_generators_of_a_collator_and_of_a_data_set_are_left_as_they_were(bound):
    held = torch.Generator(), np.random.default_rng(1), np.random.RandomState(1), random.Random(1)
    collator, inner = Masking(held[0], held[1]), Masking(held[2])
    loader = DataLoader(Subset(Masking(inner), range(40)), batch_size=8, collate_fn=bound(collator))
    before = held[0].get_state(), held[1].bit_generator.state, held[2].random_sample()
    held[2].seed(1)
    Monitor(nn.Linear(6, 4), loader, samples=32)
    assert torch.equal(held[0].get_state(), before[0])
    assert held[1].bit_generator.state == before[1]
    assert held[2].random_sample() == before[2]
    assert collator.made is inner.made is None
    assert not hasattr(collator, "other")
    collator.draw()
    made, state = collator.made, collator.made.get_state()
    Monitor(nn.Linear(6, 4), loader, samples=32)
    assert collator.made is made
    assert torch.equal(made.get_state(), state)


class Dropping(nn.Linear):
    """Leaves three of four entries out in evaluation mode, too: some by a generator of its own."""

    def __init__(self) -> None:
        super().__init__(6, 4)
        self.own = torch.Generator().manual_seed(1)

    def forward(self, x):
        torch.rand(1, generator=self.own)
        return super().forward(x * (torch.rand_like(x) > 0.75))


def test_a_model_that_draws_in_evaluation_mode_sees_the_same_draws_at_every_look():
    net = Dropping()
    own, drawn = net.own.get_state(), torch.get_rng_state()
    monitor = Monitor(net, [torch.randn(64, 6)], every=1)
    assert torch.equal(net.own.get_state(), own)
    first = monitor.latest
    torch.rand(3)
    monitor.step()
    assert monitor.latest == pytest.approx(first, nan_ok=True)
    assert not torch.equal(torch.get_rng_state(), drawn)


def test_features_that_are_not_finite_are_told_of_once():
    held = HeldOut([torch.full((4, 3), torch.nan)], 4)
    with pytest.warns(UserWarning, match="what this puts out on held-out samples is not finite"):
        held.features(nn.Linear(3, 2), "", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held.features(nn.Linear(3, 2), "", None)


def test_batches_that_are_no_tensors_are_refused_by_kind():
    with pytest.raises(ValueError, match="held_out has a batch that is a ndarray: allowed are tensors"):
        HeldOut([np.zeros((4, 3), np.float32)], 4).features(nn.Linear(3, 2), "", None)
