"""Documents that are read once and asked about many times."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from hybrid_models import HYBRIDS, hybrid, with_pictures
from small_models import ARCHITECTURES, long_phi3, padded, prompt, tiny
from transformers import DynamicCache, GenerationConfig, GPT2Config, GPT2LMHeadModel, StoppingCriteria

from featscope.language import FullCache, GemFilter, LastQueries, SnapKV
from featscope.language import context as contexts
from featscope.language import method as methods_options
from featscope.language.decoder import cache_argument, cache_of
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
QUESTIONS = (prompt(5, 7), prompt(9, 8), prompt(1, 9))


def both(document: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
    return torch.cat([document, question.expand(len(document), -1)], 1)


def same(found, expected) -> bool:
    return torch.equal(found, expected) and torch.equal(found.kept, expected.kept)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_answers_are_those_of_document_and_question_in_one(name):
    gem = GemFilter(tiny(name), 2, 16, window=4)
    context = gem.read(prompt())
    for question in (*QUESTIONS, QUESTIONS[0]):
        assert same(context.ask(question, **GREEDY), gem.generate(both(prompt(), question), **GREEDY))
    assert context.length == 60


@pytest.mark.parametrize("name", [*HYBRIDS, "minimax", "deepseek-v2", "deepseek-v3"])
def test_models_whose_layers_differ_are_asked_too(name):
    gem = GemFilter(hybrid(name), 3, 16, window=4)
    context = gem.read(prompt())
    for question in QUESTIONS:
        assert same(context.ask(question, **GREEDY), gem.generate(both(prompt(), question), **GREEDY))


def test_only_the_question_goes_through_the_layers_below():
    model = tiny()
    read: list[int] = []
    model.model.layers[0].register_forward_hook(lambda module, given, result: read.append(given[0].shape[1]))
    gem = GemFilter(model, 2, 16, window=4)
    context = gem.read(prompt())
    assert read == [60]
    for question in QUESTIONS:
        read.clear()
        context.ask(question, max_new_tokens=1)
        assert read == [question.shape[1], 16]
    read.clear()
    GemFilter(model, 2, 16, window=4, chunk=25).read(prompt())
    assert read == [25, 25, 10]


def test_questions_choose_anew():
    context = GemFilter(tiny(), 2, 16, window=4).read(prompt())
    assert len({tuple(context.ask(question, max_new_tokens=1).kept[0].tolist()) for question in QUESTIONS}) == 3


def test_a_talk_goes_on_behind_what_was_added():
    gem = GemFilter(tiny(), 2, 16, window=4, chunk=7)
    context = gem.read(prompt())
    first = context.ask(QUESTIONS[0], **GREEDY)
    context.add(first[:, context.length :])
    assert context.length == 60 + 5 + 6
    assert same(context.ask(QUESTIONS[1], **GREEDY), gem.generate(both(first, QUESTIONS[1]), **GREEDY))


def test_documents_of_a_batch_are_padded_and_questions_are_not():
    gem = GemFilter(tiny(), 2, 16, window=4)
    documents = padded(prompt(60), prompt(40, 1))
    context = gem.read(documents)
    questions = torch.cat([prompt(5, 7), prompt(5, 8)])
    assert same(context.ask(questions, **GREEDY), gem.generate(torch.cat([documents, questions], 1), **GREEDY))
    for wrong in (prompt(5), padded(prompt(5), prompt(3))):
        with pytest.raises(ConfigError, match="a row without padding for each of the 2 documents"):
            context.ask(wrong, **GREEDY)


def test_angles_that_differ_with_the_length_are_those_of_the_whole():
    gem = GemFilter(long_phi3(62), 2, 16, window=4)
    context = gem.read(prompt())
    for question in QUESTIONS:
        assert same(context.ask(question, **GREEDY), gem.generate(both(prompt(), question), **GREEDY))


@pytest.mark.parametrize("cache", [None, LastQueries(12, 4)])
def test_the_returned_cache_does_not_go_on(cache):
    model = tiny()
    out = GemFilter(model, 2, 16, window=4, cache=cache).generate(prompt(), return_dict_in_generate=True, **GREEDY)
    assert len(cache_of(out).layers) == 4
    held = {cache_argument(model.forward): cache_of(out)}
    longer = torch.cat([out.sequences, QUESTIONS[0]], 1)
    for going_on in (
        lambda: model.generate(longer, **held, **GREEDY),
        lambda: model.generate(out.sequences, **held, **GREEDY),
        lambda: model(QUESTIONS[0], **held),
    ):
        with pytest.raises(ConfigError, match=r"context = gem.read\(ids\), context.ask\(question\)"):
            going_on()


def test_caches_that_hold_the_whole_prompt_go_on():
    model = tiny()
    plain = model.generate(prompt(), return_dict_in_generate=True, **GREEDY)
    longer = torch.cat([plain.sequences, QUESTIONS[0]], 1)
    expected = model.generate(longer, **GREEDY)
    for method in (GemFilter(model, 2, 60), SnapKV(model, 60)):
        out = method.generate(prompt(), return_dict_in_generate=True, **GREEDY)
        held = {cache_argument(model.forward): cache_of(out)}
        assert torch.equal(model.generate(longer, **held, **GREEDY), expected)


def test_another_row_and_long_texts_are_refused():
    with pytest.raises(ConfigError, match="allowed is FilterLayer with row = 'last'"):
        GemFilter(tiny(), 2, 16, window=4, row="middle").read(prompt())
    context = GemFilter(tiny(), 2, 16, window=4).read(prompt(250))
    with pytest.raises(ConfigError, match="at most 256"):
        context.add(prompt(9))
    assert context.length == 250
    with pytest.raises(ConfigError, match="at most 256"):
        context.ask(prompt(9), **GREEDY)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_full_attention_reads_a_document_once_too(name):
    model = tiny(name)
    full = FullCache(model)
    context = full.read(padded(prompt(60), prompt(40, 1)))
    for question in (*QUESTIONS, QUESTIONS[0]):
        expected = full.generate(both(context.prompt.ids, question), context_mask(context, question), **GREEDY)
        assert same(context.ask(question.expand(2, -1), **GREEDY), expected)
    assert context.length == 60


def context_mask(context, question):
    return torch.cat([context.prompt.mask, torch.ones(2, question.shape[1], dtype=torch.long)], 1)


def test_full_attention_keeps_all_but_padding():
    kept = FullCache(tiny()).generate(padded(prompt(9), prompt(7, 1)), **GREEDY).kept
    assert kept.tolist() == [[*range(9)], [-1, -1, *range(2, 9)]]


def test_full_attention_reads_only_what_is_new():
    model = tiny()
    read: list[int] = []
    model.model.layers[-1].register_forward_hook(lambda module, given, result: read.append(given[0].shape[1]))
    context = FullCache(model).read(prompt())
    context.ask(QUESTIONS[0], max_new_tokens=2)
    assert read == [60, 5, 1]
    context.add(QUESTIONS[0])
    assert (read[-1], context.length) == (5, 65)
    out = context.ask(QUESTIONS[1], return_dict_in_generate=True, **GREEDY)
    assert cache_of(out) is None  # it is the context's
    whole = torch.cat([prompt(), QUESTIONS[0], QUESTIONS[1]], 1)
    assert torch.equal(out.sequences, FullCache(model).generate(whole, **GREEDY))


@pytest.mark.parametrize("name", [*HYBRIDS, "deepseek-v3", "qwen3-next"])
def test_full_attention_of_models_whose_layers_differ(name):
    full = FullCache(hybrid(name))
    context = full.read(prompt())
    for question in QUESTIONS:
        assert same(context.ask(question, **GREEDY), full.generate(both(prompt(), question), **GREEDY))


def test_a_question_stands_behind_its_document_whatever_picture_was_asked_about_before():
    model = with_pictures("qwen2-vision")
    full = FullCache(model)
    context = full.read(prompt())
    model.model.rope_deltas = torch.tensor([[-20]])  # as a question about a picture leaves them
    for question in QUESTIONS:
        found = context.ask(question, **GREEDY)
        model.model.rope_deltas = None
        assert same(found, full.generate(both(prompt(), question), **GREEDY))
        model.model.rope_deltas = torch.tensor([[-20]])


@pytest.mark.parametrize("make", [FullCache, lambda model: GemFilter(model, 2, 16, window=4, chunk=4)])
def test_what_was_added_by_half_is_taken_back(make):
    """An error in the middle of a text, as for want of memory: whoever tries again finds the document as it was."""
    model = tiny()
    method, fails = make(model), []

    def broken(*given):
        if fails and (fails.append(0) or len(fails) == 3):
            raise MemoryError

    model.model.layers[1].register_forward_pre_hook(broken)
    context = method.read(prompt())
    fails.append(0)
    if isinstance(method, FullCache):
        fails.append(0)  # it reads all at once
    with pytest.raises(MemoryError):
        context.add(QUESTIONS[1])
    fails.clear()
    assert context.length == 60
    context.add(QUESTIONS[1])
    longer = both(prompt(), QUESTIONS[1])
    assert same(context.ask(QUESTIONS[0], **GREEDY), method.generate(both(longer, QUESTIONS[0]), **GREEDY))


class Meanwhile(StoppingCriteria):
    """Does something once while a model answers, and stops nothing."""

    def __init__(self, does):
        self.does = [does]

    def __call__(self, input_ids, scores, **options):
        if self.does:
            self.does.pop()()
        return torch.zeros(len(input_ids), dtype=torch.bool)


@pytest.mark.parametrize("added", [False, True])
def test_threads_take_turns(added):
    full, futures = FullCache(tiny()), []
    context = full.read(prompt())
    with ThreadPoolExecutor(1) as pool:

        def other():
            work = (context.add, QUESTIONS[1]) if added else (context.ask, QUESTIONS[1])
            futures.append(pool.submit(*work, **{} if added else GREEDY))
            wait(futures, timeout=0.5)  # long enough for what does not wait for its turn

        found = context.ask(QUESTIONS[0], stopping_criteria=[Meanwhile(other)], **GREEDY)
        answer = futures[0].result()
    assert same(found, full.generate(both(prompt(), QUESTIONS[0]), **GREEDY))
    if added:
        longer = both(prompt(), QUESTIONS[1])
        assert same(context.ask(QUESTIONS[2], **GREEDY), full.generate(both(longer, QUESTIONS[2]), **GREEDY))
    else:
        assert same(answer, full.generate(both(prompt(), QUESTIONS[1]), **GREEDY))


def test_what_runs_while_a_context_answers_cannot_ask_it():
    context = FullCache(tiny()).read(prompt())
    for again in (lambda: context.ask(QUESTIONS[1], **GREEDY), lambda: context.add(QUESTIONS[1])):
        with pytest.raises(ConfigError, match="the context answers already"):
            context.ask(QUESTIONS[0], stopping_criteria=[Meanwhile(again)], **GREEDY)
    assert context.ask(QUESTIONS[0], **GREEDY).shape == (1, 60 + 5 + 6)


def test_full_attention_without_rotary_positions_reads_anew_and_says_so():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=128, n_embd=16, n_layer=1, n_head=2)).eval()
    assert not FullCache(model).reads_once
    with pytest.raises(ConfigError, match="declares no rotary position embedding"):
        FullCache(model).read(prompt())


def test_a_context_has_its_own_cache():
    with pytest.raises(ConfigError, match="past_key_values cannot be given"):
        FullCache(tiny()).read(prompt()).ask(QUESTIONS[0], past_key_values=DynamicCache())


def test_beams_of_full_attention_are_those_of_the_whole():
    full, beams = FullCache(tiny()), {"num_beams": 3, "num_return_sequences": 2, **GREEDY}
    context = full.read(prompt())
    for _ in range(2):
        assert same(context.ask(QUESTIONS[0], **beams), full.generate(both(prompt(), QUESTIONS[0]), **beams))


@pytest.mark.parametrize(
    "given",
    [
        lambda: {"prompt_lookup_num_tokens": 3},
        lambda: {"assistant_model": tiny(num_hidden_layers=1)},
        lambda: {"use_cache": False},
        lambda: {"generation_config": GenerationConfig(use_cache=False)},
        lambda: {"cache_implementation": "dynamic"},
        lambda: {"generation_config": GenerationConfig(cache_implementation="static")},
    ],
)
def test_drafts_and_answers_without_a_cache_or_with_another_are_those_of_the_whole(given):
    full, options = FullCache(tiny()), {"output_logits": True, "return_dict_in_generate": True, **GREEDY, **given()}
    context = full.read(prompt())
    expected = full.generate(both(prompt(), QUESTIONS[0]), **options)
    for _ in range(2):
        found = context.ask(QUESTIONS[0], **options)
        assert torch.equal(found.sequences, expected.sequences)
        assert torch.allclose(torch.stack(found.logits), torch.stack(expected.logits), atol=1e-5)
    assert torch.equal(expected.sequences, full.generate(both(prompt(), QUESTIONS[0]), **GREEDY))


@pytest.mark.parametrize("padding", [None, 2])
def test_what_fills_up_rows_that_ended_earlier_is_not_added(padding):
    model = tiny(eos_token_id=2, pad_token_id=padding)
    answers = torch.tensor([[7, 2, 2, 2], [7, 8, 9, 2]])
    for method in (GemFilter(model, 2, 16, window=4), FullCache(model)):
        context = method.read(torch.cat([prompt(), prompt(60, 1)]))
        with pytest.raises(ConfigError, match="2 rows, with padding: allowed is a row without padding for each of the"):
            context.add(answers)
        assert context.length == 60
        context.add(answers[:, :2])
        context.add(answers, torch.ones_like(answers))
        assert context.length == 66
        alone = method.read(prompt())
        alone.add(answers[:1])
        assert alone.length == 64


@pytest.mark.parametrize("padding", [None, 50])
@pytest.mark.parametrize("make", [FullCache, lambda model: GemFilter(model, 2, 16, window=4)])
def test_rows_filled_up_by_what_the_question_says_are_not_added(make, padding):
    """An end or a padding token that ``ask`` is given, and the model does not have."""
    context = make(tiny(pad_token_id=None)).read(torch.cat([prompt(), prompt(60, 1)]))
    question = QUESTIONS[0].expand(2, -1)
    ends = {"eos_token_id": int(context.ask(question, **GREEDY)[0, 66])} | (
        {"pad_token_id": padding} if padding else {}
    )
    for options in (ends, {"generation_config": GenerationConfig(**ends)}):
        out = context.ask(question, **GREEDY | options)
        filled = out[:, context.length :]
        assert (filled[0, 7:] == (padding or ends["eos_token_id"])).all()
        with pytest.raises(ConfigError, match="2 rows, with padding: allowed is a row without padding"):
            context.add(filled)
    for _ in range(3):
        context.ask(question, **GREEDY)  # which says nothing of ends
    assert len(context._ends) == 2  # however many questions there were
    with pytest.raises(ConfigError, match="give an attention_mask of ones"):
        context.add(filled)
    context.add(filled[:, :7])
    assert context.length == 67
    context.add(filled[:, -2:])  # nothing was asked that says these are padding
    assert context.length == 69


def test_a_context_is_not_stored():
    with pytest.raises(ConfigError, match=r"cannot be pickled or saved, .* keep the document, and read it again"):
        pickle.dumps(FullCache(tiny()).read(prompt()))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [FullCache, lambda model: GemFilter(model, 2, 16, window=4)])
def test_what_is_added_to_a_copy_is_not_added_to_the_context(make, copied):
    method = make(tiny())
    context = method.read(prompt())
    other = copied(context)
    other.add(QUESTIONS[1])
    context.add(QUESTIONS[2])
    for one, added in ((context, QUESTIONS[2]), (other, QUESTIONS[1])):
        whole = both(both(prompt(), added), QUESTIONS[0])
        assert same(one.ask(QUESTIONS[0], **GREEDY), method.generate(whole, **GREEDY))
    with pytest.raises(ConfigError, match="the context answers already"):
        context.ask(QUESTIONS[0], stopping_criteria=[Meanwhile(lambda: copied(context))], **GREEDY)
    assert other.ask(QUESTIONS[0], stopping_criteria=[Meanwhile(lambda: context.add(QUESTIONS[1]))], **GREEDY).shape


def test_a_question_goes_where_its_document_is(monkeypatch):
    context, cat = GemFilter(tiny(), 2, 16, window=4).read(prompt()), torch.cat
    context.prompt = Prompt(*(part.to("meta") for part in context.prompt))

    def of_one_device(tensors, *axis):
        assert len({one.device for one in tensors}) == 1
        return cat(tensors, *axis)

    monkeypatch.setattr(torch, "cat", of_one_device)
    whole = context._behind(prompt(5, 7), torch.ones(1, 5, dtype=torch.long))
    assert whole.ids.is_meta
    assert whole.real.is_meta
    assert whole.ids.shape == whole.real.shape == (1, 65)


def test_the_time_that_is_left_counts_from_the_question(monkeypatch):
    context = GemFilter(tiny(), 2, 16, window=4).read(prompt())
    began = iter((100.0, 160.0, 200.0, 200.5))
    monkeypatch.setattr(contexts, "monotonic", lambda: next(began))
    monkeypatch.setattr(methods_options, "monotonic", lambda: next(began))
    asked = {"max_new_tokens": 20, "do_sample": False, "max_time": 59.0}
    assert context.ask(QUESTIONS[0], **asked).shape == (1, 66)
    assert context.ask(QUESTIONS[0], **asked | {"max_time": 600.0}).shape == (1, 85)


@pytest.mark.parametrize("make", [FullCache, lambda model: GemFilter(model, 2, 16, window=4)])
def test_a_model_that_was_cast_since_reads_anew(make):
    method = make(tiny())
    context = method.read(prompt())
    method.bfloat16()
    for asks in (context.ask, context.add):
        with pytest.raises(ConfigError, match=r"read in torch.float32 on cpu.* in torch.bfloat16 on cpu.*read the doc"):
            asks(QUESTIONS[0])
    assert method.read(prompt()).ask(QUESTIONS[0], **GREEDY).shape == (1, 71)
