"""The three parts of reading a long prompt: who chooses tokens, what the others then see, and what is held of it.

A way of reading is one of each (`featscope.language.prefill.Prefill`). What fits these protocols works there, wherever
it is written.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.keep import Keep
from featscope.language.prompt import Prompt


@runtime_checkable
class Selector(Protocol):
    """Chooses tokens of a prompt, one set for all layers."""

    @property
    def keep(self) -> Keep:
        """How many."""

    def require(self, model: PreTrainedModel) -> None:
        """Raise `ConfigError` unless it can choose for ``model``."""

    @property
    def keeps_last(self) -> bool:
        """Whether the prompt's last token is kept in any case."""

    def forced(self) -> int:
        """How many tokens it keeps in any case."""

    def spent(self, model: PreTrainedModel, length: int) -> float:
        """Operations until the choice is made, of a prompt of so many tokens, by `featscope.language.keep`."""

    def select(self, model: PreTrainedModel, prompt: Prompt, keep: int) -> Int[Tensor, "batch kept"]:
        """Places of the kept tokens, ascending; -1 on the left of prompts with fewer."""


@runtime_checkable
class LayerSelector(Selector, Protocol):
    """A selector that looks into the attention of a layer of the model that reads."""

    @property
    def layer(self) -> int:
        """Its number, from 0."""

    @property
    def chunk(self) -> int | None:
        """Tokens that go through a layer at once where it reads by itself; None for all."""

    def choose(self, reached: Attention, prompt: Prompt, keep: int) -> Int[Tensor, "batch kept"]:
        """The choice, given what enters that layer's attention."""


@runtime_checkable
class Cache(Protocol):
    """Which keys and values each layer holds of what it has read."""

    @property
    def keep(self) -> Keep | None:
        """Entries of each layer and key head, on average; None for all, or for those of the chosen tokens.

        A share is one of what is read: of the prompt, or, where `ReadAgain` reads them, of the chosen tokens.
        """

    def require(self, model: PreTrainedModel) -> None:
        """Raise `ConfigError` unless ``model`` can hold that."""

    def forced(self) -> int:
        """How many entries it keeps in any case."""

    def budget(self, keep: int, layer: int, layers: int) -> int:
        """Entries of each key head in ``layer`` of ``layers``, where it is ``keep`` on average."""

    def choose(
        self, attention: Attention, real: Bool[Tensor, "batch token"], keep: int
    ) -> Int[Tensor, "batch kv_head kept"]:
        """Places that the layer keeps, ascending; -1 on the left where a prompt or a head has fewer.

        Args:
            attention: of the layer that has just read more than ``keep`` tokens.
            real: which of them are no padding.
            keep: entries of each key head, on average.
        """


@runtime_checkable
class Propagation(Protocol):
    """What layers see of a prompt of which tokens were chosen."""

    def require(self, model: PreTrainedModel, selector: Selector | None, cache: Cache) -> None:
        """Raise `ConfigError` unless these parts go together."""

    def spent(self, model: PreTrainedModel, selector: Selector, length: int) -> tuple[float, range]:
        """Operations on all tokens of a prompt, by `featscope.language.keep`; which layers read the chosen alone."""

    def generate(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        selector: Selector | None,
        keep: int,
        cache: Cache,
        options: dict[str, Any],
    ) -> Any:
        """What ``model.generate`` returns for ``prompt``, with the attribute ``kept``."""
