"""What `icl-flipped-labels` asks of whom: options, language models, and hand-set learners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, get_args

from featscope.options import require
from featscope.studies.base import Arm, Role
from featscope.studies.icl import OfModels, questionnaire
from featscope.training import Later

TaskName = Literal["sst2", "subj", "mr", "cr", "trec", "cola", "mrpc", "qqp", "rte", "qnli", "wnli"]

FOLLOWS, IGNORES, FREQUENCY = "follows", "ignores", "frequency"
KNOWN = 0.75
"""Share of items on which the learner that ignores exemplars is right."""


@dataclass(frozen=True)
class FlippedLabelsArms(OfModels):
    """What inverted exemplar labels do to in-context learning (dissertation, Section 5.6, Figures 5.1 and 5.2).

    A replica is one of the paper's seeds: it has its own items and exemplars, the same for all models. An item draws
    its exemplars and the order in which their labels are inverted once, for all shares.

    Attributes:
        data: "made-up" for sentences from a small grammar (sst2 only); "hub" for GLUE from the Hub; a folder with
            train.tsv (exemplars) and dev.tsv (items); a folder with subj.all, rt-polarity.all (mr), custrev.all (cr),
            or TREC.train.all and TREC.test.all (trec), of a label, a blank and a sentence a line; or one .tsv file. A
            single file is halved at random.
        task: what is asked. Of trec's six kinds of questions there are two, for a person and for a place.
        shots: M, exemplars in a prompt.
        flips: shares of exemplar labels that are inverted, from 0 to 1.
        items: evaluation items of a replica; the paper's are 1000.
        chat: whether prompts are put as a user's message, by the chat template of the model.
    """

    name = "icl-flipped-labels"
    hand_set: ClassVar[Mapping[str, tuple[str, str]]] = {
        FOLLOWS: ("follows exemplars", "takes from the exemplars which word goes with which meaning"),
        IGNORES: ("ignores exemplars", f"knows {KNOWN:.0%} of the items and ignores the exemplars"),
        FREQUENCY: ("frequent label", "says the exemplars' more frequent label"),
    }
    stand_for = (IGNORES, FOLLOWS)

    task: TaskName = "sst2"
    shots: int = 16
    flips: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    items: int = 50
    chat: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "task", self.task in get_args(TaskName), f"one of {', '.join(get_args(TaskName))}")
        require(self, "shots", self.shots >= 1, ">= 1")
        ascending = all(a < b for a, b in zip(self.flips, self.flips[1:], strict=False))
        ends = len(self.flips) > 1 and self.flips[0] == 0 and self.flips[-1] == 1
        require(self, "flips", ascending and ends, "ascending shares from 0 to 1")
        require(self, "items", self.items >= 1, ">= 1")

    def smallest(self) -> "FlippedLabelsArms":
        """One item, few exemplars."""
        return replace(self, shots=4, items=1)

    def arms(self) -> Sequence[Arm[Later]]:
        """Models, then hand-set learners."""
        fields = ("task", "data", "shots", "flips", "items", "chat")
        options = {name: getattr(self, name) for name in fields} | {"known": KNOWN}

        def arm(name: str, learner: str, label: str, about: str, role: Role) -> Arm[Later]:
            recipe = Later(partial(questionnaire, "FlippedLabels"), self.items, {"learner": learner, **options})
            return Arm(name, recipe, about, label, role)

        named, hand_set = zip(self.short_names, self.models, strict=True), self.hand_set.items()
        return [
            *(arm(short, model, short, f"the language model {model}", "arm") for short, model in named),
            *(
                arm(name, name, label, f"a hand-set learner that {does}", "reference")
                for name, (label, does) in hand_set
            ),
        ]
