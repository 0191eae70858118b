"""Prompts as tokens, and answers of a model of random weights."""

import math

import pytest
import torch
from hybrid_models import with_pictures
from small_longbench import CONTEXT, byte_tokenizer, saved_model

from featscope.language import AdaKV, FullCache, GemFilter
from featscope.language.load import load_model
from featscope.language.longbench import TASKS, LongBenchExample, answer, cut_middle, encode, room
from featscope.language.longbench.suites import SUITES
from featscope.options import ConfigError

EXAMPLE = LongBenchExample("Who came?", "The {old} captain came.", ("the captain",), ("Date",))
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)


@pytest.mark.parametrize(
    ("most", "kept"), [(10, "abcdefgh"), (8, "abcdefgh"), (6, "abcfgh"), (5, "abgh"), (2, "ah"), (1, "")]
)
def test_the_middle_is_cut(most, kept):
    letters = list(range(8))
    assert "".join("abcdefgh"[i] for i in cut_middle(letters, most)) == kept


@pytest.mark.parametrize("name", TASKS)
def test_the_template_is_filled_in(name):
    tokenizer, task = byte_tokenizer(), TASKS[name]
    ids, cut = encode(tokenizer, task, EXAMPLE, CONTEXT)
    assert ids[0, 0] == tokenizer.bos_token_id
    text = tokenizer.decode(ids[0])
    assert cut == 0
    assert text.count("The {old} captain came.") == 1
    has_question = name not in ("gov_report", "multi_news", "passage_count")
    assert text.count("Who came?") == has_question
    ends = {"passage_count": "answer is: ", "passage_retrieval_en": "answer is: "}
    summaries = ("gov_report", "multi_news")
    default = "Who came?" if task.first_line else "Summary:" if name in summaries else "Answer:"
    assert text.endswith(ends.get(name, default))


def test_a_long_prompt_keeps_both_ends():
    tokenizer, task = byte_tokenizer(), TASKS["multifieldqa_en"]
    whole = encode(tokenizer, task, EXAMPLE, CONTEXT).ids[0]
    ids, cut = encode(tokenizer, task, EXAMPLE, 100)
    assert ids.shape == (1, 100)
    assert cut == len(whole) - 100
    assert torch.equal(ids[0], torch.cat([whole[:50], whole[-50:]]))


def test_chat_puts_the_prompt_between_messages_where_longbench_does():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    ids, cut = encode(tokenizer, TASKS["qasper"], EXAMPLE, CONTEXT, chat=True)
    text = tokenizer.decode(ids[0])
    assert cut == 0
    assert text.startswith("<system><user>You are given a scientific article")
    assert text.endswith("Answer:<a>")
    assert "<s>" not in text  # that is for the template to say
    plain = tokenizer.decode(encode(tokenizer, TASKS["trec"], EXAMPLE, CONTEXT, chat=True).ids[0])
    assert plain.startswith("<s>Please determine")
    whole = len(ids[0])
    ids, cut = encode(tokenizer, TASKS["qasper"], EXAMPLE, 101, chat=True)
    text = tokenizer.decode(ids[0])
    assert 100 <= len(ids[0]) <= 101
    assert text.startswith("<system><user>You are given")
    assert text.endswith("Answer:<a>")
    assert cut == whole - len(ids[0])


def test_a_chat_that_is_cut_within_a_character_still_fits():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    for most in range(60, 70):
        ids, _ = encode(
            tokenizer, TASKS["qasper"], LongBenchExample("\u20ac" * 50, "\u20ac" * 300, ("a",)), most, chat=True
        )
        assert 40 < len(ids[0]) <= most


def test_no_template_and_no_room_are_refused():
    with pytest.raises(ConfigError, match=r"chat = True, but .* no chat template.*Leave --chat out"):
        encode(byte_tokenizer(), TASKS["qasper"], EXAMPLE, CONTEXT, chat=True)
    with pytest.raises(ConfigError, match=r"context leaves 1 tokens for the prompt of qasper: allowed is 2 or more"):
        encode(byte_tokenizer(), TASKS["qasper"], EXAMPLE, 1)
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    around = len("<system><user><a>")
    with pytest.raises(ConfigError, match=r"context leaves 1 tokens"):
        encode(tokenizer, TASKS["qasper"], EXAMPLE, around + 1, chat=True)


def test_the_prompt_leaves_room_for_the_answer():
    model, _ = load_model(saved_model())
    assert room(model, TASKS["gov_report"]) == CONTEXT - 512
    assert room(with_pictures("gemma3-vision"), TASKS["trec"]) == 256 - 64  # said of its text alone
    assert room(model, TASKS["trec"], 300) == 300
    assert room(model, TASKS["trec"], CONTEXT) == CONTEXT - 64


