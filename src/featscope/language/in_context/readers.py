"""Who reads a prompt and says how likely each label is: a language model, or one of three hand-set learners.

Hand-set learners see the same text as a model does. What they know of meaning is given to them as a table, so that
their curves over the share of inverted labels are known exactly. They show that a harness can tell a learner that
follows the exemplars from one that does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language.chat import in_template, prompt_tokens
from featscope.language.decoder import ANGLES_BY_LENGTH, context_of, rope_of
from featscope.language.in_context.prompt import LEAD, parse
from featscope.language.prompt import read_prompt
from featscope.options import ConfigError


@runtime_checkable
class Reader(Protocol):
    """Reads prompts that end in "The answer is"."""

    @property
    def parameters(self) -> int:
        """How many parameters it has; 0 if it is hand-set."""

    def scores(self, prompts: Sequence[str]) -> Float[Tensor, "prompt label"]:
        """Log-likelihood of each label word as the next one, in nats."""


@dataclass(frozen=True)
class ModelReader:
    """A causal language model.

    Attributes:
        model: it.
        tokenizer: its own.
        words: label words.
        chat: whether the prompt is put as a user's message, with the beginning of the answer in the model's mouth.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    words: tuple[str, str]
    chat: bool = False

    def __post_init__(self) -> None:
        if self.chat and not getattr(self.tokenizer, "chat_template", None):
            raise ConfigError("chat = True, but the tokenizer has no chat template: take a chat model, or no --chat")

    @property
    def parameters(self) -> int:
        """Of the model."""
        return self.model.num_parameters()

    def scores(self, prompts: Sequence[str]) -> Float[Tensor, "prompt label"]:
        """See `log_likelihoods`."""
        wrapped = [self._as_chat(prompt) if self.chat else prompt for prompt in prompts]
        return log_likelihoods(self.model, self.tokenizer, wrapped, self.words, special=not self.chat)

    @torch.no_grad()
    def scores_alone(self, prompt: str) -> Float[Tensor, " label"]:
        """`scores` of one prompt but for a constant, by another way: the log-likelihood of all tokens, in nats, of the
        prompt with each label word, each text in a pass of its own."""
        wrapped, sums = self._as_chat(prompt) if self.chat else prompt, []
        for word in self.words:
            tokens = prompt_tokens(self.tokenizer, f"{wrapped} {word}", special=not self.chat)
            ids = torch.tensor([tokens], device=self.model.device)
            logits = self.model(ids).logits[0, :-1]  # of all tokens, which may be large: no copy is made
            log_p = logits.gather(1, ids[0, 1:, None])[:, 0].float() - logits.logsumexp(-1).float()
            sums.append(log_p.double().sum().cpu())
        return torch.stack(sums)

    def _as_chat(self, prompt: str) -> str:
        """The template writes the special tokens; the answer begins as in a plain prompt."""
        opened = in_template(self.tokenizer, prompt.removesuffix(LEAD).rstrip("\n"))
        return f"{opened}{'' if opened[-1:].isspace() else ' '}{LEAD}"


