"""Published ways of reading a long prompt, by name: each is three parts of `featscope.language.prefill.Prefill`.

All take the model first, then the layer that chooses where one does, how much is kept and the window; the rest by name.
An option out of range is a `ConfigError` at once, and so is a model that the parts cannot read.
"""

from collections.abc import Sequence
from typing import Any

from featscope.language.caches import AllQueries, HeadBudgets, LastQueries, Selected
from featscope.language.keep import Keep
from featscope.language.parts import Cache
from featscope.language.prefill import Prefill
from featscope.language.propagation import KeepHidden, ReadAgain, WholePrompt
from featscope.language.selection import Pool, Row
from featscope.language.selectors import AttentionWindow, Draft, FilterLayer


class FullCache(Prefill):
    """The model's own generation, with every key and value kept."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)


class GemFilter(Prefill):
    """An early layer chooses, then the whole model reads the choice (dissertation, Chapter 9, Algorithm 2).

    `FilterLayer`, `ReadAgain` at positions 0 to keep - 1, and a full cache, or another in the second pass. ``window=0``
    is the algorithm's own rule, which ranks by the last query alone.

    Args:
        model: a decoder with rotary embedding.
        layer: the layer that chooses, from 0 on; `choose_layer` finds one.
        keep: tokens that are read again.
        window: last tokens, which are kept, as questions stand there.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        force_keep: positions that are kept whatever their score; negative ones count from the end.
        row: the query that ranks, where there is no window.
        chunk: tokens that layers read at a time, which takes less memory; None for all.
        cache: what the second pass holds; None for all that it reads.
    """

    def __init__(
        self,
        model: Any,
        layer: int,
        keep: Keep,
        window: int = 32,
        *,
        pool: Pool = "avg",
        kernel: int = 5,
        force_keep: Sequence[int] = (),
        row: Row = "last",
        chunk: int | None = None,
        cache: Cache | None = None,
    ) -> None:
        rule = FilterLayer(layer, keep, window, pool, kernel, force_keep, chunk=chunk, row=row)
        super().__init__(model, rule, ReadAgain(), cache)


class GemFilterOneRun(Prefill):
    """GemFilter's choice without its second pass: all layers read everything, then hold the choice (Section G.4.5).

    Args:
        model: a decoder with rotary embedding.
        layer: the layer that chooses, from 0 on.
        keep: tokens that every layer holds.
        window: last tokens, which are kept.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        force_keep: positions that are kept whatever their score.
    """

    def __init__(
        self,
        model: Any,
        layer: int,
        keep: Keep,
        window: int = 32,
        *,
        pool: Pool = "avg",
        kernel: int = 5,
        force_keep: Sequence[int] = (),
    ) -> None:
        super().__init__(model, FilterLayer(layer, keep, window, pool, kernel, force_keep), WholePrompt(), Selected())


class SnapKV(Prefill):
    """All layers read everything, then hold what the last queries attend to (arXiv 2404.14469).

    Args:
        model: a decoder.
        keep: entries that each layer and key head holds.
        window: last tokens, whose queries choose, and which are kept.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
    """

    def __init__(self, model: Any, keep: Keep, window: int = 32, *, pool: Pool = "avg", kernel: int = 5) -> None:
        super().__init__(model, cache=LastQueries(keep, window, pool=pool, kernel=kernel))


class H2O(Prefill):
    """All layers read everything, then hold what all queries attend to (arXiv 2306.14048).

    Args:
        model: a decoder.
        keep: entries that each layer and key head holds.
        recent: last tokens, which are kept.
    """

    def __init__(self, model: Any, keep: Keep, recent: int = 32) -> None:
        super().__init__(model, cache=AllQueries(keep, recent))


class AdaKV(Prefill):
    """SnapKV with a budget for each head (Ada-SnapKV, arXiv 2407.11550).

    Args:
        model: a decoder with full attention.
        keep: entries that a layer's key heads hold on average.
        window: last tokens, whose queries choose, and which are kept.
        floor: share of the average that a head has at least.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
    """

    def __init__(
        self, model: Any, keep: Keep, window: int = 32, *, floor: float = 0.2, pool: Pool = "avg", kernel: int = 5
    ) -> None:
        super().__init__(model, cache=HeadBudgets(LastQueries(keep, window, pool=pool, kernel=kernel), floor))


class FastKV(Prefill):
    """One pass: what the last queries of ``layer`` attend to goes on, and SnapKV holds a part (arXiv 2502.01068).

    Args:
        model: a decoder with rotary embedding.
        layer: the layer of token-selective propagation.
        keep: tokens whose hidden states go on above it.
        entries: what each layer and key head holds, of all tokens below and of the chosen ones above.
        window: last tokens, whose queries choose in both, and which are kept.
        pool: how scores of neighbours are pooled, in both.
        kernel: neighbours that are pooled, an odd number.
    """

    def __init__(
        self,
        model: Any,
        layer: int,
        keep: Keep,
        entries: Keep,
        window: int = 32,
        *,
        pool: Pool = "avg",
        kernel: int = 5,
    ) -> None:
        held = LastQueries(entries, window, pool=pool, kernel=kernel)
        super().__init__(model, AttentionWindow(layer, keep, window, pool, kernel), KeepHidden(), held)


class PromptDistill(Prefill):
    """One pass: what the last query of ``layer`` likes goes on, and is held in the layers below (arXiv 2503.23274).

    ``window=1`` is the paper's, which keeps the last token.

    Args:
        model: a decoder with rotary embedding.
        layer: the layer that chooses.
        keep: tokens whose hidden states go on above it.
        window: last tokens, which are kept.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        later: further stages: layers above, from below, and how many of the tokens that still go on each keeps.
    """

    def __init__(
        self,
        model: Any,
        layer: int,
        keep: Keep,
        window: int = 32,
        *,
        pool: Pool = "avg",
        kernel: int = 5,
        later: Sequence[tuple[int, Keep]] = (),
    ) -> None:
        first, *others = (FilterLayer(at, of, window, pool, kernel) for at, of in ((layer, keep), *later))
        super().__init__(model, first, KeepHidden(tuple(others)), Selected())


class SpeculativePrefill(Prefill):
    """A small model chooses, then the whole model reads the choice at its own positions (arXiv 2502.02789).

    Args:
        model: a decoder with rotary embedding.
        draft: the small model, of the same vocabulary.
        keep: tokens that are read again.
        window: last tokens, which are kept.
        rule: options of `Draft`, such as ``look_ahead``.
    """

    def __init__(self, model: Any, draft: Any, keep: Keep, window: int = 32, **rule: Any) -> None:
        super().__init__(model, Draft(draft, keep, window=window, **rule), ReadAgain("original"))
