"""How texts begin, and that they do not end where more is to come."""

import pytest
import torch
from small_models import tiny, word_tokenizer
from tiny_model import tiny_tokenizer
from tokenizers import processors

from featscope.language.chat import begun, going_on, prompt_tokens
from featscope.language.examples import Example
from featscope.language.in_context import ModelRow
from featscope.language.in_context.readers import log_likelihoods
from featscope.language.layers import needle_span
from featscope.language.load import load_tokenizer
from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.prompts import encode
from featscope.language.longbench.tasks import TASKS
from featscope.language.ruler_prompts import Ruler, prompts
from featscope.language.tune import _tokens

ADDED = {"none": "$A", "a beginning": "<s> $A", "an end": "$A </s>", "both": "<s> $A </s>"}


def adding(what: str, tokenizer=None):
    """A tokenizer that puts tokens around a text."""
    tokenizer = tokenizer or word_tokenizer()
    known = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single=ADDED[what], special_tokens=known)
    return tokenizer


@pytest.mark.parametrize("what", ADDED)
def test_a_prompt_begins_as_texts_do_and_does_not_end(what):
    tokenizer = adding(what)
    assert prompt_tokens(tokenizer, "w5 w6") == [1, 5, 6]
    assert prompt_tokens(tokenizer, "<s> w5 w6")[-3:] == [1, 5, 6]
    assert prompt_tokens(tokenizer, "w5 w6", special=False) == [5, 6]
    assert begun(tokenizer, [1, 5]) == [1, 5]
    assert going_on(word_tokenizer(), [5, 2]) == [5, 2]  # what a text itself ends with
    ids, span = needle_span(tokenizer, "w5 w6 w7", "w7")
    assert (ids.tolist(), span) == ([[1, 5, 6, 7]], range(3, 4))
    ids, span = needle_span(tokenizer, "w5 w6 w7", "w7", special=False)
    assert (ids.tolist(), span) == ([[5, 6, 7]], range(2, 3))


@pytest.mark.parametrize("what", ADDED)
def test_a_token_that_may_open_a_turn_begins_a_text_where_the_tokenizer_says_so(what):
    tokenizer = adding(what)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert prompt_tokens(tokenizer, "w5 w6") == ([1, 5, 6] if what in ("a beginning", "both") else [5, 6])


@pytest.mark.parametrize("what", ADDED)
def test_documents_and_questions_are_one_text(what):
    one = Example("w5 w6 w7", ("w8",), document="w5 w6")
    assert [ids.tolist() for ids in _tokens(adding(what), one, tiny(), special=True)] == [[[1, 5, 6]], [[7]]]
    assert [ids.tolist() for ids in _tokens(adding(what), one, tiny(), special=False)] == [[[5, 6]], [[7]]]
    alone = Example("w5 w6 w7", ("w8",))
    assert _tokens(adding(what), alone, tiny(), special=True)[0].tolist() == [[1, 5, 6, 7]]


def test_benchmarks_begin_prompts_as_texts_begin():
    bare, beginning = (adding(what, tiny_tokenizer()) for what in ("none", "a beginning"))
    example = LongBenchExample("question", "context " * 9, ("answer",))
    assert torch.equal(*(encode(one, TASKS["qasper"], example, 1000).ids for one in (bare, beginning)))
    asked = Ruler(length=900, tasks=("niah_single_1",), examples=1)
    assert prompts(asked, bare) == prompts(asked, beginning)


@pytest.mark.parametrize("what", ADDED)
def test_labels_stand_behind_prompts_that_begin_as_texts_do_and_not_behind_their_end(what):
    model, plain = tiny(), adding("a beginning")
    said = ["w5 w6", "w7 w8 w9"], ["w10", "w11 w12"]
    assert torch.equal(log_likelihoods(model, adding(what), *said), log_likelihoods(model, plain, *said))
    found, expected = (ModelRow(model, one).read("w5 w6 w7", []) for one in (adding(what), plain))
    assert torch.equal(found.weights, expected.weights)
    assert torch.equal(found.offsets, expected.offsets)


def test_a_text_that_begins_with_the_first_token_gets_no_second_one():
    """As a conversation that was rendered by its template."""
    tokenizer = load_tokenizer("retriever")
    assert prompt_tokens(tokenizer, f"{tokenizer.bos_token}The cat") == prompt_tokens(tokenizer, "The cat")
