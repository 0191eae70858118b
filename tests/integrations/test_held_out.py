"""What is held out: how it is read, what is done with it, and how one row a sample is made."""

import warnings
from collections import UserDict
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from featscope.integrations import Monitor
from featscope.integrations.held_out import HeldOut, copied, one_row_a_sample, tensor_of, undisturbed
from featscope.probes import constant_dimensions


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


class ChannelsLast(nn.Module):
    """A stem of patches, then a layer on each of them."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.stem, self.last = nn.Conv2d(3, 8, 4, 4), last

    def forward(self, x):
        return self.last(self.stem(x).permute(0, 2, 3, 1))


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


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (None, "NoneType"),
        ((), "tuple"),
        ({"hidden": torch.ones(2, 3)}, "dict"),
        ([{"logits": None}, torch.ones(2)], "dict"),
        (SimpleNamespace(logits=[1.0]), "SimpleNamespace"),
    ],
)
def test_an_output_without_a_tensor_where_one_would_look_is_refused_with_the_cure(output, kind):
    with pytest.raises(ValueError, match=f"^an output is a {kind} without a tensor: say with `reduce` how to make one"):
        tensor_of(output)


def test_random_numbers_of_the_model_s_gpus_are_left_alone(monkeypatch):
    forked, fork = [], torch.random.fork_rng
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: (forked.append(devices), fork([]))[1])
    places = [SimpleNamespace(device=torch.device(name)) for name in ("cuda:2", "cpu", "cuda:2")]
    net = nn.Linear(6, 4)
    monkeypatch.setattr(net, "parameters", lambda: places)
    with undisturbed(net):
        pass
    assert forked == [{0, 2}]


def test_means_are_not_taken_in_half_precision():
    states = (50 + torch.randn(64, 512, 8, generator=torch.Generator().manual_seed(0))).bfloat16()
    for rows in (one_row_a_sample(states, states, nn.Identity()), rows_of_maps(states)):
        assert not constant_dimensions(rows).any()
    hot = torch.full((2, 700, 3), 100.0, dtype=torch.float16)
    rows = one_row_a_sample(hot, {"attention_mask": torch.ones(2, 700)}, nn.Identity())
    assert rows.tolist() == [[100.0] * 3] * 2


def rows_of_maps(states: torch.Tensor) -> torch.Tensor:
    maps = states.mT.unflatten(-1, (16, 32))
    return one_row_a_sample(maps, maps, nn.Identity())


@pytest.mark.parametrize("last", [nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU())])
def test_maps_with_channels_last_are_averaged_over_places(last):
    net, images = ChannelsLast(last).eval(), torch.randn(16, 3, 16, 16)
    found = HeldOut([images], 16).features(net, "", None)
    assert found.shape == (16, 8)
    torch.testing.assert_close(found, net(images).mean((1, 2)).detach())
    stem = HeldOut([images], 16).features(net, "stem", None)
    torch.testing.assert_close(stem, net.stem(images).mean((2, 3)).detach())


def test_maps_that_may_have_channels_first_or_last_are_refused():
    net, images = ChannelsLast(nn.Linear(8, 8)), torch.randn(4, 3, 32, 32)
    with pytest.raises(
        ValueError, match=r"\[4, 8, 8, 8\], whose channels may be first or last.*maps\.mean\(\(1, 2\)\)"
    ):
        HeldOut([images], 4).features(net, "", None)
    assert HeldOut([images], 4).features(net, "stem", None).shape == (4, 8)


def test_a_mask_of_other_tokens_is_refused_where_it_leaves_some_out():
    states, mask = torch.randn(2, 5, 3), torch.ones(2, 20)
    rows = one_row_a_sample(states, {"attention_mask": mask}, nn.Identity())
    torch.testing.assert_close(rows, states.mean(1))
    mask[1, 7:] = 0
    with pytest.raises(ValueError, match=r"at = 'body' puts out \[2, 5, 3\], .* \[2, 20\] .*`reduce`"):
        one_row_a_sample(states, {"attention_mask": mask}, nn.Identity(), "body")


def test_a_batch_without_a_sample_is_passed_over():
    x, y = torch.randn(8, 6), torch.arange(8) % 2
    for none in ((x[:0], y[:0]), {"x": x[:0]}, ()):
        found = HeldOut([(x, y), none, (x, y), none], 100)
        assert (found.samples, len(found.batches), found.labels.tolist()) == (16, 2, [*y.tolist()] * 2)
    assert HeldOut([(x[:0], y[:0]), (x, y)], 8).samples == 8


def test_a_mapping_without_a_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match=r"held_out has a batch without a tensor \(text: list\): allowed are mappings"):
        HeldOut([{"text": ["a", "b"]}], 8)


def test_a_class_that_may_be_outvoted_however_well_it_is_told_apart_is_told():
    x, y = torch.randn(30, 6), torch.arange(30) % 3 + 5
    with pytest.warns(UserWarning, match=r"neighbours = 20: .* of 3 classes \(class 5, say\) .* Give 18 neighb"):
        Monitor(nn.Identity(), [(x, y)])
    with pytest.warns(
        UserWarning, match="neighbours = 9: held_out has so few samples of class 6 that .* Give 2 neighb"
    ):
        Monitor(nn.Identity(), [(x[:20], torch.tensor([5, 6, 6] + 17 * [5]))], neighbours=9)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="neighbours")
        Monitor(nn.Identity(), [(x, y)], neighbours=18)  # nine of its own are half of them, and nearer
        Monitor(
            nn.Identity(), [(x[:20], torch.tensor([5, 6] + 18 * [5]))], neighbours=9
        )  # one alone has none of its own
        Monitor(nn.Identity(), [x])
        HeldOut([(x, y)], 30)


def test_a_tuple_of_which_several_entries_could_be_labels_is_told_with_the_cure():
    x, lengths, y = torch.randn(30, 6), torch.arange(30) % 4 + 3, torch.arange(30) % 3
    with pytest.warns(UserWarning, match=r"batch\[1\] is .*, and batch\[2\] could .* \(\(batch\[0\], batch\[2\]\) for"):
        Monitor(nn.Identity(), [(x, lengths, y)], neighbours=3)
    with pytest.warns(UserWarning, match=r"and batch\[2\] and batch\[4\] could be labels, too"):
        HeldOut([(x, lengths, y, x, y)], 30)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="held_out")
        assert HeldOut([(x, y)], 30).labels.tolist() == y.tolist()
        assert HeldOut([{"x": x, "lengths": lengths, "labels": y}], 30).labels.tolist() == y.tolist()
        assert HeldOut([(x, y, x, torch.rand(30), y - 1)], 30).labels.tolist() == y.tolist()
        assert HeldOut([(x, x, lengths, y)], 30).labels is None
        assert HeldOut([(x, y, torch.arange(30))], 30).labels.tolist() == y.tolist()  # numbers of samples
        assert HeldOut([(x, y, y > 0)], 30).labels.tolist() == y.tolist()  # a mask
        assert HeldOut(((batch[0], batch[1]) for batch in [(x, y, lengths)]), 30).labels.tolist() == y.tolist()


def test_rows_that_are_views_do_not_keep_all_tokens(monkeypatch):
    kept, cat = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda rows, *more: (kept.extend(rows), cat(rows, *more))[1])
    found = HeldOut([torch.randn(4, 50, 3)] * 2, 8).features(nn.Identity(), "", lambda states: states[:, 0])
    assert found.shape == (8, 3)
    assert {row.untyped_storage().nbytes() for row in kept} == {4 * 3 * 4}
