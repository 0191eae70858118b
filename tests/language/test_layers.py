"""Choosing the filter layer."""

import jaxtyping
import numpy as np
import pytest
import torch
from small_models import tiny, word_tokenizer
from tiny_model import tiny_tokenizer

from featscope.language import Cost, GemFilter, choose_layer
from featscope.language.chat import in_template
from featscope.language.layers import LayerChoice, choices_of_all_layers, needle_distance, needle_span
from featscope.language.prompt import Prompt
from featscope.options import ConfigError


def text(length: int, seed: int) -> str:
    words = torch.randint(3, 100, (length,), generator=torch.Generator().manual_seed(seed))
    return " ".join(f"w{int(word)}" for word in words)


def test_distances_are_counted_from_either_end():
    needle = range(10, 13)
    assert needle_distance(torch.tensor([2, 7]), needle) == 3
    assert needle_distance(torch.tensor([2, 15]), needle) == 3
    assert needle_distance(torch.tensor([2, 12]), needle) == 0
    assert needle_distance(torch.tensor([9]), needle) == 1


def test_a_needles_tokens_are_those_that_touch_it():
    ids, span = needle_span(word_tokenizer(), "w5 w6 w7 w8 w9", "w7 w8")
    assert ids.tolist() == [[1, 5, 6, 7, 8, 9]]  # texts begin with <s>, which this tokenizer does not put there itself
    assert span == range(3, 5)
    assert needle_span(tiny_tokenizer(), "#%&*@", "%&*")[1] == range(2, 5), "a neighbour does not touch it"
    with pytest.raises(ConfigError, match="not in its prompt"):
        needle_span(word_tokenizer(), "w5 w6", "w7")


def test_a_needle_that_is_there_twice_is_refused():
    prompt = "w5 w42 w6 w4 w7 w8"
    for look in (
        lambda: needle_span(word_tokenizer(), prompt, "w4"),
        lambda: choose_layer(tiny(), word_tokenizer(), [(prompt, "w4")], keep=3, window=1),
    ):
        with pytest.raises(ConfigError, match=r"needle = 'w4' is more than once in its prompt: .* Give more of the"):
            look()
    assert needle_span(word_tokenizer(), prompt, "w6 w4")[1] == range(3, 5)


@pytest.mark.parametrize(("pool", "kernel"), [("avg", 5), ("max", 5), ("avg", 9)])
def test_one_pass_gives_every_layers_choice(pool, kernel):
    model = tiny()
    ids = torch.randint(3, 100, (2, 50), generator=torch.Generator().manual_seed(0))
    all_layers = choices_of_all_layers(model, Prompt(ids, torch.ones_like(ids, dtype=torch.bool)), 12, pool, kernel)
    assert list(all_layers) == [0, 1, 2, 3]
    for layer, chosen in all_layers.items():
        assert torch.equal(chosen, GemFilter(model, layer, 12, 0, pool=pool, kernel=kernel).select(ids))


def test_the_first_layer_that_keeps_the_needle_is_chosen():
    model, tokenizer = tiny(), word_tokenizer()
    examples = [(text(60, seed), " ".join(text(60, seed).split()[20:23])) for seed in range(4)]
    found = choose_layer(model, tokenizer, examples * 3, keep=59, window=0)
    assert found.layer == 0
    assert found.kept.shape == (4, 4), "each example once"
    assert (found.distance == 0).all()
    assert choose_layer(model, tokenizer, examples, keep=59, window=0, stable=1.0).layer == 0
    few = choose_layer(model, tokenizer, examples, keep=3, window=0)
    assert few.layer is None
    assert few.distance.max() > 0
    assert len(few.figure().axes) == 2


def test_a_layer_must_hold_in_enough_examples(monkeypatch):
    from featscope.language import layers

    kept = [torch.tensor([[0, 1]]), torch.tensor([[2, 3]]), torch.tensor([[3, 5]]), torch.tensor([[2, 3]])]
    few = [torch.tensor([[0, 1]]), torch.tensor([[0, 1]]), torch.tensor([[3, 5]]), torch.tensor([[2, 3]])]
    shown = iter(1 + torch.stack([*kept, *few, *few]))  # <s> comes first
    monkeypatch.setattr(layers, "select", lambda *given: next(shown))
    examples = [(f"w5 w6 w7 w8 w9 w{last}", "w7 w8") for last in (10, 11, 12)]
    found = choose_layer(tiny(), word_tokenizer(), examples, keep=2, window=0, stable=0.6)
    assert found.layer == 3, "layer 2 keeps a token of every needle, and no needle"
    np.testing.assert_allclose(found.covered, [0, 1 / 3, 1, 1])
    np.testing.assert_allclose(found.whole, [0, 1 / 3, 0, 1])
    np.testing.assert_array_equal(found.distance[0], [1, 0, 0, 0])
    np.testing.assert_allclose(found.interval[:, [0, 3]], [[0, 0.025 ** (1 / 3)], [1 - 0.025 ** (1 / 3), 1]])
    assert (found.interval[0] <= found.whole).all()
    assert (found.whole <= found.interval[1]).all()


