"""Several layers choose, each among the tokens that still go on."""

import jaxtyping
import pytest
import torch
from small_models import padded, prompt, tiny
from torch.nn.functional import avg_pool1d

from featscope.language import (
    AttentionWindow,
    Cost,
    FilterLayer,
    KeepHidden,
    LastQueries,
    Prefill,
    PromptDistill,
)
from featscope.language.caches import Full, Selected
from featscope.language.decoder import cache_of
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
LOGITS = {"output_logits": True, "return_dict_in_generate": True} | GREEDY
TWICE = KeepHidden((FilterLayer(2, 10, 4),))


SEEN = []


class Noted(FilterLayer):
    """Keeps what its layer's attention reads."""

    def choose(self, reached, prompt, keep):
        SEEN.append(reached)
        return super().choose(reached, prompt, keep)


def masked(model, ids, chosen):
    """Logits of the last token, by the whole prompt in every layer, with keys of all others masked in each."""
    length = ids.shape[1]
    angles = model.model.rotary_emb(torch.zeros(1, length, 1), torch.arange(length)[None])
    hidden, causal = model.model.embed_tokens(ids), torch.ones(length, length, dtype=torch.bool).tril()
    for block, kept in zip(model.model.layers, chosen, strict=True):
        seen = torch.ones(length, dtype=torch.bool)
        seen[:60] = torch.isin(torch.arange(60), kept)
        out = block(
            hidden,
            attention_mask=((causal & seen) | torch.eye(length, dtype=torch.bool))[None, None],
            position_embeddings=angles,
        )
        hidden = out if isinstance(out, torch.Tensor) else out[0]
    return model.lm_head(model.model.norm(hidden))[:, -1]


@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
@torch.no_grad()
def test_each_layer_chooses_among_what_went_on_and_layers_above_see_that_alone(name):
    model = tiny(name)
    method = Prefill(model, FilterLayer(0, 30, 4), KeepHidden((Noted(2, 10, 4),)))
    SEEN.clear()
    out, first = method.generate(prompt(), **LOGITS), method.select(prompt())[0]
    (reached,) = SEEN
    assert reached.key.shape[2] == 30
    products = (reached.query[0, :, -1, None] * reached.key[0].repeat_interleave(2, 0)).sum((0, 2))
    best = avg_pool1d(products[None], 5, 1, 2)[0, :26].topk(6).indices
    assert torch.equal(out.kept[0], first[torch.cat([best.sort().values, torch.arange(26, 30)])])
    everything = torch.arange(60)
    for step, logits in enumerate(out.logits):
        expected = masked(model, out.sequences[:, : 60 + step], [everything, first, first, out.kept[0]])
        assert torch.allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("cache", [Full(), Selected(), LastQueries(60, 4)])
def test_with_everything_kept_it_is_the_models_own(cache):
    model = tiny()
    own = model.generate(prompt(), **LOGITS)
    later = FilterLayer(1, 60, 4), AttentionWindow(2, 1.0, 4, block=8)
    out = Prefill(model, AttentionWindow(0, 60, 4), KeepHidden(later), cache).generate(prompt(), **LOGITS)
    for found, expected in zip(out.logits, own.logits, strict=True):
        assert torch.equal(found, expected)


def test_layers_read_and_hold_what_is_left():
    model, read = tiny(), {}
    for i, block in enumerate(model.model.layers):
        block.register_forward_hook(lambda module, given, result, i=i: read.setdefault(i, []).append(given[0].shape[1]))

    def held(method):
        return [layer.keys.shape[2] - 5 for layer in cache_of(method.generate(prompt(), **LOGITS)).layers]

    distilled = PromptDistill(model, 0, 30, window=4, later=[(2, 10)])
    assert held(distilled) == [30, 10, 10, 10]
    assert {layer: lengths[0] for layer, lengths in read.items()} == {0: 60, 1: 30, 2: 30, 3: 10}
    assert held(Prefill(model, FilterLayer(0, 30, 4), TWICE)) == [60, 30, 30, 10]
    assert held(Prefill(model, FilterLayer(0, 30, 4), TWICE, LastQueries(12, 4))) == [12, 12, 12, 10]
    kept = distilled.generate(prompt(), **GREEDY).kept[:, 0, 0]
    assert [(row >= 0).sum() for row in kept] == [30, 10, 10, 10]
    assert torch.isin(kept[1:, -10:], kept[0]).all()


