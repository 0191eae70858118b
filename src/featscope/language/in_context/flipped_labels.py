"""Exemplar labels that are inverted, as a questionnaire: who follows them, and who does not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from featscope.language.in_context.examples import Examples, load_examples
from featscope.language.in_context.prompt import ask, flipped
from featscope.language.in_context.readers import Follower, Frequency, Ignorer, ModelReader, Reader
from featscope.language.load import load_once
from featscope.options import require
from featscope.probes.curves import first_fall, slope, value_at
from featscope.streams import Streams
from featscope.training import Answer, Evaluation, Measurement, Questionnaire


@dataclass(frozen=True)
class FlippedLabels(Questionnaire):
    """The items of a task, each asked at all shares of inverted exemplar labels.

    An item draws its exemplars and the order in which their labels are inverted once, for all shares.

    Attributes:
        learner: a model, see `featscope.language.load_model`; or a hand-set one, "follows", "ignores" or "frequency".
        task: a key of `TASKS`.
        data: where `load_examples` takes them from.
        shots: M, exemplars in a prompt.
        flips: shares of exemplar labels that are inverted, ascending.
        items: of a replica.
        chat: whether prompts are put as a user's message, by the chat template of the model.
        known: share of items on which the learner that ignores exemplars is right.
    """

    learner: str
    task: str
    data: str
    shots: int
    flips: tuple[float, ...]
    items: int
    chat: bool = False
    known: float = 0.75

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """The items."""
        return {"item": range(self.items)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is said of an item, and what is true."""
        flip = {"flip": len(self.flips)}
        return {
            "right": Answer("1 where the true label is the likelier one, 1/2 where both are as likely", axes=flip),
            "margin": Answer("log-likelihood of label 1 less that of label 0", "nat", flip),
            "apart": Answer("of the first item, how far the margin is from that of whole texts, in nats"),
            "truth": Answer("label of the item"),
            "parameters": Answer("parameters of the model; 0 if it is hand-set"),
        }

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, Any]]:
        """Asks an item.

        Raises:
            ConfigError: no such model or data, or fewer examples than asked for.
        """
        draws = Streams(streams.seed, streams.replicas)  # texts are the same on every device
        examples = load_examples(self.task, self.data, draws)
        items, pool, shots = examples.items, examples.pool, self.shots
        require(self, "items", self.items <= len(items), f"at most {len(items)}, what the data have")
        require(self, "shots", shots <= len(pool), f"at most {len(pool)}, what the data have")
        reader = self.reader(examples, draws, str(streams.device))
        chosen = draws.at("items").choice(len(items), self.items)[0].tolist()

        def asked(item: int) -> Mapping[str, Any]:
            query = items[chosen[item]]
            exemplars = [pool[i] for i in draws.at("exemplars", item).choice(len(pool), shots)[0].tolist()]
            order = draws.at("inverted", item).choice(shots, shots)[0].tolist()
            prompts = [ask(examples.task, flipped(exemplars, order, rate), query) for rate in self.flips]
            scores = reader.scores(prompts)
            margin = (scores[:, 1] - scores[:, 0]).double()
            right = rightness(margin, query.label)
            apart = 0.0
            if item == 0 and isinstance(reader, ModelReader):
                one, other = reader.scores_alone(prompts[0]).tolist()
                apart = abs(margin[0].item() - (other - one))
            known = {"truth": query.label, "parameters": reader.parameters, "apart": apart}
            return {"right": right, "margin": margin, **known}

        return asked

    def reader(self, examples: Examples, draws: Streams, device: str) -> Reader:
        """Who is asked."""
        task = examples.task
        truth = {task.shown(texts): label for texts, label in examples.truth.items()}
        if self.learner == "follows":
            return Follower(task.words, truth)
        if self.learner == "ignores":
            sure = (draws.at("beliefs").uniform(len(truth))[0] < self.known).tolist()
            right = dict(zip(truth, sure, strict=True))
            return Ignorer({text: label if right[text] else 1 - label for text, label in truth.items()})
        if self.learner == "frequency":
            return Frequency(task.words)
        return ModelReader(*load_once(self.learner, device), task.words, self.chat)

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """Every margin, and curves over the share of inverted labels."""
        right, margin, truth = (evaluation[name] for name in ("right", "margin", "truth"))
        rates, over, accuracy, at_first = self.flips, ("flip",), right.mean(1), right[..., :1]
        override = (at_first * (1 - right)).sum(1) / at_first.sum(1)
        likely = (margin * (2 * truth[..., None] - 1)).sigmoid().mean(1)
        says_one = 0.5 + 0.5 * margin.sign().mean(1)
        late_change = value_at(accuracy, rates, 1.0) - value_at(accuracy, rates, 0.5)
        crossing = first_fall(accuracy, rates, 0.5)
        overridden = "of the items that are right with no label inverted, the share that is wrong"
        return {
            "margin": evaluation.measure("margin"),
            "truth": evaluation.measure("truth"),
            "apart": Measurement(evaluation["apart"].amax(1), self.answers["apart"].about),
            "accuracy": Measurement(accuracy, "share of items whose true label is the likelier one", over),
            "override": Measurement(override, overridden, over),
            "likely": Measurement(likely, "probability of the true label among the two", over),
            "says_one": Measurement(says_one, "share of items whose likelier label is label 1", over),
            "slope": Measurement(slope(accuracy, rates), "of accuracy over the share of inverted labels"),
            "late_change": Measurement(late_change, "accuracy at 100 % less that at 50 %"),
            "crossing": Measurement(crossing, "share of inverted labels at which accuracy falls to 1/2; NaN if never"),
            "parameters": Measurement(evaluation["parameters"][:, 0], self.answers["parameters"].about),
        }


def rightness(margins: Float[Tensor, " flip"], truth: int) -> Float[Tensor, " flip"]:
    """1 where the likelier label is the true one, 0 where it is not, 1/2 where both are as likely; NaN stays.

    Args:
        margins: log-likelihood of label 1 less that of label 0.
        truth: the true label, 0 or 1.
    """
    return 0.5 + 0.5 * (margins * (2 * truth - 1)).sign()
