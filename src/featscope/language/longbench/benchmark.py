"""LongBench as a questionnaire: how a method scores, and how much of each prompt it keeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from featscope.language.load import load_once
from featscope.language.longbench.answer import answer
from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.made_up import MADE_UP, made_up, made_up_count
from featscope.language.longbench.metrics import points
from featscope.language.longbench.suites import SUITES, SuiteName
from featscope.language.methods import Reading
from featscope.options import require
from featscope.streams import Streams
from featscope.training import Answer, Evaluation, Measurement, Questionnaire


@dataclass(frozen=True)
class Benchmark(Questionnaire):
    """The examples of some tasks, answered by one method. A question is an example.

    Attributes:
        method: a row of `featscope.language.methods`, all of which say what they keep.
        reading: how much of a prompt it keeps.
        model: see `featscope.language.load_model`.
        data: "made-up", or where its suite reads from.
        suite: one of `SUITES`.
        tasks: some of its tasks.
        examples: first examples of each task that are used; 0 for all.
        context: tokens that a prompt may have, longer ones are cut in the middle; 0 for what the model has room for.
        chat: see `encode`.
        redact: whether what was answered is not stored.
    """

    method: str
    reading: Reading
    model: str
    data: str
    suite: SuiteName
    tasks: tuple[str, ...]
    examples: int = 0
    context: int = 0
    chat: bool = False
    redact: bool = False

    answers: ClassVar[Mapping[str, Answer]] = {
        "score": Answer("score of an answer, from 0 to 100", "points"),
        "exact": Answer("whether an answer is a right one word for word"),
        "perfect": Answer("score of the first right answer, as if it had been said", "points"),
        "task_of": Answer("number of the example's task in the study's order"),
        "text_of": Answer("number of the text that is asked about; several questions may be about one"),
        "tokens": Answer("n, tokens of the prompt", "token"),
        "kept": Answer("k, tokens kept of the prompt", "token"),
        "cut": Answer("tokens cut out of the prompt's middle to fit the context", "token"),
    }

    @property
    def texts(self) -> Sequence[str]:
        """What was answered, beside what would have been right."""
        return () if self.redact else ("said", "wanted")

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """All examples, task by task; real data are read to count them."""
        return {"example": range(sum(self._count(task) for task in self.tasks))}

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, float | str]]:
        """Answers an example.

        Raises:
            ConfigError: model or data cannot be read, or do not go with the options.
        """
        model, tokenizer = load_once(self.model, str(streams.device))
        method = self.reading.build(self.method, model)
        talks = not self.chat or bool(tokenizer.chat_template)
        cure = "Leave --chat out, or load an 'Instruct' model."
        require(self, "chat", talks, f"False, as the tokenizer of {self.model!r} has no chat template", cure)
        asked = [(i, name, one) for i, name in enumerate(self.tasks) for one in self._examples(name, streams)]
        texts: dict[str, int] = {}
        text_of = [texts.setdefault(one.context, len(texts)) for *_, one in asked]

        def ask(example: int) -> Mapping[str, float | str]:
            place, name, one = asked[example]
            task = SUITES[self.suite].tasks[name]
            found = answer(method, tokenizer, task, one, self.context, chat=self.chat)
            right = one.answers[0]
            return {
                "score": found.score,
                "exact": found.exact,
                "perfect": points(task.metric, right, one.answers, one.classes, first_line=task.first_line),
                "task_of": place,
                "text_of": text_of[example],
                "tokens": found.tokens,
                "kept": found.kept,
                "cut": found.cut,
                "said": found.text,
                "wanted": " | ".join(one.answers),
            }

        return ask

    def _count(self, task: str) -> int:
        available = made_up_count(task) if self.data == MADE_UP else len(SUITES[self.suite].read(self.data, task))
        return min(self.examples or available, available)

    def _examples(self, task: str, streams: Streams) -> Sequence[LongBenchExample]:
        made = self.data == MADE_UP
        found = made_up(task, streams.at(f"made-up {task}")) if made else SUITES[self.suite].read(self.data, task)
        return found[: self._count(task)]

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """What was found of each example, and the means of each task."""
        names = ("score", "exact", "task_of", "tokens", "kept")
        score, exact, task_of, tokens, kept = (evaluation[name] for name in names)
        of_task = [task_of[0] == place for place in range(len(self.tasks))]
        task_score, task_exact, task_share = (
            torch.stack([values[:, chosen].mean(1) for chosen in of_task], 1)
            for values in (score, exact, kept / tokens)
        )
        return {
            **evaluation.all_answers(),
            "task_score": Measurement(task_score, "mean score of a task", ("task",), "points"),
            "task_exact": Measurement(task_exact, "share of a task's answers that are right word for word", ("task",)),
            "task_share": Measurement(task_share, "mean k/n of a task", ("task",)),
            "mean_score": Measurement(task_score.mean(1), "mean over tasks of their mean scores", units="points"),
            "compression": Measurement(kept.mean(1) / tokens.mean(1), "mean k over mean n"),
        }
