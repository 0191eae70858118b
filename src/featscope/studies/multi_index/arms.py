"""What `multi-index` runs: the closed form, gradients of samples, errors of read-outs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from featscope.data.multi_index import MultiIndex
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.multi_index.asked import ClosedForm, Errors, Shares

FORM = "closed-form"
SPAN, SPAN_CUBIC, SPAN_NONE = "span", "span-cubic", "span-no-hessian"
ERRORS, ERRORS_CUBIC, ERRORS_NONE = "errors", "errors-cubic", "errors-no-hessian"


@dataclass(frozen=True)
class MultiIndexArms(Study):
    """Whether the first gradient finds the few directions that a polynomial is of (dissertation, Section B.5.7).

    Attributes:
        directions: r, at most the 50 neurons whose first gradients are looked at.
        dimensions: d in which gradients are looked at, ascending.
        ratios: n/d² at which they are, ascending.
        repeats: laws and samples at each of them.
        dimension: d of what read-outs are fitted to.
        samples: n of the first step and of the read-out alike.
        widths: m, ascending.
    """

    name = "multi-index"

    directions: int = 2
    dimensions: tuple[int, ...] = (32, 64, 96)
    ratios: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    repeats: int = 4
    dimension: int = 30
    samples: int = 10000
    widths: tuple[int, ...] = (50, 200, 500)

    def __post_init__(self) -> None:
        most = Shares.neurons
        spanned = 1 <= self.directions <= most
        require(self, "directions", spanned, f">= 1 and <= {most}", f"{most} first gradients span no more directions.")
        for name in ("dimensions", "ratios", "widths"):
            values = getattr(self, name)
            ascending = len(values) >= 2 and list(values) == sorted(set(values)) and values[0] > 0
            require(self, name, ascending, "two or more numbers > 0, ascending")
        require(self, "dimensions", self.dimensions[0] > self.directions, f"all > directions = {self.directions}")
        require(self, "ratios", self.ratios[0] * self.dimensions[0] ** 2 >= 10, "such that a sample has 10 or more")
        require(self, "repeats", self.repeats >= 1, ">= 1")
        require(self, "dimension", self.dimension > self.directions, f"> directions = {self.directions}")
        require(self, "samples", self.samples >= 100, ">= 100")

    def smallest(self) -> "MultiIndexArms":
        """Fewer dimensions, samples and neurons."""
        return replace(
            self,
            dimensions=(32, 64),
            ratios=(0.25, 1.0, 4.0, 16.0),
            repeats=1,
            dimension=16,
            samples=4000,
            widths=(30, 100),
        )

    def arms(self) -> Sequence[Arm]:
        """Of quadratic laws, of laws with a cubic part, and of those without Hessian."""

        def ask(name: str, recipe: Any, about: str, label: str, role: Role = "arm") -> Arm:
            return Arm(name, recipe, about, label, role, watch=lambda experiment: {})

        def shares(quadratic: float, cubic: float, linear: float = 0.0) -> Shares:
            data = MultiIndex(self.dimension, self.directions, 0.0, linear, quadratic, cubic)
            return Shares(data, self.dimensions, self.ratios, self.repeats)

        def errors(quadratic: float, cubic: float) -> Errors:
            data = MultiIndex(self.dimension, self.directions, 0.1, 0.3, quadratic, cubic)
            return Errors(data, self.samples, self.widths)

        none = "without Hessian: linear and cubic parts alone"
        return [
            ask(SPAN, shares(1.0, 0.0), "first gradients of a quadratic law, over d and n/d²", "span, quadratic"),
            ask(SPAN_CUBIC, shares(0.5, 0.5), "half of the mean square cubic", "span, half cubic"),
            ask(SPAN_NONE, shares(0.0, 0.5, 0.5), none, "span, no Hessian", "control"),
            ask(
                ERRORS,
                errors(0.6, 0.0),
                "read-outs after the first step and on random features, quadratic law",
                "errors, quadratic",
            ),
            ask(ERRORS_CUBIC, errors(0.4, 0.2), "a cubic part, too", "errors, partly cubic"),
            ask(ERRORS_NONE, errors(0.0, 0.6), f"{none}, and a constant", "errors, no Hessian", "control"),
            ask(FORM, ClosedForm(), "first gradients of samples against the closed form, 12 dimensions", "closed form"),
        ]
