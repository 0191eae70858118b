"""How one row a sample is made of what a part puts out, and which axes are refused."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from featscope.integrations import Monitor
from featscope.integrations.held_out import HeldOut
from featscope.integrations.labels import labels_of
from featscope.integrations.rows import one_row_a_sample, tensor_of
from featscope.probes import constant_dimensions


class ChannelsLast(nn.Module):
    """A stem of patches, then a layer on each of them."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.stem, self.last = nn.Conv2d(3, 8, 4, 4), last

    def forward(self, x):
        return self.last(self.stem(x).permute(0, 2, 3, 1))


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


def test_rows_of_images_and_of_tokens():
    maps = torch.randn(2, 3, 4, 4)
    assert torch.equal(one_row_a_sample(maps, maps, nn.Identity()), maps.mean((-2, -1)))
    states = torch.randn(2, 3, 5)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    rows = one_row_a_sample({"last_hidden_state": states}, {"attention_mask": mask}, nn.Identity())
    torch.testing.assert_close(rows, torch.stack([states[0, :2].mean(0), states[1, 0]]))
    padding = {"attention_mask": torch.tensor([[1, 1, 0], [0, 0, 0]])}
    assert one_row_a_sample(states, padding, nn.Identity())[1].tolist() == [0.0] * 5
    assert labels_of((torch.randn(3, 2), torch.randn(3))) is None
    assert labels_of({"input_ids": mask, "labels": torch.tensor([1, 0])}).tolist() == [1, 0]
    assert labels_of(({"views": 1}, torch.tensor([1, 0]))) is None


class Tokens(nn.Module):
    """A convolution, then states of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.layer = nn.Conv1d(2, 5, 3), nn.Linear(5, 4)

    def forward(self, x):
        return self.layer(self.stem(x).transpose(1, 2))


class Turned(nn.Module):
    """A convolution between tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(2, 5, 3)

    def forward(self, x):
        return self.stem(x).transpose(1, 2)


class BothWays(nn.Module):
    """A convolution, then states of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.layer = nn.Conv1d(2, 5, 3), nn.GRU(5, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.layer(self.stem(x).transpose(1, 2))[0]


def test_states_of_both_directions_are_no_maps_though_there_are_as_many_as_channels():
    net, sounds = BothWays(), torch.randn(8, 2, 7)
    torch.testing.assert_close(HeldOut([sounds], 8).features(net, "", None), net(sounds).mean(1).detach())


def test_maps_of_one_axis_are_not_averaged_over_channels():
    sounds = [torch.randn(8, 2, 20)]
    maps = nn.Sequential(nn.Conv1d(2, 5, 3), nn.BatchNorm1d(5), nn.ReLU())
    for net, at in ((maps, ""), (maps, "0"), (Tokens(), "stem")):
        with pytest.raises(ValueError, match=r"\[8, 5, 18\], \[sample, channel, place\] of a Conv1d.*maps\.mean\(-1\)"):
            Monitor(net, sounds, at=at)
    found = HeldOut(sounds, 8).features(maps, "", lambda maps: maps.mean(-1))
    torch.testing.assert_close(found, maps.eval()(sounds[0]).mean(-1).detach())
    for net, width in ((Tokens(), 4), (Turned(), 5)):
        found = HeldOut(sounds, 8).features(net, "", None)
        assert found.shape == (8, width)
        torch.testing.assert_close(found, net(sounds[0]).mean(1).detach())


@pytest.mark.parametrize("size", [12, 20])  # nine and 25 places
def test_flattened_maps_are_not_averaged_over_channels(size):
    """Whatever comes between the last convolution and the flattening."""
    images = [torch.randn(4, 3, size, size)]
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 25, 3, 2, 1), nn.AvgPool2d(1), nn.Flatten(2))
    with pytest.raises(ValueError, match=r"\[sample, channel, place\] of maps that were flattened.*maps\.mean\(-1\)"):
        Monitor(net, images)
    assert Monitor(net, images, reduce=lambda maps: maps.mean(-1)).latest["effective_rank"] > 1


class Patches(nn.Module):
    """Tokens of patches, sixteen of sixteen channels."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.stem, self.last = nn.Conv2d(3, 16, 4, 4), last

    def forward(self, x):
        return self.last(self.stem(x).flatten(2).mT)


@pytest.mark.parametrize("last", [nn.Identity(), nn.Linear(16, 16), nn.Sequential(nn.LayerNorm(16), nn.ReLU())])
def test_tokens_of_patches_are_averaged_over_places_though_there_are_as_many_as_channels(last):
    net, images = Patches(last).eval(), torch.randn(4, 3, 16, 16)
    found = HeldOut([images], 4).features(net, "", None)
    torch.testing.assert_close(found, net(images).mean(1).detach())


class Turning(nn.Module):
    """A part that takes samples second, between others that take them first, or do not ``turn``."""

    def __init__(self, part: nn.Module, turn: bool = True, back: bool = True) -> None:
        super().__init__()
        self.part, self.turn, self.back, self.head = part, turn, back, nn.Linear(8, 8)

    def forward(self, x):
        out = self.part(x.transpose(0, 1) if self.turn else x)
        states = out[0] if isinstance(out, tuple) else out
        return self.head(states.transpose(0, 1) if self.back else states)


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8), 1, enable_nested_tensor=False)


@pytest.mark.parametrize("part", [nn.GRU(8, 8), nn.LSTM(8, 8), encoder(), nn.TransformerEncoderLayer(8, 2, 8)])
@pytest.mark.parametrize("samples", [5, 6])
def test_states_of_layers_that_take_samples_second_are_refused_unless_turned(part, samples):
    """Of six samples there are as many as steps."""
    batch = torch.randn(samples, 6, 8)
    with pytest.raises(ValueError, match=r"at = 'part' .* batch_first=False: samples lie along the second axis.*`run`"):
        HeldOut([batch], samples).features(Turning(part), "part", None)
    net = Turning(part).eval()
    if samples == 6:
        with pytest.warns(UserWarning, match=r"at = '' puts out \[6, 6, 8\], .* batch_first=False: samples may lie"):
            found = HeldOut([batch], samples).features(net, "", None)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = HeldOut([batch], samples).features(net, "", None)
        with pytest.raises(ValueError, match=r"at = '' puts out \[5, 6, 8\], .* samples lie along the second axis"):
            HeldOut([batch], samples).features(Turning(part, False, False), "", None)
    torch.testing.assert_close(found, net(batch).mean(1).detach())


def test_what_takes_samples_first_is_not_refused():
    batch = torch.randn(6, 6, 8)
    for part in (nn.GRU(8, 8, batch_first=True), nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            HeldOut([batch], 6).features(Turning(part, False, False), "", None)
            HeldOut([batch], 6).features(Turning(part, False, False), "part", None)
