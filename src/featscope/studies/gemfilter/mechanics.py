"""What must hold exactly, on a small network with random weights (P Section 9.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from featscope.language.checks import CHECKS, Case
from featscope.language.random_models import random_model
from featscope.streams import Streams
from featscope.theory.token_selection import Geometry
from featscope.training import Answer, Questionnaire
from featscope.training.evaluation import Ask

GEOMETRY = Geometry(layers=6, heads=8, kv_heads=2, channels=8, width=64, hidden=128, vocabulary=128)
PROMPT, FILTER, KEEP = 192, 3, 48  # n, r, k


@dataclass(frozen=True)
class Mechanics(Questionnaire):
    """One question, which all checks answer: a network, and a prompt of random tokens."""

    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    answers: ClassVar[Mapping[str, Answer]] = {name: Answer(found.__doc__ or "") for name, found in CHECKS.items()}

    def asker(self, streams: Streams) -> Ask:
        """Draws network and prompt."""
        draws = streams.at("mechanics")
        model = random_model(GEOMETRY, 1024, draws, spread=0.125)
        prompt = 3 + draws.choice(10**5, PROMPT) % (GEOMETRY.vocabulary - 3)
        case = Case(model, prompt, FILTER, KEEP)
        return lambda: {name: found(case) for name, found in CHECKS.items()}