def test_answers_are_the_models_own_and_scored():
    model, tokenizer = load_model(saved_model())
    task = TASKS["2wikimqa"]
    ids = encode(tokenizer, task, EXAMPLE, CONTEXT).ids
    alone = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32)
    text = tokenizer.decode(alone[0, ids.shape[1] :], skip_special_tokens=True)
    found = answer(FullCache(model), tokenizer, task, EXAMPLE)
    assert found.text == text
    assert (found.tokens, found.kept, found.cut) == (ids.shape[1], ids.shape[1], 0)
    assert found.score == 0.0
    echoed = answer(FullCache(model), tokenizer, task, EXAMPLE._replace(answers=("no", f"word {text} word")))
    assert 0 < echoed.score <= 100


def test_gemfilter_reads_k_tokens_and_all_where_there_are_no_more():
    model, tokenizer = load_model(saved_model())
    task = TASKS["triviaqa"]
    found = answer(GemFilter(model, 1, 64), tokenizer, task, EXAMPLE)
    assert found.kept == 64 < found.tokens
    whole = answer(GemFilter(model, 1, 1000), tokenizer, task, EXAMPLE)
    assert whole.kept == whole.tokens
    assert whole.text == answer(FullCache(model), tokenizer, task, EXAMPLE).text
    cut = answer(FullCache(model), tokenizer, task, EXAMPLE, 80)
    assert (cut.tokens, cut.cut) == (80, whole.tokens - 80)


class Says:
    """A method that always says the same, and remembers how it was asked."""

    model = property(lambda self: load_model(saved_model())[0])

    def __init__(self, text: str, kept: torch.Tensor | None = None) -> None:
        self.kept = kept
        self.said = torch.tensor([byte_tokenizer()(text, add_special_tokens=False)["input_ids"]])
        self.asked: dict = {}

    def generate(self, input_ids, attention_mask=None, **options):
        self.asked = options
        output = torch.cat([input_ids, self.said], 1)
        output.kept = self.kept
        return output


def test_generation_ends_at_the_line_where_it_should():
    tokenizer, method = byte_tokenizer(), Says("nobody")
    line = tokenizer("\n", add_special_tokens=False)["input_ids"][-1]
    answer(method, tokenizer, TASKS["samsum"], EXAMPLE)
    assert method.asked["eos_token_id"] == [1, line]
    asked = method.asked
    assert (asked["min_new_tokens"], asked["max_new_tokens"], asked["do_sample"]) == (1, 128, False)
    assert asked["num_beams"] == 1, "whatever the model's own settings are"
    answer(method, tokenizer, TASKS["trec"], EXAMPLE)
    assert method.asked["eos_token_id"] == [1]
    assert method.asked["min_new_tokens"] is None


def test_what_is_said_is_scored_by_the_task():
    tokenizer, method = byte_tokenizer(), Says("the captain\nand a great many others, who need no names")
    assert answer(method, tokenizer, TASKS["triviaqa"], EXAMPLE).score == 100.0
    assert 0 < answer(method, tokenizer, TASKS["hotpotqa"], EXAMPLE).score < 50
    assert answer(method, tokenizer, TASKS["triviaqa"], EXAMPLE).exact  # of its first line
    assert not answer(method, tokenizer, TASKS["hotpotqa"], EXAMPLE).exact
    stated = Says("The correct answer is (B), as the captain said")
    one = SUITES["longbench-v2"].tasks["single-document-qa"], EXAMPLE._replace(answers=("B",))
    assert answer(stated, tokenizer, *one).exact  # a rule picks the letter
    assert not answer(Says("The correct answer is (C)"), tokenizer, *one).exact
    dated = Says("Date")
    assert answer(dated, tokenizer, TASKS["trec"], EXAMPLE._replace(answers=("Date",))).score == 100.0


def test_what_heads_keep_is_counted_on_average_without_padding_and_layers_that_say_nothing():
    tokenizer, task = byte_tokenizer(), TASKS["triviaqa"]
    kept = torch.tensor([[[[-1, -1, 7], [4, 5, 7]]], [[[-1, -1, -1], [-1, -1, -1]]]])
    assert answer(Says("nobody", kept), tokenizer, task, EXAMPLE).kept == 2
    assert math.isnan(answer(Says("nobody"), tokenizer, task, EXAMPLE).kept)
    model = load_model(saved_model())[0]
    output = AdaKV(model, 64).generate(encode(tokenizer, task, EXAMPLE, CONTEXT).ids, max_new_tokens=1)
    assert output.kept.shape[-1] > 64, "heads differ"
    assert answer(AdaKV(model, 64), tokenizer, task, EXAMPLE).kept == 64
