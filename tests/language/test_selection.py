"""The rule, on cases worked by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.language.selection import largest_row, last_row_scores, pooled, scores, select, summed_queries
from featscope.options import ConfigError


def everything(values: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(values, dtype=torch.bool)


@given(st.integers(0, 2**31), st.sampled_from([(4, 4), (4, 2), (8, 2), (6, 1)]))
def test_grouped_queries_score_as_repeated_keys_do(seed, heads):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(2, heads[0], 1, 8, dtype=torch.float64, generator=generator)
    key = torch.randn(2, heads[1], 11, 8, dtype=torch.float64, generator=generator)
    repeated = key.repeat_interleave(heads[0] // heads[1], 1)
    expected = torch.einsum("bhd,bhnd->bn", query[:, :, 0], repeated)
    found = scores(summed_queries(query, heads[1])[:, :, 0], key)
    torch.testing.assert_close(found, expected)


def test_a_choice_is_the_same_where_the_model_runs_in_autocast():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, length, 32, generator=generator) for length in (1, 500))
    key = key + 5 * torch.randn(32, generator=generator)  # products whose differences bfloat16 rounds away
    own = last_row_scores(query, key)
    with torch.autocast("cpu", torch.bfloat16):
        assert (query @ key.mT).dtype == torch.bfloat16
        assert torch.equal(last_row_scores(query, key), own)
        rows = summed_queries(query.expand(1, 2, 500, 32) * torch.rand(500, 1, generator=generator), 2)
        narrow = largest_row(rows, key, everything(own))
    assert torch.equal(narrow, largest_row(rows, key, everything(own)))


def test_a_lone_spike_selects_itself_and_two_neighbours_on_either_side():
    spike = torch.zeros(1, 20)
    spike[0, 7] = 1
    assert select(spike, everything(spike), 5).tolist() == [[5, 6, 7, 8, 9]]
    assert select(spike, everything(spike), 1, pool="none").tolist() == [[7]]
    assert select(spike, everything(spike), 3, pool="max", kernel=3).tolist() == [[6, 7, 8]]


def test_averages_count_zeros_beyond_the_edges():
    constant = torch.ones(1, 8)
    found = pooled(constant, everything(constant), "avg", 5)[0]
    torch.testing.assert_close(found, torch.tensor([0.6, 0.8, 1, 1, 1, 1, 0.8, 0.6]))


def test_edges_of_a_padded_prompt_are_those_of_the_prompt_alone():
    values = torch.randn(1, 9, generator=torch.Generator().manual_seed(0))
    alone = pooled(values, everything(values), "avg", 5)
    behind = torch.nn.functional.pad(values, (4, 0), value=100.0)
    real = torch.arange(13)[None] >= 4
    torch.testing.assert_close(pooled(behind, real, "avg", 5)[:, 4:], alone)
    torch.testing.assert_close(pooled(behind, real, "max", 5)[:, 4:], pooled(values, everything(values), "max", 5))


def test_places_are_ascending_and_short_prompts_are_kept_whole():
    values = torch.tensor([[5.0, 1, 4, 2, 3], [9.0, 9, 9, 1, 2]])
    real = torch.tensor([[True] * 5, [False] * 3 + [True] * 2])
    assert select(values, real, 3, pool="none").tolist() == [[0, 2, 4], [-1, 3, 4]]
    assert select(values, real, 9, pool="none").tolist() == [[0, 1, 2, 3, 4], [-1, -1, -1, 3, 4]]


def test_of_equal_scores_the_earlier_place_is_kept_with_and_without_padding():
    flat = torch.zeros(1, 500)
    assert select(flat, everything(flat), 3, pool="none").tolist() == [[0, 1, 2]]
    values = torch.randn(1, 500, generator=torch.Generator().manual_seed(0))
    alone = select(values, everything(values), 60, pool="max", kernel=17)
    behind = torch.nn.functional.pad(values, (7, 0))
    padded = select(behind, torch.arange(507)[None] >= 7, 60, pool="max", kernel=17)
    assert torch.equal(padded - 7, alone)


def test_forced_places_count_from_the_prompts_own_ends():
    values = torch.tensor([[0.0, 5, 4, 3, 0], [9.0, 1, 4, 3, 0]])
    real = torch.tensor([[True] * 5, [False] + [True] * 4])
    assert select(values, real, 3, pool="none", force=(0, -1)).tolist() == [[0, 1, 4], [1, 2, 4]]
    for place in (4, -5):
        with pytest.raises(ConfigError, match=f"the place {place}, and a prompt has 4 tokens: allowed is -4 to 3"):
            select(values, real, 3, pool="none", force=(0, place))
    assert select(values, real, 4, pool="none", force=(4,)).tolist() == [[1, 2, 3, 4], [1, 2, 3, 4]], "kept whole"


def test_blocks_are_ranked_by_their_mean_and_counted_from_the_prompts_own_start():
    values = torch.tensor([[9.0, 0, 0, 1, 4, 3, 2, 2, 3, 3.5]])  # means 2.5, 2.75 and, of two tokens, 3.25
    behind = torch.nn.functional.pad(values, (3, 0), value=100.0)
    real = torch.arange(13)[None] >= 3
    for keep, kept in ((1, [8]), (3, [4, 8, 9]), (6, [4, 5, 6, 7, 8, 9]), (8, [0, 1, 4, 5, 6, 7, 8, 9])):
        assert select(values, everything(values), keep, pool="none", block=4).tolist() == [kept]
        assert select(behind, real, keep, pool="none", block=4).tolist() == [[place + 3 for place in kept]]


def test_the_largest_row_is_found_without_the_square_of_scores():
    generator = torch.Generator().manual_seed(1)
    queries, key = torch.randn(2, 2, 12, 4, generator=generator), torch.randn(2, 2, 12, 4, generator=generator)
    real = torch.arange(12) >= torch.tensor([[0], [5]])
    square = torch.einsum("bgrd,bgtd->brt", queries, key).masked_fill(~real[:, None], 0)
    expected = square.norm(dim=-1).masked_fill(~real, -1).argmax(-1)
    assert torch.equal(largest_row(queries, key, real), expected)


@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_scaling_queries_leaves_the_choice(factor):
    generator = torch.Generator().manual_seed(2)
    query, key = torch.randn(1, 2, 8, generator=generator), torch.randn(1, 2, 50, 8, generator=generator)
    one, other = scores(query, key), scores(factor * query, key)
    assert torch.equal(select(one, everything(one), 12), select(other, everything(other), 12))