@torch.no_grad()
def log_likelihoods(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    words: Sequence[str],
    special: bool = True,
) -> Float[Tensor, "prompt word"]:
    """Log-likelihood of each word, after a space, as the continuation of each prompt, in nats; float32, on the CPU.

    A word of several tokens has the sum over them. What counts as the word's tokens begins where its text and that of
    the others part from the prompt's own, so tokens that reach over the border are no obstacle. Rows that two words
    share are computed once: words of one token cost one row a prompt. All prompts are one batch.

    Args:
        model: a causal language model.
        tokenizer: its own.
        prompts: texts that do not end in a space.
        words: continuations.
        special: whether prompts begin as texts do, see `featscope.language.chat.prompt_tokens`.

    Raises:
        ConfigError: a prompt with its word is longer than the model's context, shares no token with it, or has one that
            the model does not know.
    """
    rows: dict[tuple[int, ...], int] = {}
    wanted: list[tuple[int, list[int]]] = []  # row, tokens of the word
    for prompt in prompts:
        bare, *whole = (
            prompt_tokens(tokenizer, text, special=special)
            for text in (prompt, *(f"{prompt} {word}" for word in words))
        )
        if len({*map(tuple, whole)}) < len({*words}):
            raise ConfigError(
                f"of the words {', '.join(words)} some have the same tokens, so that none of these is likelier: "
                "allowed are words that the tokenizer tells apart. Take another task, or another model"
            )
        shared = _shared(bare, *whole)
        if not shared:
            raise ConfigError("the tokenizer reads a prompt otherwise from its first token on once a word follows it")
        for tokens in whole:
            wanted.append((rows.setdefault(tuple(tokens[:-1]), len(rows)), tokens[shared:]))
    longest = max(map(len, rows))
    context = context_of(model)
    if context is not None and longest > context:
        raise ConfigError(
            f"a prompt has {longest} tokens: allowed is at most {context}, the context of the model. "
            "Take fewer --shots, or a model of a longer context."
        )
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, number in rows.items():
        ids[number, longest - len(row) :] = torch.tensor(row)
        mask[number, longest - len(row) :] = 1
    batch = read_prompt(model, ids, mask)
    last = max(len(tail) for _, tail in wanted)
    at_once = 1 if rope_of(model).get("rope_type") in ANGLES_BY_LENGTH else len(rows)  # by the longest of a batch
    logits = []
    for part in zip(*(of.split(at_once) for of in (batch.ids, batch.mask, batch.positions)), strict=True):
        tokens, seen, places = part
        found = model(tokens, attention_mask=seen, position_ids=places, use_cache=False, logits_to_keep=last)
        logits.append(found.logits[:, -last:])
    log_p = torch.cat(logits).float().log_softmax(-1).cpu()
    sums = [log_p[row, last - len(tail) :].gather(1, torch.tensor(tail)[:, None]).sum() for row, tail in wanted]
    return torch.stack(sums).unflatten(0, (len(prompts), len(words)))


def _shared(*rows: Sequence[int]) -> int:
    """Length of the common beginning."""
    count = 0
    for tokens in zip(*rows, strict=False):
        if len(set(tokens)) > 1:
            break
        count += 1
    return count


@dataclass(frozen=True)
class Follower:
    """Knows what every input means, and takes from the exemplars which word goes with which meaning.

    Of M exemplars let a be those whose word is the true one. It says the true word with probability
    (a + 1/2)/(M + 1): with k labels inverted, (M - k + 1/2)/(M + 1), which falls linearly. The likelier word is the
    true one for k < M/2, and the other for k > M/2; at k = M/2 it cannot tell.

    Attributes:
        words: label words.
        truth: true label of each input, as it is shown.
        parameters: what it counts as having.
    """

    words: tuple[str, str]
    truth: Mapping[str, int]
    parameters: int = 0

    def scores(self, prompts: Sequence[str]) -> Float[Tensor, "prompt label"]:
        """Log of its probabilities of both words; see `Reader`."""
        rows = []
        for prompt in prompts:
            shown, query = parse(prompt)
            agreeing = sum(word == self.words[self.truth[text]] for text, word in shown)
            rows.append(_leaning(self.truth[query], (agreeing + 0.5) / (len(shown) + 1)))
        return torch.tensor(rows)


@dataclass(frozen=True)
class Ignorer:
    """Believes what it believed before, whatever the exemplars say.

    Attributes:
        beliefs: the label that it takes each input to have, as it is shown.
        sure: probability that it gives to it.
        parameters: what it counts as having.
    """

    beliefs: Mapping[str, int]
    sure: float = 0.9
    parameters: int = 0

    def scores(self, prompts: Sequence[str]) -> Float[Tensor, "prompt label"]:
        """Log of `sure` and of what is left of 1; see `Reader`."""
        return torch.tensor([_leaning(self.beliefs[parse(prompt).query], self.sure) for prompt in prompts])


@dataclass(frozen=True)
class Frequency:
    """Says words as often as the exemplars do, whatever the query: label 1 with probability (n_1 + 1/2)/(M + 1).

    Attributes:
        words: label words.
        parameters: what it counts as having.
    """

    words: tuple[str, str]
    parameters: int = 0

    def scores(self, prompts: Sequence[str]) -> Float[Tensor, "prompt label"]:
        """Log of how often exemplars say each word; see `Reader`."""
        rows = []
        for prompt in prompts:
            shown = parse(prompt).exemplars
            rows.append(_leaning(1, (sum(word == self.words[1] for _, word in shown) + 0.5) / (len(shown) + 1)))
        return torch.tensor(rows)


def _leaning(label: int, probability: float) -> tuple[float, float]:
    """Log-probabilities of both labels, ``probability`` that of ``label``."""
    with_it, without = log(probability), log(1 - probability)
    return (with_it, without) if label == 0 else (without, with_it)
