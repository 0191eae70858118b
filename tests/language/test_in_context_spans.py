"""What the last token attends to, against the maps that an eager model returns."""

import pytest
import torch
from tiny_model import CONTEXT, tiny_llama, tiny_tokenizer

from featscope.language.in_context import AttentionRow, FocusedRow, ModelRow, span_norms
from featscope.options import ConfigError

FIRST, SECOND = "the plot is charming .", "Tom's uncle sold seven boxes in May ."
TEXT = f"sentence: {FIRST} {SECOND}\nThe answer is positive"
SPANS = [(10, 10 + len(FIRST)), (11 + len(FIRST), 11 + len(FIRST) + len(SECOND))]


@pytest.mark.parametrize("code", ["sdpa", "eager"])
def test_the_last_row_is_the_one_that_an_eager_model_returns(code):
    model, tokenizer = tiny_llama(layers=3), tiny_tokenizer()
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(ids, output_attentions=True).attentions
    model.set_attn_implementation(code)
    row = ModelRow(model, tokenizer).read(TEXT, [])
    torch.testing.assert_close(
        row.weights, maps[-1][0, :, -1], atol=1e-6, rtol=1e-5
    )  # a few roundings, which processors differ in
    assert not torch.allclose(row.weights, maps[0][0, :, -1], atol=1e-2)
    assert model.config._attn_implementation == code


def test_norms_on_spans_are_those_of_their_tokens():
    """Spans are told from the text alone; tokens by adding up the characters that each one decodes to."""
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    row = ModelRow(model, tokenizer).read(TEXT, SPANS)
    place, inside = 0, [[], []]
    for number, token in enumerate(tokenizer(TEXT)["input_ids"]):
        text = tokenizer.decode([token], skip_special_tokens=True)
        for span, tokens in zip(SPANS, inside, strict=True):
            if place < span[1] and place + len(text) > span[0]:
                tokens.append(number)
        place += len(text)
    assert place == len(TEXT)
    for found, tokens in zip(span_norms(row, SPANS), inside, strict=True):
        assert found.tokens == len(tokens)
        assert found.norm == pytest.approx(float(row.weights[:, tokens].square().sum().sqrt()), rel=1e-6)


def test_a_norm_by_hand():
    weights = torch.tensor([[0.1, 0.3, 0.4, 0.2], [0.7, 0.0, 0.1, 0.2]])
    row = AttentionRow(weights, torch.tensor([[0, 0], [0, 3], [3, 5], [6, 9]]))
    one, two = span_norms(row, [(2, 6), (5, 7)])
    assert one == (pytest.approx((0.09 + 0.16 + 0.01) ** 0.5), 2)
    assert two == (pytest.approx(0.08**0.5), 1)
    with pytest.raises(ConfigError, match="have no token"):
        span_norms(row, [(5, 6)])


@pytest.mark.parametrize("other", [1.0, 0.1])
def test_hand_set_weights_have_the_ratio_that_they_were_given(other):
    row = FocusedRow(other).read(TEXT, SPANS)
    torch.testing.assert_close(row.weights.sum(-1), torch.ones(4))
    relevant, irrelevant = span_norms(row, SPANS)
    assert (relevant.tokens, irrelevant.tokens) == (5, 8)
    assert irrelevant.norm / 8**0.5 / (relevant.norm / 5**0.5) == pytest.approx(other)


def test_what_cannot_be_read_is_refused():
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    with pytest.raises(ConfigError, match=f"allowed is at most {CONTEXT}"):
        ModelRow(model, tokenizer).read("the " * CONTEXT * 2, [])
    tokenizer.add_tokens(["<new>"])
    with pytest.raises(ConfigError, match="input_ids hold the token 512: allowed is 0 to 511"):
        ModelRow(model, tokenizer).read("<new> the", [])
