"""How a retriever was made, as `training.json` beside its weights has it."""

from collections.abc import Iterator
from typing import Any


def trainings(made: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """All that went into a model: each training, and those of what it went on from."""
    if made is None:
        return
    if "mean of" in made:
        for one in made["mean of"]:
            yield from trainings(one)
    else:
        yield made
        yield from trainings(made["recipe"].get("weights"))
