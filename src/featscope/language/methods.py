"""The table of ways to read a long prompt, from which command line, studies and benchmarks build them by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from transformers import PreTrainedModel

from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, require_folder
from featscope.language.method import Method
from featscope.language.presets import H2O, FullCache, GemFilter, GemFilterOneRun, SnapKV
from featscope.options import ConfigError, require

MethodName = Literal["full", "gemfilter", "question-kept", "snapkv", "h2o", "one-run", "middle-row", "largest-row"]


@dataclass(frozen=True)
class Reading:
    """How much of a prompt is kept, and by what.

    Attributes:
        layer: r, the layer that chooses for GemFilter, from 0.
        keep: k, tokens (for SnapKV and H2O: entries of each layer and key head) that are kept.
        window: last tokens that SnapKV, H2O and question-kept keep in any case.
    """

    layer: int
    keep: int
    window: int = 32

    def build(self, name: str, model: PreTrainedModel) -> Method:
        """The method called ``name`` on ``model``.

        Raises:
            ConfigError: no method has that name.
        """
        if name not in METHODS:
            raise ConfigError(f"method = {name!r} is unknown: allowed is one of {', '.join(METHODS)}")
        return METHODS[name].build(self, model)

    def about(self, name: str) -> str:
        """What it does, in a sentence."""
        return METHODS[name].about.format(layer=self.layer, keep=self.keep, window=self.window)


def reading_of(options: Any, *, needs_layer: bool = True) -> Reading:
    """What options called ``model``, ``layer``, ``keep`` and ``window`` say; the retriever has a layer of its own.

    Args:
        options: of a study, say.
        needs_layer: whether there is a method in it for which a layer chooses.

    Raises:
        ConfigError: one of them is out of range.
    """
    given = options.layer is not None or options.model == RETRIEVER or not needs_layer
    if not given:
        require_folder(options.model)  # a layer of what is not there cannot be chosen
    cure = "choose_layer finds one for your model."
    require(options, "layer", given and (options.layer or 0) >= 0, f">= 0 where --model = {options.model!r}", cure)
    require(options, "window", options.window >= 1, ">= 1")
    require(options, "keep", options.keep > options.window, f"> window = {options.window}")
    return Reading(RETRIEVER_LAYER if options.layer is None else options.layer, options.keep, options.window)


class Listed(NamedTuple):
    """A row of the table.

    Attributes:
        label: two or three words.
        about: what it does, in a sentence with the numbers of a `Reading`.
        build: makes it on a model.
    """

    label: str
    about: str
    build: Callable[[Reading, PreTrainedModel], Method]


METHODS: Mapping[str, Listed] = {
    "full": Listed("full attention", "Full attention.", lambda of, model: FullCache(model)),
    "gemfilter": Listed(
        "GemFilter",
        "GemFilter by the paper's rule: layer {layer} chooses {keep} tokens.",
        lambda of, model: GemFilter(model, of.layer, of.keep, window=0),
    ),
    "question-kept": Listed(
        "question kept",
        "GemFilter with the last {window} of its {keep} tokens kept in any case.",
        lambda of, model: GemFilter(model, of.layer, of.keep, of.window),
    ),
    "snapkv": Listed(
        "SnapKV",
        "SnapKV: every layer and head keeps {keep} entries: the last {window}, and what they attend to.",
        lambda of, model: SnapKV(model, of.keep, window=of.window),
    ),
    "h2o": Listed(
        "H2O",
        "H2O: every layer and head keeps {keep} entries: the last {window}, and what all tokens attend to.",
        lambda of, model: H2O(model, of.keep, recent=of.window),
    ),
    "one-run": Listed(
        "one run",
        "One run: all layers read the prompt, then each keeps the {keep} entries that layer {layer} chooses.",
        lambda of, model: GemFilterOneRun(model, of.keep, layer=of.layer, window=0),
    ),
    "middle-row": Listed(
        "middle row",
        "GemFilter, but the prompt's middle token chooses (dissertation, Section 9.4.4).",
        lambda of, model: GemFilter(model, of.layer, of.keep, window=0, row="middle"),
    ),
    "largest-row": Listed(
        "largest row",
        "GemFilter, but the row of scores with the largest norm chooses.",
        lambda of, model: GemFilter(model, of.layer, of.keep, window=0, row="largest"),
    ),
}
