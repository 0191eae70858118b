"""What is asked of a generation that reads a part of the prompt is asked of the whole: counts, ends, padding."""

from typing import Any

import pytest
import torch
from small_models import padded, prompt, tiny, word_tokenizer
from transformers import (
    EosTokenCriteria,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MinLengthLogitsProcessor,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation import utils

from featscope.language import FullCache, GemFilter, PromptDistill, SnapKV
from featscope.language.method import new_tokens
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 5, "do_sample": False}


class Seen(StoppingCriteria):
    """Stops after the third new token behind ``length``; keeps the last text that it saw."""

    def __init__(self, length):
        self.length = length

    def __call__(self, input_ids, scores, **options):
        self.text = input_ids
        return torch.full((len(input_ids),), input_ids.shape[1] >= self.length + 3)


def two_rows():
    return torch.cat([prompt(60), prompt(60, 1)])


def test_criteria_of_the_callers_see_the_whole_prompt():
    gem, seen = GemFilter(tiny(), 2, 16, window=4), Seen(60)
    out = gem.generate(two_rows(), stopping_criteria=StoppingCriteriaList([seen]), num_beams=2, **GREEDY)
    assert out.shape == (2, 63)
    assert torch.equal(seen.text[:, :60], two_rows().repeat_interleave(len(seen.text) // 2, 0))


def test_processors_and_allowed_tokens_of_the_callers_see_the_whole_prompt():
    gem, texts, prefixes = GemFilter(tiny(), 2, 16, window=4), [], []

    class Seven(LogitsProcessor):
        def __call__(self, input_ids, scores):
            texts.append(input_ids)
            return scores.index_fill(1, torch.tensor([7]), 100.0)

    def allowed(number, ids):
        prefixes.append((number, ids))
        return [7, 8]

    out = gem.generate(two_rows(), logits_processor=LogitsProcessorList([Seven()]), **GREEDY)
    assert (out[:, 60:] == 7).all()
    assert torch.equal(texts[-1], out[:, :-1])
    out = gem.generate(two_rows(), prefix_allowed_tokens_fn=allowed, **GREEDY)
    assert {*out[:, 60:].flatten().tolist()} <= {7, 8}
    for number, ids in prefixes[-2:]:
        assert torch.equal(ids, out[number, :-1])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("beams", [{"do_sample": True}, {"num_beams": 2, "do_sample": False}])
def test_several_answers_of_a_prompt_are_handed_over_with_it(beams, apart, monkeypatch):
    """Older versions of transformers number samples of one prompt apart."""
    prefixes, its = [], utils.PrefixConstrainedLogitsProcessor
    if apart:
        monkeypatch.setattr(utils, "PrefixConstrainedLogitsProcessor", lambda allowed, _: its(allowed, 1))

    def allowed(number, ids):
        prefixes.append((number, ids))
        return [7, 8]

    gem = GemFilter(tiny(), 2, 16, window=4)
    gem.generate(two_rows(), prefix_allowed_tokens_fn=allowed, max_new_tokens=3, num_return_sequences=2, **beams)
    assert {number for number, _ in prefixes} == {*range(4 if apart else 2)}
    for number, ids in prefixes:
        assert torch.equal(ids[:60], two_rows()[number // 2 if apart else number])


PROCESSORS = {
    "repetition_penalty": (5.0, RepetitionPenaltyLogitsProcessor(1.5)),
    "no_repeat_ngram_size": (1, NoRepeatNGramLogitsProcessor(3)),
    "min_length": (64, MinLengthLogitsProcessor(62, 2)),
    "suppress_tokens": ([7], SuppressTokensLogitsProcessor([8])),
    "temperature": (0.5, TemperatureLogitsWarper(2.0)),
    "top_k": (3, TopKLogitsWarper(9)),
    "top_p": (0.1, TopPLogitsWarper(0.99)),
    "min_p": (0.9, MinPLogitsWarper(0.01)),
}
OF_SAMPLES = ("temperature", "top_k", "top_p", "min_p")
"""Options that do nothing where tokens are not drawn."""


@pytest.mark.parametrize("where", ["option", "config", "model"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_a_processor_of_the_callers_takes_the_place_of_the_models(name, where):
    """As in the model's own generation, with which all is the same where every token is kept."""
    model, (value, own) = tiny(eos_token_id=2), PROCESSORS[name]
    options = {"output_scores": True, "return_dict_in_generate": True, "logits_processor": [own], **GREEDY}
    options["do_sample"] = name in OF_SAMPLES
    if where == "model":
        model.generation_config.update(**{name: value})
    else:
        options |= {name: value} if where == "option" else {"generation_config": GenerationConfig(**{name: value})}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        expected = model.generate(prompt(), **options)
        torch.manual_seed(0)
        found = GemFilter(model, 2, 60, window=4).generate(prompt(), **options)
    assert torch.equal(found.sequences, expected.sequences)
    for one, other in zip(found.scores, expected.scores, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("where", ["option", "config", "model"])
def test_what_is_not_to_be_repeated_is_that_of_the_whole_prompt(where):
    model, rows, asked = tiny(), padded(prompt(60), prompt(40, 1)), {"repetition_penalty": 5.0}
    options: dict[str, Any] = {"output_scores": True, "output_logits": True, "return_dict_in_generate": True, **GREEDY}
    gem = GemFilter(model, 2, 16, window=4)
    banned = gem.generate(prompt(), no_repeat_ngram_size=1, **options).scores[0][0]
    assert banned.isinf().nonzero()[:, 0].tolist() == prompt()[0].unique().tolist()
    if where == "model":
        model.generation_config.update(**asked)
    else:
        options |= asked if where == "option" else {"generation_config": GenerationConfig(**asked)}
    found = gem.generate(rows, **options)
    for row, logits, scores in zip(rows, found.logits[0], found.scores[0], strict=True):
        old = torch.isin(torch.arange(len(logits)), row[row > 0])  # padding is not penalised
        assert torch.equal(scores, logits.where(~old, torch.where(logits < 0, logits * 5, logits / 5)))


def test_a_number_that_asks_for_nothing_asks_for_nothing():
    gem = GemFilter(tiny(), 2, 16, window=4)
    asked = {"no_repeat_ngram_size": -1, "min_length": -1}
    assert torch.equal(gem.generate(prompt(), **asked, **GREEDY), gem.generate(prompt(), **GREEDY))
    with pytest.raises(ValueError, match="penalty"):
        gem.generate(prompt(), repetition_penalty=-1.0, **GREEDY)


@pytest.mark.parametrize("kind", ["end", "another end", "time", "length"])
def test_a_criterion_of_the_callers_takes_the_place_of_the_models(kind):
    model = tiny()
    first, _, third = model.generate(prompt(), max_new_tokens=3, do_sample=False)[0, 60:].tolist()
    options = {"max_time": 0.0} if kind == "time" else {"eos_token_id": first} if kind == "another end" else {}
    own = {
        "end": EosTokenCriteria(first),
        "another end": EosTokenCriteria(third),
        "time": MaxTimeCriteria(1e6),
        "length": MaxLengthCriteria(68),
    }[kind]
    options |= {"stopping_criteria": StoppingCriteriaList([own]), **GREEDY}
    expected = model.generate(two_rows(), **options)
    assert torch.equal(GemFilter(model, 2, 60, window=4).generate(two_rows(), **options), expected)
    if kind in ("time", "length"):
        length = 65 if kind == "time" else 68
        assert GemFilter(model, 2, 16, window=4).generate(two_rows(), **options).shape == (2, length)


def test_rows_end_one_by_one_by_a_criterion_of_the_callers():
    class Ends(StoppingCriteria):
        eos_token_id = None

        def __call__(self, input_ids, scores, **options):
            return torch.tensor([True, False])

    criteria = StoppingCriteriaList([Ends()])
    out = GemFilter(tiny(), 2, 16, window=4).generate(two_rows(), stopping_criteria=criteria, **GREEDY)
    assert (out[0, 61:] == 0).all()
    assert (out[1, 61:] != 0).any()


@pytest.mark.parametrize("given", [{}, {"generation_config": GenerationConfig(do_sample=False)}])
def test_lengths_of_the_models_own_count_the_whole_prompt(given):
    model = tiny()
    model.generation_config.max_length = 70
    gem = GemFilter(model, 2, 40)
    assert gem.generate(prompt(60), **given).shape == (1, 70)
    assert gem.generate(prompt(60), generation_config=GenerationConfig(max_new_tokens=3)).shape == (1, 63)
    assert gem.generate(prompt(60), max_length=65, **given).shape == (1, 65)


@pytest.mark.parametrize(
    ("its", "given"),
    [
        ({}, {"max_length": 66, "eos_token_id": None}),
        ({"max_length": 90}, {"max_new_tokens": 6, "eos_token_id": None}),
        ({"max_new_tokens": 30, "eos_token_id": None}, {"max_length": 66, "max_new_tokens": None}),
    ],
)
def test_what_is_set_to_none_is_not_what_the_model_has_of_its_own(its, given):
    """As in the model's own generation, with which all is the same where every token is kept."""
    model = tiny()
    first = model.generate(prompt(60), max_new_tokens=1, do_sample=False)[0, -1].item()
    model.generation_config.update(**{"eos_token_id": first, **its})
    whole = model.generate(prompt(60), do_sample=False, **given)
    assert whole.shape == (1, 66)
    assert torch.equal(GemFilter(model, 2, 60, window=4).generate(prompt(60), do_sample=False, **given), whole)


@pytest.mark.parametrize("where", ["option", "config", "model"])
def test_a_prompt_that_would_be_written_anew_is_refused(where):
    model, options = tiny(), {"tokenizer": word_tokenizer(), **GREEDY}
    if where == "model":
        model.generation_config.token_healing = True
    else:
        asked = {"token_healing": True}
        options |= asked if where == "option" else {"generation_config": GenerationConfig(**asked)}
    gem, full = GemFilter(model, 2, 16, window=4), FullCache(model).read(prompt())
    for ask in (gem.generate, SnapKV(model, 16, 4).generate, gem.read(prompt()).ask, full.ask):
        with pytest.raises(ConfigError, match=r"token_healing = True cannot be used: .*allowed is False"):
            ask(prompt(), **options)
    if where != "config":
        assert gem.generate(prompt(), **options | {"token_healing": False}).shape == (1, 65)


def test_the_least_length_counts_the_whole_prompt():
    model = tiny()
    first = model.generate(prompt(60), max_new_tokens=1, do_sample=False)[0, -1].item()
    model.generation_config.eos_token_id, model.generation_config.min_length = first, 64
    gem = GemFilter(model, 2, 60, window=4)  # keeps all: what it says is the model's own
    for given in ({"max_new_tokens": 12}, {"max_new_tokens": 12, "min_new_tokens": 2}):
        whole = model.generate(prompt(60), do_sample=False, **given)
        assert torch.equal(gem.generate(prompt(60), do_sample=False, **given), whole)
    short = GemFilter(model, 2, 40, window=4).generate(prompt(60), max_new_tokens=12, do_sample=False)
    assert first not in short[0, 60:63]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, 20),
        ({"max_new_tokens": 7}, 7),
        ({"max_length": 90}, 30),
        ({"generation_config": GenerationConfig(max_new_tokens=9)}, 9),
        ({"generation_config": GenerationConfig(max_length=61)}, 1),
        ({"max_new_tokens": 3, "stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(75)])}, 15),
    ],
)
def test_new_tokens_are_those_that_generate_may_write(options, wanted):
    assert new_tokens(tiny(), options, 60) == wanted
    longest = 60 + wanted - 1 if options else 79
    model = tiny(max_position_embeddings=longest)
    with pytest.raises(ConfigError, match=f"{longest}"):
        SnapKV(model, 40, 8).generate(prompt(60), do_sample=False, **options)


def test_padding_that_is_named_is_padding():
    model = tiny(pad_token_id=None)
    row = prompt(30)
    batch = torch.cat([torch.zeros(1, 10, dtype=row.dtype), row], 1)
    for method in (GemFilter(model, 2, 12, window=4), SnapKV(model, 12, 4)):
        found = method.generate(batch, pad_token_id=0, **GREEDY)
        mask = (torch.arange(40) >= 10).long()[None]
        assert torch.equal(found.kept, method.generate(batch, mask, pad_token_id=0, **GREEDY).kept)
        assert torch.equal(found[:, 40:], method.generate(row, **GREEDY)[:, 30:])


@pytest.mark.parametrize("padding", [None, 2])
def test_what_may_be_padding_or_the_end_of_a_text_needs_a_mask(padding):
    model, end = tiny(pad_token_id=padding, eos_token_id=2), torch.full((2, 10), 2)
    batch = torch.cat([prompt(30), torch.cat([end[:1], prompt(20, 1)], 1)])
    mask = torch.ones_like(batch)
    mask[1, :10] = 0
    for method in (GemFilter(model, 2, 12, window=4), SnapKV(model, 12, 4), FullCache(model)):
        with pytest.raises(
            ConfigError, match=r"attention_mask = None, .* may be padding: allowed is the mask that the"
        ):
            method.generate(batch, **GREEDY)
        alone = method.generate(prompt(20, 1), **GREEDY)[0, 20:]
        assert torch.equal(method.generate(batch, mask, **GREEDY)[1, 30 : 30 + len(alone)], alone)
        assert (method.generate(batch[1:], **GREEDY).kept >= 0).all()
        begun = torch.cat([end[:, :1], torch.cat([prompt(30), prompt(30, 1)])], 1)  # the token begins texts, too
        assert (method.generate(begun, **GREEDY).kept >= 0).all()


@pytest.mark.parametrize("length", [20, 31, 32])
def test_a_share_never_keeps_less_than_the_window(length):
    for method in (GemFilter(tiny(), 1, 0.1), PromptDistill(tiny(), 1, 0.1), SnapKV(tiny(), 0.1)):
        kept = method.generate(prompt(length), **GREEDY).kept
        assert (kept == torch.arange(length)).all()
    with pytest.raises(ConfigError, match="more than the 32"):
        GemFilter(tiny(), 1, 0.1).select(prompt(33))