def test_the_figure_shows_intervals_of_shares():
    kept = np.array([[1.0, 0.5, 1.0]] * 3 + [[0.0, 1.0, 1.0]])
    found = LayerChoice(2, (kept == 0).astype(int), kept, 0.9)
    bars = found.figure().axes[1].containers[-1].errorbar
    (lines,) = bars.lines[2]
    np.testing.assert_allclose([line[:, 1] for line in lines.get_segments()], found.interval.T)


@pytest.mark.parametrize("rule", [(0, "avg", 5), (12, "avg", 5), (0, "max", 5), (0, "avg", 9)])
def test_what_is_kept_of_a_needle_is_counted_in_its_tokens(rule):
    model, tokenizer = tiny(), word_tokenizer()
    prompt = text(60, 1)
    needle = " ".join(prompt.split()[10:40])
    found = choose_layer(model, tokenizer, [(prompt, needle)], 20, *rule)
    ids, span = needle_span(tokenizer, prompt, needle)
    for layer in range(4):
        window, pool, kernel = rule
        kept = GemFilter(model, layer, 20, window, pool=pool, kernel=kernel).select(ids)[0].tolist()
        assert found.kept[0, layer] == len({*kept} & {*span}) / 30


def test_a_prompt_in_the_chat_template_is_looked_at_as_it_is_read():
    tokenizer = word_tokenizer()
    with pytest.raises(ConfigError, match="has no chat template"):
        choose_layer(tiny(), tokenizer, [("w5 w6 w7 w8", "w6")], keep=2, window=0, chat=True)
    tokenizer.chat_template = "{% for m in messages %}w11 {{ m.content }} w12 w13{% endfor %}"
    ids, span = needle_span(tokenizer, in_template(tokenizer, "w5 w6 w7"), "w6", special=False)
    assert ids.tolist() == [[11, 5, 6, 7, 12, 13]]
    assert span == range(2, 3)


@pytest.mark.parametrize(
    ("keep", "window", "message"),
    [
        (61, 0, "keep = 61 keeps all of a prompt of 61 tokens: allowed is"),
        (40, 38, r"ends in the last 38 tokens of its prompt, .* smaller window than 38"),
        (40, 40, r"window = 40 .* 0 to 39, less than the 40 of 61 tokens that keep = 40 keeps"),
        (40, -1, r"window = -1 is out of range: allowed is >= 0"),
        (0.1, 32, r"window = 32 .* 0 to 6, less than the 7 of 61 tokens that keep = 0.1 keeps. Keep more, or"),
        (1.0, 0, "keep = 1.0 keeps all of a prompt of 61 tokens"),
        (1.5, 0, r"keep = 1.5 is out of range: allowed is >= 1 \(tokens\), or a share in \(0, 1\]"),
        (Cost(0.5), 0, r"keep = Cost\(share=0.5\) is out of range: allowed is >= 1 \(tokens\), or a share"),
    ],
)
def test_what_every_layer_would_cover_is_refused(keep, window, message):
    example = (text(60, 0), " ".join(text(60, 0).split()[20:23]))
    with pytest.raises(ConfigError, match=message):
        choose_layer(tiny(), word_tokenizer(), [example], keep=keep, window=window)
    choose_layer(tiny(), word_tokenizer(), [example], keep=40, window=37)


def test_a_share_of_the_prompt_is_as_many_tokens():
    examples = [(text(60, seed), " ".join(text(60, seed).split()[20:23])) for seed in range(3)]
    by_share, by_number = (choose_layer(tiny(), word_tokenizer(), examples, keep, window=4) for keep in (0.5, 31))
    np.testing.assert_array_equal(by_share.kept, by_number.kept)


@pytest.mark.parametrize("none", [[], iter([])])
def test_no_examples_are_refused(none):
    with pytest.raises(ConfigError, match="one pair"):
        choose_layer(tiny(), word_tokenizer(), none, keep=40)


def test_examples_may_be_given_once():
    prompts = [text(60, seed) for seed in range(2)]
    answers = [" ".join(prompt.split()[20:23]) for prompt in prompts]
    listed, zipped = (
        choose_layer(tiny(), word_tokenizer(), examples, keep=20, window=4)
        for examples in ([*zip(prompts, answers, strict=True)], zip(prompts, answers, strict=True))
    )
    np.testing.assert_array_equal(zipped.kept, listed.kept)


def test_a_whole_number_of_any_kind_is_tokens(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    examples = [(text(60, 0), " ".join(text(60, 0).split()[20:23]))]
    plain, numpy = (choose_layer(tiny(), word_tokenizer(), examples, keep, window=4) for keep in (30, np.int64(30)))
    np.testing.assert_array_equal(numpy.kept, plain.kept)
    with pytest.raises(ConfigError, match=r"keep = True is out of range: allowed is >= 1 \(tokens\), or a share"):
        choose_layer(tiny(), word_tokenizer(), examples, keep=True, window=0)


def test_a_choice_draws_itself_even_without_a_layer():
    assert LayerChoice(None, np.ones((2, 3), dtype=int), np.zeros((2, 3)), 0.9).figure().axes
