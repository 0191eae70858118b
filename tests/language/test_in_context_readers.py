"""Who reads prompts: likelihoods of label words against one word at a time, and learners whose answers are known."""

from math import log

import pytest
import torch
from tiny_model import CONTEXT, tiny_llama, tiny_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from featscope.language.in_context import (
    TASKS,
    Example,
    Follower,
    Frequency,
    Ignorer,
    ModelReader,
    ask,
    flipped,
    log_likelihoods,
)
from featscope.options import ConfigError

TASK = TASKS["sst2"]
GOOD, BAD = Example(("the plot is charming .",), 1), Example(("the music was rather dull for once .",), 0)
PROMPTS = [
    ask(TASK, [GOOD, BAD], GOOD),
    ask(TASK, [BAD], BAD),
    ask(TASK, [], GOOD),
]
WORDS = (" positive", " negative", " pos")  # of one token, of four, of some


@torch.no_grad()
def one_by_one(model, tokenizer, prompt: str, continuation: str, special: bool = True) -> float:
    """Log-likelihood of the tokens of ``continuation``, each from a pass of its own over all that comes before."""
    ids = tokenizer(prompt, add_special_tokens=special)["input_ids"]
    total = 0.0
    for token in tokenizer(continuation, add_special_tokens=False)["input_ids"]:
        logits = model(torch.tensor([ids])).logits[0, -1].double()
        total += float(logits[token] - logits.logsumexp(0))
        ids = [*ids, token]
    return total


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=512, n_positions=256, n_embd=16, n_layer=2, n_head=4, initializer_range=0.5, bos_token_id=0
    )
    return GPT2LMHeadModel(config).eval()


@pytest.mark.parametrize("build", [tiny_llama, gpt2])
def test_likelihoods_are_those_of_one_token_after_another(build):
    """Prompts of other lengths and words of other token numbers in one batch; rounding is far below 1e-4."""
    model, tokenizer = build(), tiny_tokenizer()
    found = log_likelihoods(model, tokenizer, PROMPTS, [word[1:] for word in WORDS])
    expected = [[one_by_one(model, tokenizer, prompt, word) for word in WORDS] for prompt in PROMPTS]
    torch.testing.assert_close(found.double(), torch.tensor(expected).double(), atol=1e-4, rtol=0)


def test_scores_of_whole_texts_differ_by_one_number():
    reader = ModelReader(tiny_llama(), tiny_tokenizer(), ("negative", "positive"))
    for prompt, scores in zip(PROMPTS, reader.scores(PROMPTS), strict=True):
        apart = reader.scores_alone(prompt) - scores
        assert apart[0] < -1
        torch.testing.assert_close(apart[0], apart[1], atol=1e-4, rtol=0)


def test_words_of_one_token_share_a_row(monkeypatch):
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    rows = []
    model.register_forward_pre_hook(lambda module, arguments: rows.append(len(arguments[0])))
    single = [word for word in ("the", "is") if len(tokenizer(f" {word}")["input_ids"]) == 2]
    assert len(single) == 2  # with <s>, two tokens each
    log_likelihoods(model, tokenizer, PROMPTS, single)
    log_likelihoods(model, tokenizer, PROMPTS, ["positive", "negative"])
    assert rows == [3, 6]


