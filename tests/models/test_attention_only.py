"""One layer of attention: the printed formula, matrix by matrix, and what its answers depend on."""

import pytest
import torch

from featscope.data.modular_addition import ModularAddition
from featscope.models import AttentionOnly
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def built(read):
    source = ModularAddition(3, 7, 0.5).build(STREAMS.at("data"))
    options = AttentionOnly(heads=3, hidden=5, head_dim=2, read=read)
    return options.build(source, STREAMS.at("weights")), source.sample(STREAMS.at("points"), 4)


@pytest.mark.parametrize("read", ["last", "equals"])
def test_logits_are_those_of_the_printed_formula(read):
    network, points = built(read)
    found = network(points)
    for replica in range(2):
        for place, point in enumerate(points[replica]):
            tokens = point.tolist() + [7] * (read == "equals")
            x = network.embedding[replica][:, tokens]
            heads = []
            for head in range(3):
                key, query, value = (getattr(network, name)[replica, head] for name in ("key", "query", "value"))
                heads.append(value.T @ x @ torch.softmax(x.T @ key @ query.T @ x, 0))  # columns sum to 1
            logits = network.projection[replica] @ torch.cat(heads)
            torch.testing.assert_close(found[replica, place], logits[:, -1])


def test_answers_read_at_equals_do_not_depend_on_scores_between_numbers():
    for read, depends in (("last", True), ("equals", False)):
        network, points = built(read)
        scores = network.scores(network.embedding).clone()
        torch.testing.assert_close(network(points, scores), network(points))
        scores[..., :7, :7] += torch.randn(7, 7, generator=torch.Generator().manual_seed(0))
        assert bool((network(points, scores) != network(points)).any()) == depends


def test_attention_matrices_are_in_the_coordinates_of_numbers():
    network, _ = built("equals")
    matrices = network.attention_matrices()
    assert matrices.shape == (2, 3, 7, 7)
    key, query, x = network.key[1, 2], network.query[1, 2], network.numbers[1]
    torch.testing.assert_close(matrices[1, 2], x.T @ key @ query.T @ x)


def test_weights_begin_at_the_scale_in_units_of_what_they_sum_over():
    source = ModularAddition(3, 97, 0.5).build(STREAMS.at("data"))
    made = AttentionOnly(heads=12, hidden=50, head_dim=20, scale=0.7).build(source, STREAMS.at("weights"))
    for name, width in (("embedding", 50), ("key", 50), ("query", 50), ("value", 50), ("projection", 240)):
        assert float(getattr(made, name).detach().std()) == pytest.approx(0.7 / width**0.5, rel=0.05), name


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match="heads = 0"):
        AttentionOnly(heads=0)