def test_what_is_forced_in_every_stage_is_the_prompts_own():
    first, later = (FilterLayer(layer, keep, 4, force_keep=(0, 1, -6, -5)) for layer, keep in ((0, 30), (2, 10)))
    kept = Prefill(tiny(), first, KeepHidden((later,)), Full()).generate(prompt(), **GREEDY).kept[0]
    assert {0, 1, *range(54, 60)} <= {*kept.tolist()}
    assert len(kept) == 10


@pytest.mark.parametrize("cache", [Full(), Selected(), LastQueries(12, 4)])
def test_rows_of_a_batch_and_beams_are_those_of_prompts_alone(cache):
    method = Prefill(tiny(), FilterLayer(0, 30, 4), TWICE, cache)
    rows = prompt(60), prompt(20, 1), prompt(7, 2)
    together = method.generate(padded(*rows), **GREEDY)
    for row, found in zip(rows, together, strict=True):
        assert torch.equal(found[-6:], method.generate(row, **GREEDY)[0, -6:])
    beams = method.generate(padded(*rows), num_beams=3, **GREEDY)
    assert torch.equal(beams[0, -6:], method.generate(rows[0], num_beams=3, **GREEDY)[0, -6:])


@pytest.mark.parametrize("cache", [Full(), Selected(), LastQueries(12, 4)])
def test_beams_of_each_prompt_have_its_own_places(cache):
    method, rows = Prefill(tiny(), FilterLayer(1, 20, 4), KeepHidden(), cache), padded(prompt(60), prompt(40, 1))
    plain = method.generate(rows, **GREEDY).kept
    first, second = plain.unbind(1 if plain.ndim == 4 else 0)
    assert not torch.equal(first, second)
    assert torch.equal(method.generate(rows, num_beams=3, **GREEDY).kept, plain)


def test_stages_may_be_given_once(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    once = Prefill(tiny(), FilterLayer(0, 30, 4), KeepHidden(iter(TWICE.later)))
    assert once.propagation == TWICE
    assert torch.equal(
        once.generate(prompt(), **GREEDY).kept,
        Prefill(tiny(), FilterLayer(0, 30, 4), TWICE).generate(prompt(), **GREEDY).kept,
    )


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        (
            FilterLayer(2, 30, 4),
            (FilterLayer(2, 10, 4),),
            "layer = 2 of later chooses among what layer 2 chose: .* > 2",
        ),
        (FilterLayer(0, 30, 4), (FilterLayer(2, 10, 0),), "window = 0 may drop the prompt's last token"),
        (FilterLayer(0, 30, 4), (FilterLayer(4, 10, 4),), "layer = 4 is out of range: allowed is 0 to 3"),
        (FilterLayer(0, 30, 4), (FilterLayer(2, Cost(0.5), 4),), "cannot be met where several layers choose"),
        (FilterLayer(0, Cost(0.5), 4), (FilterLayer(2, 10, 4),), "cannot be met where several layers choose"),
        (
            FilterLayer(0, 30, 4, force_keep=(20,)),
            (FilterLayer(2, 10, 4, force_keep=(20,)),),
            r"force_keep of layer 2 has the place 20, .* Let layer 0 have force_keep = range\(0, 21\)",
        ),
        (FilterLayer(0, 30, 4), (FilterLayer(2, 10, 4, force_keep=(-5,)),), r"the place -5, .* = range\(-5, 0\)"),
        (
            FilterLayer(0, 30, 4, force_keep=(0,)),
            (FilterLayer(1, 20, 4), FilterLayer(2, 10, 4, force_keep=(0,))),
            "force_keep of layer 2 has the place 0, .* that layer 1 chooses",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(first, later, message):
    with pytest.raises(ConfigError, match=message):
        Prefill(tiny(), first, KeepHidden(later))