def test_tokens_that_reach_over_the_border_count_as_the_words():
    """A tokenizer that makes one token of "s" and a space ends a prompt otherwise once a word follows."""
    letters = sorted(set("".join(PROMPTS)) | set("positivenegative"))
    vocabulary = {token: number for number, token in enumerate([*letters, "s "])}
    raw = Tokenizer(models.BPE(vocabulary, [("s", " ")]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw)
    model, prompt = tiny_llama(), PROMPTS[0]
    bare, whole = tokenizer(prompt)["input_ids"], tokenizer(f"{prompt} positive")["input_ids"]
    assert whole[: len(bare)] != bare
    shared = next(i for i, (a, b) in enumerate(zip(bare, whole, strict=False)) if a != b)
    with torch.no_grad():
        log_p = model(torch.tensor([whole])).logits[0].log_softmax(-1)
    expected = sum(float(log_p[i - 1, whole[i]]) for i in range(shared, len(whole)))
    found = log_likelihoods(model, tokenizer, [prompt], ["positive"])
    assert float(found) == pytest.approx(expected, abs=1e-4)


def test_a_prompt_beyond_the_context_is_refused_with_the_cure():
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    long = ask(TASK, [BAD] * CONTEXT, GOOD)
    with pytest.raises(ConfigError, match=rf"allowed is at most {CONTEXT}, .* Take fewer --shots"):
        log_likelihoods(model, tokenizer, [long], TASK.words)


def test_a_prompt_with_a_token_that_the_model_does_not_know_is_refused():
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    tokenizer.add_tokens(["<new>"])
    with pytest.raises(ConfigError, match="input_ids hold the token 512: allowed is 0 to 511, the tokens that Llama"):
        log_likelihoods(model, tokenizer, [f"<new> {PROMPTS[0]}"], TASK.words)


def test_a_chat_model_begins_its_answer_as_a_plain_prompt_does():
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    with pytest.raises(ConfigError, match="take a chat model, or no --chat"):
        ModelReader(model, tokenizer, TASK.words, chat=True)
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }} [end]{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    reader = ModelReader(model, tokenizer, TASK.words, chat=True)
    body = PROMPTS[0].removesuffix("\nThe answer is")
    wrapped = f"<s>[user] {body} [end][assistant] The answer is"
    expected = [one_by_one(model, tokenizer, wrapped, f" {word}", special=False) for word in TASK.words]
    assert reader.scores(PROMPTS[:1])[0].tolist() == pytest.approx(expected, abs=1e-4)
    plain = ModelReader(model, tokenizer, TASK.words).scores(PROMPTS[:1])
    assert plain[0].tolist() != pytest.approx(expected, abs=1e-2)
    assert reader.parameters == sum(p.numel() for p in model.parameters())


EXEMPLARS = [GOOD, BAD, Example(("a",), 1), Example(("b",), 1)]
TRUTH = {TASK.shown(e.texts): e.label for e in EXEMPLARS}


@pytest.mark.parametrize("query", [GOOD, BAD])
@pytest.mark.parametrize("inverted", range(5))
def test_the_follower_trusts_in_proportion(query, inverted):
    prompt = ask(TASK, flipped(EXEMPLARS, [2, 0, 3, 1], inverted / 4), query)
    found = Follower(TASK.words, TRUTH).scores([prompt])[0]
    assert float(found[query.label]) == pytest.approx(log((4 - inverted + 0.5) / 5))
    assert float(found.exp().sum()) == pytest.approx(1)


def test_the_ignorer_does_not_read_exemplars():
    reader = Ignorer(dict.fromkeys(TRUTH, 0))
    prompts = [ask(TASK, flipped(EXEMPLARS, [2, 0, 3, 1], rate), GOOD) for rate in (0, 0.5, 1)]
    assert torch.equal(reader.scores(prompts), torch.tensor([[log(0.9), log(0.1)]] * 3))


def test_frequency_counts_words_whatever_they_stand_beside():
    reader = Frequency(TASK.words)
    prompts = [ask(TASK, flipped(EXEMPLARS, [1, 0, 2, 3], rate), BAD) for rate in (0, 0.25, 1)]
    assert reader.scores(prompts)[:, 1].exp().tolist() == pytest.approx([3.5 / 5, 4.5 / 5, 1.5 / 5])


def test_words_that_the_tokenizer_does_not_tell_apart_are_refused():
    """Each would be as likely as the other, whatever the model reads."""
    raw = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(
        ConfigError, match=r"the words negative, positive some have the same tokens, .* Take another task"
    ):
        log_likelihoods(tiny_llama(), PreTrainedTokenizerFast(tokenizer_object=raw), ["a"], TASK.words)


def test_texts_that_share_no_token_are_refused():
    raw = Tokenizer(models.WordLevel({"a": 0, "a positive": 1, "a negative": 2}, unk_token="a"))
    with pytest.raises(ConfigError, match="from its first token on"):
        log_likelihoods(tiny_llama(), PreTrainedTokenizerFast(tokenizer_object=raw), ["a"], TASK.words)
