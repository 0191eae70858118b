"""One example answered by one method."""

from typing import Any, NamedTuple, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language.decoder import context_of
from featscope.language.longbench import picked
from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.metrics import exact, points
from featscope.language.longbench.prompts import encode
from featscope.language.longbench.tasks import LongBenchTask
from featscope.language.method import GREEDY, Method


class Answered(NamedTuple):
    """What came of an example.

    Attributes:
        text: what was generated.
        score: in points, from 0 to 100.
        exact: whether it is a right answer word for word.
        tokens: n, those of the prompt.
        kept: k, those that were kept of it (by each layer and key head, on average); NaN where a method does not say.
        cut: those that were cut out of its middle before.
    """

    text: str
    score: float
    exact: bool
    tokens: int
    kept: float
    cut: int


def room(model: PreTrainedModel, task: LongBenchTask, most: int = 0) -> int:
    """Tokens that a prompt of ``task`` may have: ``most``, if it is not 0, and the model's context less the answer."""
    context = context_of(model)
    fitting = [most] if most else []
    if context is not None:
        fitting.append(context - task.new_tokens)
    return min(fitting, default=10**9)


def answer(
    method: Method,
    tokenizer: PreTrainedTokenizerBase,
    task: LongBenchTask,
    example: LongBenchExample,
    most: int = 0,
    *,
    chat: bool = False,
) -> Answered:
    """Generate greedily, as LongBench does, and score.

    Args:
        method: a model and what it keeps of the prompt.
        tokenizer: of the model.
        task: the example's.
        example: what is asked.
        most: tokens that the prompt may have; 0 for as many as the model's context has room for.
        chat: see `encode`.

    Raises:
        ConfigError: see `encode`.
    """
    model = method.model
    prompt = encode(tokenizer, task, example, room(model, task, most), chat=chat)
    ids = prompt.ids.to(model.device)
    ends = _ends(model, tokenizer, at_line=task.ends_at_line)
    output = method.generate(
        ids,
        torch.ones_like(ids),
        tokenizer=tokenizer,
        **GREEDY,
        max_new_tokens=task.new_tokens,
        min_new_tokens=1 if task.ends_at_line else None,
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,  # of a batch of one: never seen
    )
    text = cast(str, tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))
    score = points(task.metric, text, example.answers, example.classes, first_line=task.first_line)
    picks = task.metric in picked.METRICS  # what is asked for out of an answer that may say more
    right = score == 100 if picks else exact(text, example.answers, first_line=task.first_line)
    return Answered(text, score, right, ids.shape[1], _count(output.kept), prompt.cut)


def _count(kept: Any) -> float:
    """Places in ``kept``, on average over its sets, of which those of nothing but -1 do not count; see `Prefill`."""
    if kept is None:
        return float("nan")
    counts = (kept.reshape(-1, kept.shape[-1]) >= 0).sum(-1)
    return float(counts[counts > 0].double().mean())


def _ends(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, at_line: bool) -> list[int]:
    own = model.generation_config.eos_token_id if model.generation_config else None
    ends: list[int] = [] if own is None else own if isinstance(own, list) else [own]
    line = cast(list[int], tokenizer("\n", add_special_tokens=False)["input_ids"])
    return [*ends, line[-1]] if at_line else list(ends)
