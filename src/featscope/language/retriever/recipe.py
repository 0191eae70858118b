"""How the retriever is made: its options."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from featscope.options import require


@dataclass(frozen=True)
class TrainingStage:
    """Some steps at one length.

    Attributes:
        length: tokens in a sequence.
        steps: optimizer steps.
        copies: whether sequences are random tokens that repeat, instead of text with needles.
    """

    length: int
    steps: int
    copies: bool = False


@dataclass(frozen=True)
class TrainingPlan:
    """How the model is made.

    Attributes:
        essays: folder of .txt files.
        out: folder that receives model and tokenizer, and a checkpoint while it trains.
        vocabulary: tokens of the byte-pair encoding.
        width: of the model.
        layers: of the model.
        heads: query heads; half as many key-value heads.
        context: positions that the model accepts; far more than it is trained on, so that it can be seen to fail.
        stages: lengths and steps.
        tokens: in a batch.
        lr: peak learning rate of AdamW; warms up over 200 steps, falls to 0 along a cosine.
        language: weight of the loss of all tokens.
        seed: of the weights and of all batches.
    """

    essays: tyro.conf.Positional[Path]
    out: Path
    vocabulary: int = 2048
    width: int = 128
    layers: int = 4
    heads: int = 4
    context: int = 8192
    stages: tuple[TrainingStage, ...] = (
        TrainingStage(64, 600, copies=True),
        TrainingStage(96, 200),
        TrainingStage(192, 400),
        TrainingStage(384, 800),
        TrainingStage(768, 1400),
    )
    tokens: int = 4096
    lr: float = 3e-3
    language: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        texts = len(list(self.essays.glob("*.txt")))
        require(self, "essays", texts >= 2, "a folder with two .txt files or more", "One in six is held out.")
        require(self, "stages", bool(self.stages), "one stage or more")
        longest = max(stage.length for stage in self.stages)
        require(self, "tokens", self.tokens >= longest, f">= {longest}, the longest sequence")
        require(self, "context", self.context >= longest, f">= {longest}, the longest sequence")

    @property
    def steps(self) -> int:
        """Of all stages."""
        return sum(stage.steps for stage in self.stages)

    def schedule(self) -> Iterator[TrainingStage]:
        """The stage of each step."""
        return (stage for stage in self.stages for _ in range(stage.steps))

    def plain(self) -> dict[str, Any]:
        """The recipe as JSON can hold it, without places of this machine."""
        return asdict(self) | {"essays": self.essays.name, "out": None}
