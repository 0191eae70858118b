"""What must hold exactly, on small networks with random weights (Section 9.3)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from featscope.language import GemFilter, GemFilterOneRun
from featscope.language.attention import Attention, watched
from featscope.language.selection import scores, select, summed_queries
from featscope.streams import Streams
from featscope.training import Evaluation, Experiment, Measurement

PROMPT, KEEP, LAYERS, FILTER, NEW = 192, 48, 6, 3, 8
_VOCABULARY = 128

ABOUT = {
    "identical": "share of generated tokens that equal full attention's, with every token kept",
    "logit_difference": "largest difference of the logits of the first new token, with every token kept",
    "grouping_error": "largest difference of scores with and without repeated keys, over the largest score",
    "spike": "share of places whose lone spike selects itself and two neighbours on either side",
    "scaled_overlap": "share of the choice that remains when queries are scaled by 1/sqrt(d), 1/3 and 7",
    "softmax_overlap": "share of the choice that remains with a softmax for each head before the sum",
    "cache_excess": "largest difference between entries of a layer's cache and kept tokens, before new ones",
    "position_error": "largest difference between the kept tokens' positions in the second pass and 0 to k - 1",
    "blocks_run": "layers that the first pass runs to their end",
    "projections_run": "layers whose projections the first pass runs",
    "one_run_overlap": "share of the choice that GemFilter-One-Run makes too",
}


def small_model(seed: int) -> Any:
    """A network with grouped queries and random weights."""
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.125,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def build(streams: Streams) -> Evaluation:
    """All checks on one network and one prompt."""
    draws = streams.at("mechanics")
    model = small_model(int(draws.choice(2**20, 1))).to(streams.device)
    prompt = 3 + draws.choice(10**5, PROMPT) % (_VOCABULARY - 3)
    checks: Mapping[str, Callable[[Any, Tensor], float]] = {
        "identical": _identical,
        "logit_difference": _logit_difference,
        "grouping_error": _grouping_error,
        "spike": _spike,
        "scaled_overlap": _scaled_overlap,
        "softmax_overlap": _softmax_overlap,
        "cache_excess": _cache_excess,
        "position_error": _position_error,
        "blocks_run": _blocks_run,
        "projections_run": _projections_run,
        "one_run_overlap": _one_run_overlap,
    }

    def task(check: Callable[[Any, Tensor], float]) -> list[float]:
        with torch.no_grad():
            return [check(model, prompt)]

    return Evaluation([partial(task, check) for check in checks.values()], ("value",), streams)


def measure(experiment: Experiment) -> Mapping[str, Measurement]:
    """What each check found."""
    assert isinstance(experiment, Evaluation)
    values = experiment.found[..., 0]
    return {name: Measurement(values[:, i], (), "1", about) for i, (name, about) in enumerate(ABOUT.items())}


def _identical(model: Any, prompt: Tensor) -> float:
    full = model.generate(prompt, max_new_tokens=NEW, do_sample=False)
    kept = GemFilter(model, FILTER, PROMPT).generate(prompt, max_new_tokens=NEW, do_sample=False)
    return float((full == kept)[:, PROMPT:].double().mean())


def _logit_difference(model: Any, prompt: Tensor) -> float:
    options: dict[str, Any] = {"max_new_tokens": 1, "do_sample": False}
    options |= {"output_logits": True, "return_dict_in_generate": True}
    full = model.generate(prompt, **options).logits[0]
    kept = GemFilter(model, FILTER, PROMPT).generate(prompt, **options).logits[0]
    return float((full - kept).abs().max())


class _At:
    """Queries and keys of one layer."""

    query: Tensor
    key: Tensor

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def before(self, attention: Attention) -> None:
        if attention.layer == self.layer:
            self.query, self.key = attention.query, attention.key

    def after(self, attention: Attention) -> None:
        pass


def _last_row(model: Any, prompt: Tensor) -> tuple[Float[Tensor, "batch head channel"], Tensor]:
    seen = _At(FILTER)
    with watched(model, seen):
        model(prompt, use_cache=False)
    return seen.query[:, :, -1], seen.key


def _every_head(query: Tensor, key: Tensor) -> Float[Tensor, "batch head token"]:
    """Products of each query head with its keys, repeated."""
    repeated = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    return (repeated @ query[..., None])[..., 0]


def _grouping_error(model: Any, prompt: Tensor) -> float:
    query, key = _last_row(model, prompt)
    repeated = _every_head(query, key).sum(1)
    grouped = scores(summed_queries(query[:, :, None], key.shape[1])[:, :, 0], key)
    return float((grouped - repeated).abs().max() / repeated.abs().max())


def _spike(model: Any, prompt: Tensor) -> float:
    spikes = torch.eye(PROMPT, device=prompt.device)[2:-2]
    chosen = select(spikes, torch.ones_like(spikes, dtype=torch.bool), 5)
    around = torch.arange(2, PROMPT - 2, device=prompt.device)[:, None] + torch.arange(-2, 3, device=prompt.device)
    return float((chosen == around).all(1).double().mean())


def _overlap(one: Tensor, other: Tensor) -> float:
    return float(torch.isin(one, other).double().mean())


def _choice(values: Tensor) -> Tensor:
    return select(values, torch.ones_like(values, dtype=torch.bool), KEEP)


def _scaled_overlap(model: Any, prompt: Tensor) -> float:
    query, key = _last_row(model, prompt)
    row = summed_queries(query[:, :, None], key.shape[1])[:, :, 0]
    chosen = _choice(scores(row, key))
    return min(_overlap(chosen, _choice(scores(factor * row, key))) for factor in (key.shape[-1] ** -0.5, 1 / 3, 7.0))


def _softmax_overlap(model: Any, prompt: Tensor) -> float:
    query, key = _last_row(model, prompt)
    products = _every_head(query, key)
    weights = (products * key.shape[-1] ** -0.5).softmax(-1)
    return _overlap(_choice(products.sum(1)), _choice(weights.sum(1)))


def _cache_excess(model: Any, prompt: Tensor) -> float:
    options: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False, "return_dict_in_generate": True}
    output = GemFilter(model, FILTER, KEEP).generate(prompt, **options)
    held = [layer.keys.shape[2] - (NEW - 1) for layer in output.past_key_values.layers]
    return float(max(abs(entries - KEEP) for entries in held))


def _position_error(model: Any, prompt: Tensor) -> float:
    seen: list[Tensor] = []

    def note(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        seen.append(options["position_ids"])

    gem = GemFilter(model, FILTER, KEEP)
    rotary = model.model.rotary_emb.register_forward_pre_hook(note, with_kwargs=True)
    try:
        gem.generate(prompt, max_new_tokens=NEW, do_sample=False)
    finally:
        rotary.remove()
    positions = torch.cat([ids[0] for ids in seen[1:]])  # the first pass comes first
    return float((positions - torch.arange(len(positions), device=positions.device)).abs().max())


def _runs(model: Any, prompt: Tensor, part: Callable[[Any], Any]) -> int:
    """How many layers' ``part`` the first pass runs to its end."""
    ran: list[int] = []
    hooks = [
        part(block).register_forward_hook(lambda module, given, result, i=i: ran.append(i))
        for i, block in enumerate(model.model.layers)
    ]
    GemFilter(model, FILTER, KEEP).select(prompt)
    for hook in hooks:
        hook.remove()
    return len(ran)


def _blocks_run(model: Any, prompt: Tensor) -> float:
    return _runs(model, prompt, lambda block: block)


def _projections_run(model: Any, prompt: Tensor) -> float:
    return _runs(model, prompt, lambda block: block.self_attn.k_proj)


def _one_run_overlap(model: Any, prompt: Tensor) -> float:
    chosen = GemFilter(model, FILTER, KEEP).select(prompt)
    once = GemFilterOneRun(model, KEEP, layer=FILTER).generate(prompt, max_new_tokens=1, do_sample=False).kept
    return _overlap(chosen, once[FILTER, :, 0])
