"""Linear attention with a ReLU on each head: as printed, and turned into a dictionary."""

import torch

from featscope.models import ReLULinearAttention, in_dictionary


def network(replicas=2, heads=3, d=4):
    signs = torch.tensor([1.0, -1.0, 1.0]).repeat(replicas, 1).double()
    return ReLULinearAttention(signs, torch.randn(replicas, heads, d, d, dtype=torch.float64))


def test_it_answers_as_printed():
    torch.manual_seed(0)
    own, prompts = network(), torch.randn(2, 5, 7, 5, dtype=torch.float64)
    prompts[..., -1, -1] = 0
    found = own(prompts)
    for r in range(2):
        for p in range(5):
            x, y, asked = prompts[r, p, :-1, :-1], prompts[r, p, :-1, -1], prompts[r, p, -1, :-1]
            heads = torch.stack([(y @ x / 6) @ w @ asked for w in own.weights[r]])
            torch.testing.assert_close(found[r, p], (own.signs[r] * heads.relu()).sum())


def test_all_answers_are_those_one_by_one():
    torch.manual_seed(1)
    own = network()
    moments, queries = (torch.randn(2, n, 4, dtype=torch.float64) for n in (3, 6))
    found = own.answer_all(moments, queries)
    for task in range(3):
        one = own.answer(moments[:, task : task + 1].expand(-1, 6, -1), queries)
        torch.testing.assert_close(found[:, task], one)


def test_a_dictionary_turns_features_into_inputs():
    torch.manual_seed(2)
    g = torch.linalg.qr(torch.randn(2, 4, 4, dtype=torch.float64)).Q
    diagonals = torch.randn(3, 4, dtype=torch.float64)
    w = in_dictionary(diagonals, g)
    torch.testing.assert_close(g.mT[:, None] @ w @ g[:, None], torch.diag_embed(diagonals).expand(2, -1, -1, -1))


def test_only_weights_are_trained():
    assert [name for name, _ in network().named_parameters()] == ["weights"]
