"""What the studies of in-context learning share: language models by size, and hand-set ones that are known exactly.

P is the dissertation's Chapter 5.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar

import xarray as xr

from featscope.claims import Found
from featscope.options import NAME, alike, is_name, require
from featscope.studies.base import Runs, Study
from featscope.training import Questionnaire

LARGE = 1e9
"""Parameters from which what P found of models is expected; below, not even a large model is expected to follow
exemplars. P's have 3, 7, 13 and 70 billion."""
EXACT = 1e-6


@dataclass(frozen=True)
class OfModels(Study):
    """A study of language models of several sizes. Hand-set ones stand for the smallest and the largest of them.

    Attributes:
        models: smallest first; "retriever" for the small one of the package featscope-retriever, folders, or models of
            the Hub.
        data: where texts are from.
    """

    default_replicas = 5
    hand_set: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Arms of hand-set models: a label, and what they are."""
    stand_for: ClassVar[tuple[str, str]] = ("", "")
    """Those that stand for the smallest and for the largest model."""

    models: tuple[str, ...] = ("retriever",)
    data: str = "made-up"

    def __post_init__(self) -> None:
        short, taken = self.short_names, tuple(self.hand_set)
        distinct = not alike([*short, *taken])
        allowed = f"names with different last parts (not by capitals alone) of {NAME}, none of {taken}"
        require(self, "models", bool(short) and all(map(is_name, short)) and distinct, allowed)

    @property
    def short_names(self) -> list[str]:
        """The last part of each model's name or of its folder's path, which can be in a file's name."""
        return [PurePath(model).name for model in self.models]

    def by_size(self, runs: Runs, layout: str = "") -> list[str]:
        """The models' arms of one layout, smallest model first by what was counted."""
        return sorted((name + layout for name in self.short_names), key=lambda arm: parameters(runs[arm]))

    def compared(
        self, runs: Runs, arm: str, of: Callable[[xr.Dataset], xr.DataArray], layout: str = "", decides: int = -1
    ) -> Found | None:
        """What ``arm`` has more than the smallest model, if it is of the largest; hand-set ones stand for them.

        Args:
            runs: all arms.
            arm: the one in question.
            of: what is compared.
            layout: of the models' arms.
            decides: place by size of the model that must be large for the claim to be expected.
        """
        if arm in self.hand_set:
            small, large = self.stand_for
            return Found(of(runs[large]) - of(runs[small]))
        sized = self.by_size(runs, layout)
        if len(sized) == 1 or arm != sized[-1]:
            return None
        return of_large(of(runs[arm]) - of(runs[sized[0]]), runs[sized[decides]], f"Compared with {sized[0]}. ")


def questionnaire(name: str) -> Callable[..., Questionnaire]:
    """What arms ask, by its name in `featscope.language.in_context`; needs the extra 'language'."""
    from featscope.language import in_context

    return getattr(in_context, name)


def models_and(hand_set: str = "", said: str = "", layout: str = "") -> Callable[[OfModels], Mapping[str, str]]:
    """The arms of all models, among which a claim may choose, and a hand-set one with what is said of it."""
    return lambda study: {name + layout: "" for name in study.short_names} | ({hand_set: said} if hand_set else {})


def parameters(run: xr.Dataset) -> float:
    """Of the model of an arm; 0 if it is hand-set."""
    return float(run.parameters[0])


def of_large(measured: xr.DataArray, run: xr.Dataset, why: str = "") -> Found:
    """What was measured, expected if the model of ``run`` is large."""
    size = f"Expected from {LARGE:,.0f} parameters on; this model has {parameters(run):,.0f}."
    return Found(measured, why + size, expected=parameters(run) >= LARGE)
