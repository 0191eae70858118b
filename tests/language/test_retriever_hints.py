"""What the retriever is told while it learns."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, rms_norm

from featscope.language.retriever.data import KEYS, NONE, Batch
from featscope.language.retriever.forward import hidden
from featscope.language.retriever.hints import Readers, of_hints, of_looking, of_saying
from featscope.language.retriever.model import build

WIDTH = 32


@pytest.fixture(scope="module")
def model(tokenizer):
    return build(tokenizer, WIDTH, 5, 2, 64, 0)


@pytest.fixture
def batch():
    """Two rows with a needle whose value begins at 3 and a question that ends at 6; a row of neither."""
    tokens = torch.randint(3, 1000, (3, 10), generator=torch.Generator().manual_seed(0))
    answers = torch.zeros(3, 10, dtype=torch.bool)
    answers[:, 7:9] = True
    keys, sought = torch.full((3, 10, KEYS), NONE), torch.full((3, 10), NONE)
    keys[:2, 3, :2] = keys[:2, 6, :2] = torch.tensor([[11, 12], [13, NONE]])
    sought[:2, 6] = 3
    return Batch(tokens, answers, keys, sought)


def seen():
    return torch.randn(3, 10, WIDTH, generator=torch.Generator().manual_seed(1), requires_grad=True)


def test_a_batch_says_where_values_begin_and_questions_end(batch):
    assert batch.begins.nonzero().tolist() == [[0, 3], [1, 3]]
    assert batch.asks.nonzero().tolist() == [[0, 6], [1, 6]]


def test_where_values_begin_is_learned_from_texts_alone(batch):
    readers, states = Readers(WIDTH), seen()
    loss = readers.of_starts(states, batch)
    loss.backward()
    assert states.grad[:2, :7].abs().sum(-1).min() > 0
    assert states.grad[2].abs().max() == states.grad[:, 7:].abs().max() == 0
    wanted = torch.zeros(2, 7)
    wanted[:, 2] = 1  # the token before
    said = readers.starts(rms_norm(states[:2, :7], (WIDTH,)))[..., 0]
    torch.testing.assert_close(loss, binary_cross_entropy_with_logits(said, wanted, pos_weight=torch.tensor(4.0)))


def test_tokens_of_keys_are_learned_where_values_begin_and_where_questions_end(batch):
    readers, states = Readers(WIDTH), seen()
    unembedding = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(2))
    loss = readers.of_keys(states, unembedding, batch)
    loss.backward()
    learned = (states.grad.abs().sum(-1) > 0).nonzero().tolist()
    assert learned == [[0, 3], [0, 6], [1, 3], [1, 6]]
    expected = 0
    for place in (3, 6):
        said = readers.keys(rms_norm(states[:2, place], (WIDTH,))).view(2, KEYS, WIDTH) @ unembedding.T
        expected += cross_entropy(said[[0, 0, 1], [0, 1, 0]], torch.tensor([11, 12, 13]))
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0)


def test_looking_is_what_transformers_attends_with(model, batch):
    model.set_attn_implementation("eager")
    batch.sought[1, 8] = 2  # a second question of the second row
    with torch.no_grad():
        weights = model(batch.tokens, output_attentions=True).attentions[3]
        _, read = hidden(model, batch.tokens, torch.float32)
        found = of_looking(model, 3, read[3], batch)
    paid = weights[[0, 1, 1], :, [6, 6, 8], [3, 3, 2]].mean(1)
    torch.testing.assert_close(found, -paid.log().mean(), rtol=1e-4, atol=1e-5)


def test_what_is_found_is_what_the_last_layer_would_say(model, batch):
    with torch.no_grad():
        states, _ = hidden(model, batch.tokens, torch.float32)
        said = model.lm_head(states)[:2, 6]
        before_norm = []
        hook = model.model.norm.register_forward_pre_hook(lambda _, given: before_norm.append(given[0]))
        model.model(batch.tokens, use_cache=False)
        hook.remove()
        found = of_saying(model, before_norm[0], batch)
    torch.testing.assert_close(found, cross_entropy(said, batch.tokens[:2, 7]), rtol=0.01, atol=0)


def test_hints_are_summed_and_nothing_is_told_of_rows_without_needles(model, batch):
    _, read = hidden(model, batch.tokens)
    readers = Readers(WIDTH)
    without = of_looking(model, 2, read[2], batch) + of_saying(model, read[3], batch)
    of_readers = readers.of_starts(read[2], batch) + 0.5 * readers.of_keys(read[2], model.lm_head.weight, batch)
    torch.testing.assert_close(of_hints(model, readers, read, batch), of_readers + without)
    torch.testing.assert_close(of_hints(model, None, read, batch), without)
    nothing = batch._replace(keys=torch.full_like(batch.keys, NONE), sought=torch.full_like(batch.sought, NONE))
    assert of_hints(model, readers, read, nothing) == 0


def test_a_model_of_one_layer_is_not_told_to_say_what_it_finds(tokenizer, batch):
    small = build(tokenizer, WIDTH, 1, 2, 64, 0)
    readers = Readers(WIDTH)
    _, read = hidden(small, batch.tokens)
    parts = readers.loss(read[0], small.lm_head.weight, batch), of_looking(small, 0, read[0], batch)
    torch.testing.assert_close(of_hints(small, readers, read, batch), sum(parts))
