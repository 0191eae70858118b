"""Prompts of sparse parity: labels, patterns, tasks, and what is refused."""

import pytest
import torch

from featscope.data import ParityPrompts
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def drawn(count=50, **options):
    source = ParityPrompts(**options).build(STREAMS.at("dictionary"))
    return source, source.sample(STREAMS.at("prompts"), count)


def hidden(source, batch):
    phi = batch.prompts[..., :-1] @ source.dictionary[:, None]
    torch.testing.assert_close(phi.abs(), torch.ones_like(phi))
    pair = phi.gather(-1, batch.tasks[:, :, None].expand(-1, -1, phi.shape[2], -1))
    return phi, pair


def test_the_dictionary_is_orthonormal_and_each_replicas_own():
    source, _ = drawn()
    g = source.dictionary
    torch.testing.assert_close(g @ g.mT, torch.eye(8, dtype=g.dtype).expand_as(g))
    assert not torch.allclose(g[0], g[1])


def test_labels_are_parities_and_the_query_has_none():
    source, batch = drawn(samples=20)
    _, pair = hidden(source, batch)
    torch.testing.assert_close(pair[:, :, :-1].prod(-1), batch.prompts[:, :, :-1, -1])
    torch.testing.assert_close(pair[:, :, -1].prod(-1), batch.targets)
    assert (batch.prompts[:, :, -1, -1] == 0).all()


def test_patterns_are_as_likely_as_the_text_says():
    source, batch = drawn(200, samples=200, gamma=0.15)
    phi, pair = hidden(source, batch)
    place = ((1 - pair[..., 0]) + (1 - pair[..., 1]) / 2).round().long()
    shares = torch.bincount(place.flatten(), minlength=4) / place.numel()
    torch.testing.assert_close(shares, torch.tensor([0.4, 0.25, 0.25, 0.1]), atol=0.01, rtol=0)
    y = pair.prod(-1, keepdim=True)
    moments = (y * phi).mean(2)
    wanted = torch.zeros_like(moments).scatter(-1, batch.tasks, 0.3)
    assert (moments - wanted).mean((0, 1)).abs().max() < 0.01


def test_tasks_are_of_the_important_features_or_of_others():
    _, batch = drawn(400, important=4, others=0.25, samples=1)
    inside = (batch.tasks < 4).all(-1)
    assert inside.double().mean() == pytest.approx(0.75, abs=0.05)
    assert (batch.tasks[..., 0] != batch.tasks[..., 1]).all()
    everywhere = {tuple(t) for t in batch.tasks.flatten(0, 1).tolist()}
    assert {t for t in everywhere if max(t) < 4} == {(i, j) for i in range(4) for j in range(4) if i != j}
    _, only = drawn(important=8, samples=1)
    assert only.tasks.max() == 7


def test_some_labels_are_inverted_but_not_the_querys():
    source, batch = drawn(100, samples=50, flipped=0.2)
    _, pair = hidden(source, batch)
    wrong = pair[:, :, :-1].prod(-1) * batch.prompts[:, :, :-1, -1] < 0
    share = wrong.double().mean(-1)
    assert share.mean() == pytest.approx(0.2, abs=0.02)
    assert (0.2 * 0.8 / 50) / 2 < share.var() < (0.2 * 0.8 / 50) * 2  # each by itself, none with all of its prompt
    torch.testing.assert_close(pair[:, :, -1].prod(-1), batch.targets)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 1}, "features = 1 .* >= 2"),
        ({"important": 1}, "important = 1 .* 2 to features = 8"),
        ({"gamma": 0.25}, "gamma = 0.25 .* below 1/4"),
        ({"samples": 0}, "samples = 0 .* >= 1"),
        ({"others": 0.6}, "others = 0.6 .* 0 to 0.5"),
        ({"others": 0.1, "important": 8}, "others = 0.1 .* S_2 is empty"),
        ({"flipped": 0.7}, "flipped = 0.7 .* 0 to 1/2"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        ParityPrompts(**options)
