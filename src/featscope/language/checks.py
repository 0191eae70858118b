"""What must hold exactly where GemFilter reads a prompt, as numbers, on any Llama (dissertation, Section 9.3).

{name: found(case) for name, found in CHECKS.items()}
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.language.attention import Attention
from featscope.language.decoder import cache_of
from featscope.language.first_pass import attention_at
from featscope.language.presets import GemFilter, GemFilterOneRun
from featscope.language.prompt import Prompt
from featscope.language.selection import last_row_scores, select


@dataclass(frozen=True)
class Case:
    """A model, a prompt, and how GemFilter is to read it.

    Attributes:
        model: a Llama, whose modules some checks watch.
        prompt: its tokens, more than ``keep``.
        layer: r, the filter layer.
        keep: k, the tokens kept.
        new: tokens to generate.
    """

    model: Any
    prompt: Int[Tensor, "1 token"]
    layer: int
    keep: int
    new: int = 8

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self.prompt.shape[1]

    @property
    def gemfilter(self) -> GemFilter:
        """The method, by the paper's rule."""
        return GemFilter(self.model, self.layer, self.keep, window=0)

    @property
    def keeping_all(self) -> GemFilter:
        """The method with every token kept."""
        return GemFilter(self.model, self.layer, self.length, window=0)

    @property
    def attention(self) -> Attention:
        """What enters the attention of the filter layer."""
        real = torch.ones_like(self.prompt, dtype=torch.bool)
        return attention_at(self.model, Prompt(self.prompt, real), self.layer)

    def generate(self, method: Any) -> Any:
        """What ``method``, or the model itself, makes of the prompt, with logits and cache."""
        options = {"output_logits": True, "return_dict_in_generate": True}
        return method.generate(self.prompt, max_new_tokens=self.new, do_sample=False, **options)

    def choice(self, values: Float[Tensor, "row token"]) -> Int[Tensor, "row kept"]:
        """The tokens that scores choose."""
        return select(values, torch.ones_like(values, dtype=torch.bool), self.keep)


Check = Callable[[Case], float]
CHECKS: dict[str, Check] = {}
"""Name -> what is measured; its docstring says what that is."""


def check(found: Check) -> Check:
    """Add a function to the table."""
    CHECKS[found.__name__] = found
    return found


@check
def identical(case: Case) -> float:
    """Share of generated tokens that equal full attention's, with every token kept."""
    full, kept = (case.generate(one).sequences for one in (case.model, case.keeping_all))
    return float((full == kept)[:, case.length :].double().mean())


@check
def logit_difference(case: Case) -> float:
    """Largest difference of the logits of the first new token, with every token kept."""
    full, kept = (case.generate(one).logits[0] for one in (case.model, case.keeping_all))
    return float((full - kept).abs().max())


@check
def grouping_error(case: Case) -> float:
    """Largest difference of scores with and without repeated keys, over the largest score."""
    at = case.attention
    repeated = _products(at).sum(1)
    return float((last_row_scores(at.query, at.key) - repeated).abs().max() / repeated.abs().max())


@check
def spike(case: Case) -> float:
    """Share of places whose lone spike selects itself and two neighbours on either side."""
    places = torch.arange(2, case.length - 2)[:, None]
    spikes = torch.eye(case.length)[2:-2]
    chosen = select(spikes, torch.ones_like(spikes, dtype=torch.bool), 5)
    return float((chosen == places + torch.arange(-2, 3)).all(1).double().mean())


@check
def scaled_overlap(case: Case) -> float:
    """Share of the choice that remains when queries are scaled by 1/sqrt(d), 1/3 and 7."""
    at = case.attention
    factors = (1.0, at.query.shape[-1] ** -0.5, 1 / 3, 7.0)
    chosen, *scaled = (case.choice(last_row_scores(factor * at.query, at.key)) for factor in factors)
    return min(_overlap(chosen, other) for other in scaled)


@check
def softmax_overlap(case: Case) -> float:
    """Share of the choice that remains with a softmax for each head before the sum."""
    at = case.attention
    raw = _products(at)
    return _overlap(case.choice(raw.sum(1)), case.choice((at.scaling * raw).softmax(-1).sum(1)))


@check
def cache_excess(case: Case) -> float:
    """Largest difference between entries of a layer's cache and kept tokens, before new ones."""
    cache = cache_of(case.generate(case.gemfilter))
    return float(max(abs(layer.keys.shape[2] - (case.new - 1) - case.keep) for layer in cache.layers))


@check
def position_error(case: Case) -> float:
    """Largest difference between the kept tokens' positions in the second pass and 0 to k - 1."""
    seen: list[Tensor] = []

    def note(module: nn.Module, given: Any, options: dict[str, Any]) -> None:
        seen.append(options["position_ids"][0].cpu())

    hook = case.model.model.rotary_emb.register_forward_pre_hook(note, with_kwargs=True)
    try:
        case.generate(case.gemfilter)
    finally:
        hook.remove()
    positions = torch.cat(seen[1:])  # the first pass comes first
    return float((positions - torch.arange(len(positions))).abs().max())


@check
def blocks_run(case: Case) -> float:
    """Layers that the first pass runs to their end."""
    return _run_by_first_pass(case, case.model.model.layers)


@check
def projections_run(case: Case) -> float:
    """Layers whose projections the first pass runs."""
    return _run_by_first_pass(case, [block.self_attn.k_proj for block in case.model.model.layers])


@check
def one_run_overlap(case: Case) -> float:
    """Share of the choice that GemFilter-One-Run makes too."""
    once = case.generate(GemFilterOneRun(case.model, case.layer, case.keep, window=0)).kept
    return _overlap(case.gemfilter.select(case.prompt), once[case.layer, :, 0])


def _products(at: Attention) -> Float[Tensor, "batch head token"]:
    """Products of the last token's query of each head with its keys, repeated."""
    repeated = at.key.repeat_interleave(at.query.shape[1] // at.key.shape[1], 1)
    return (repeated @ at.query[:, :, -1, :, None])[..., 0]


def _overlap(one: Tensor, other: Tensor) -> float:
    return float(torch.isin(one, other).double().mean())


def _run_by_first_pass(case: Case, modules: Iterable[nn.Module]) -> float:
    ran: list[nn.Module] = []
    hooks = [module.register_forward_hook(lambda module, *_: ran.append(module)) for module in modules]
    try:
        case.gemfilter.select(case.prompt)
    finally:
        for hook in hooks:
            hook.remove()
    return float(len(ran))
