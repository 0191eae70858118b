"""What `icl-attention` shows to whom: options, language models with several layouts of a prompt, hand-set readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from featscope.options import require
from featscope.studies.base import Arm, Role
from featscope.studies.icl import OfModels, questionnaire
from featscope.training import Later

CORRECT, WRONG = "-correct", "-wrong"
SWAPPED, UNRELATED = "-swapped", "-unrelated"
LAYOUTS: Mapping[str, tuple[str, str, Role]] = {
    CORRECT: ("right label", "the right label", "arm"),
    WRONG: ("wrong label", "the wrong label", "arm"),
    SWAPPED: ("irrelevant one first", "the right label, and the irrelevant sentence first", "arm"),
    UNRELATED: (
        "two irrelevant ones",
        "the right label, and another irrelevant sentence in place of the relevant one",
        "reference",
    ),
}
"""What a model's arms end in, their label, what they show, and what they are for."""
UNIFORM, FOCUSED = "uniform", "focused"
WEIGHTS: Mapping[str, float] = {UNIFORM: 1.0, FOCUSED: 0.1}
"""w, the weight of a hand-set reader on what is not the relevant sentence, which has 1."""


@dataclass(frozen=True)
class AttentionArms(OfModels):
    """What a label attends to, of its own sentence and an irrelevant one (dissertation, Section 5.6.2, Figure 5.3).

    A prompt is a sentence, an irrelevant one after it, and a label, which ends it. A replica has its own prompts, the
    same for all models and labels.

    Attributes:
        data: of sst2: "made-up" for sentences from a small grammar; "hub"; a folder with train.tsv and dev.tsv; or one
            .tsv file.
        irrelevant: irrelevant sentences: "made-up" for those of a small grammar, or a text file with one a line.
        prompts: in a replica; the paper's are 100.
    """

    name = "icl-attention"
    hand_set: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: (f"{name} weights", f"hand-set weights: 1 on the relevant sentence, {weight:g} elsewhere")
        for name, weight in WEIGHTS.items()
    }
    stand_for = (FOCUSED, UNIFORM)

    irrelevant: str = "made-up"
    prompts: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "prompts", self.prompts >= 1, ">= 1")

    def smallest(self) -> "AttentionArms":
        """One prompt."""
        return replace(self, prompts=1)

    def arms(self) -> Sequence[Arm[Later]]:
        """Models with both labels and with two other layouts, then hand-set readers."""
        options = {"data": self.data, "irrelevant": self.irrelevant, "prompts": self.prompts}

        def arm(name: str, label: str, about: str, role: Role, **of: Any) -> Arm[Later]:
            recipe = Later(partial(questionnaire, "SentencePairs"), self.prompts, options | of)
            return Arm(name, recipe, about, label, role)

        models = [
            arm(short + kind, f"{short}, {label}", f"{model}: {about}", role, model=model, layout=kind[1:])
            for short, model in zip(self.short_names, self.models, strict=True)
            for kind, (label, about, role) in LAYOUTS.items()
        ]
        return models + [
            arm(name, *self.hand_set[name], "reference", model=name, weight=WEIGHTS[name]) for name in WEIGHTS
        ]
