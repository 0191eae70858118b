"""Linear self-attention: its short forms against the layer as printed."""

import torch

from featscope.models import LinearSelfAttention, LowRankRegressors, attended, prompt_moment
from featscope.streams import Streams

DRAWS = Streams(0, range(2)).at("weights")


def normal(*shape):
    return DRAWS.normal(*shape, dtype=torch.float64)


PROMPTS = normal(5, 7, 4)
PROMPTS[..., -1, -1] = 0


def test_the_layer_as_printed_is_column_by_column_that_of_the_text():
    value, key_query = normal(4, 4), normal(4, 4)
    found = attended(PROMPTS, value, key_query)
    e = PROMPTS[1, 2].T
    torch.testing.assert_close(found[1, 2].T, e + value[1] @ e @ (e.T @ key_query[1] @ e) / 6)


def test_the_answer_needs_only_some_blocks():
    value, key, query, label = normal(4), normal(2, 4), normal(2, 3), normal(3)
    for model in (LinearSelfAttention(value, key, query), LinearSelfAttention(value, key, query, label)):
        whole, key_query = normal(4, 4), normal(4, 4)
        whole[:, -1], key_query[..., :-1] = value, model.key_query.detach()
        torch.testing.assert_close(model(PROMPTS).detach(), attended(PROMPTS, whole, key_query)[..., -1, -1])


def test_with_other_blocks_at_zero_the_answer_is_that_of_a_product():
    value, key, query = torch.zeros(2, 4).double(), normal(2, 4), normal(2, 3)
    value[:, -1], key[..., -1] = 0.7, 0
    model = LinearSelfAttention(value, key, query)
    wanted = (prompt_moment(PROMPTS) @ model.product * PROMPTS[..., -1, :-1]).sum(-1)
    torch.testing.assert_close(model(PROMPTS), wanted)
    ranks = LowRankRegressors(0.7 * key[:, None, :, :-1], query[:, None])
    torch.testing.assert_close(ranks(PROMPTS)[:, 0], wanted)
