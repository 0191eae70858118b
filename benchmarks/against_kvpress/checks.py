"""What is exact, on tiny random models: kinds of model, padding, beams, sampling, kernels, quantised caches.

Each says of a library what came of SnapKV, and of GemFilter where it has that.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.against_kvpress.by_hand import held, masked_logits
from benchmarks.against_kvpress.models import KINDS, prompt, tiny
from benchmarks.against_kvpress.stub import stub
from benchmarks.against_kvpress.ways import GREEDY, KEEP, OURS, WHOLE, agreement, gemfilter, logits_of, outcome, snapkv
from featscope.language import FullCache, GemFilter

Build = Callable[[Any], Any]
Said = dict[str, str]
KERNELS = ("eager", "flex_attention", "flash_attention_2", "kernels-community/flash-attn2")
FOUR_BITS = {"cache_implementation": "quantized", "cache_config": {"backend": "quanto", "nbits": 4}}


def ways(library: str) -> dict[str, Build]:
    """Of a model: SnapKV of a library, and GemFilter."""
    found: dict[str, Build] = {"SnapKV": lambda model: snapkv(library, model, KEEP)}
    return found | {"GemFilter": lambda model: gemfilter(model, KEEP)} if library == OURS else found


def models(library: str) -> dict[str, Said]:
    """By kind of model."""

    def tried(kind: str, build: Build) -> str:
        model = tiny(kind)
        return "not tried: not in this transformers" if model is None else _right(build(model), prompt(), GREEDY)

    return {
        kind: {name: outcome(lambda k=kind, b=build: tried(k, b)) for name, build in ways(library).items()}
        for kind in KINDS
    }


def _right(method: Any, ids: Tensor, options: dict[str, Any]) -> str:
    """Whether logits of all new tokens are those of the slow reference.

    For GemFilter that is the model on what was kept alone, and for its filter layer, with everything kept, the model's
    own generation. For the others it is the whole text with what was dropped masked by hand.
    """
    torch.manual_seed(1)
    out = method.generate(ids, **WHOLE, **options)
    if not isinstance(method, GemFilter):
        expected = masked_logits(method.model, out.sequences, ids.shape[1], held(method, ids))
        return agreement(logits_of(out), expected)
    torch.manual_seed(1)
    alone = method.model.generate(ids[:, out.kept[0]], **WHOLE, **options)
    whole = gemfilter(method.model, ids.shape[1]).generate(ids, **WHOLE, **GREEDY)
    full = method.model.generate(ids, **WHOLE, **GREEDY)
    said = agreement(logits_of(whole), logits_of(full))
    return agreement(logits_of(out), logits_of(alone)) if said == "right" else said


def padding(library: str, batches: int = 8) -> Said:
    """Of rows padded on the left, how many get the logits that they would get alone."""
    control: dict[str, Build] = {"full attention": FullCache}
    return {name: outcome(lambda b=build: _rows(b, batches)) for name, build in (control | ways(library)).items()}


def _rows(build: Build, batches: int) -> str:
    method, lengths, right, rows = build(tiny()), (60, 50, 41, 33), 0, 0
    for number in range(batches):
        prompts = [prompt(length, 4 * number + row) for row, length in enumerate(lengths)]
        padded = torch.cat([pad(ids, (lengths[0] - ids.shape[1], 0)) for ids in prompts])
        out = method.generate(padded, (padded != 0).long(), **WHOLE, **GREEDY)
        for row, ids in enumerate(prompts[1:], 1):
            alone = method.generate(ids, torch.ones_like(ids), **WHOLE, **GREEDY)
            right += agreement(logits_of(out)[row], logits_of(alone)[0]) == "right"
            rows += 1
    return f"{right} of {rows} padded rows"


def beams(library: str) -> Said:
    """Three beams: is the score of the best one that of its tokens, given what was kept."""
    return {name: outcome(lambda b=build: _scored(b(tiny()))) for name, build in ways(library).items()}


def _scored(method: Any) -> str:
    options = {"num_beams": 3, "length_penalty": 0.0, "return_dict_in_generate": True, "output_scores": True, **GREEDY}
    ids = prompt()
    out = method.generate(ids, **options)
    if isinstance(method, GemFilter):
        short = ids[:, out.kept[0]]
        alone = method.model.generate(short, **options)
        same = torch.equal(out.sequences[:, ids.shape[1] :], alone.sequences[:, short.shape[1] :])
        return "right" if same else "wrong: not the answer to what was kept"
    logits = masked_logits(method.model, out.sequences, ids.shape[1], held(method, ids))
    chosen = logits.log_softmax(-1).gather(2, out.sequences[:, ids.shape[1] :, None]).sum()
    off = float((chosen - out.sequences_scores[0]).abs())
    return "right" if off < 1e-3 else f"wrong: its score is off by {off:.2g}"


def sampling(library: str) -> Said:
    """Sampled tokens: do their logits follow from what was kept."""
    options = GREEDY | {"do_sample": True}
    return {
        name: outcome(lambda b=build: _right(b(tiny()), prompt(), options)) for name, build in ways(library).items()
    }


def kernels(library: str) -> dict[str, Said]:
    """By attention function: are logits those of SDPA. FlashAttention is a stub that computes what it is defined as."""
    tried: dict[str, Build] = {"full attention": FullCache} | ways(library)
    return {
        kernel: {name: outcome(lambda b=build, k=kernel: _same_on(b, k)) for name, build in tried.items()}
        for kernel in KERNELS
    }


def _same_on(build: Build, kernel: str) -> str:
    expected = logits_of(build(tiny()).generate(prompt(), **WHOLE, **GREEDY))
    model, flash = tiny(), "flash" in kernel
    torch._dynamo.reset()  # where one way's code does not compile, the next one's would not, either
    with stub(kernel) if flash else nullcontext([]) as ran:
        if flash:
            model.config._attn_implementation_internal = kernel  # `set_attn_implementation` asks for a GPU
        else:
            model.set_attn_implementation(kernel)
        said = agreement(logits_of(build(model).generate(prompt(), **WHOLE, **GREEDY)), expected)
    return said if ran or not flash else "not tried: the stub did not run"


def quantised(library: str) -> Said:
    """A cache of 4 bits (quanto): the first token read from it, beside that of an exact cache."""
    control: dict[str, Build] = {"full attention": FullCache}
    return {name: outcome(lambda b=build: _near(b(tiny()))) for name, build in (control | ways(library)).items()}


def _near(method: Any) -> str:
    exact, rounded = (method.generate(prompt(), **WHOLE, **GREEDY, **options).logits[1] for options in ({}, FOUR_BITS))
    alike = float(torch.corrcoef(torch.cat([exact, rounded]))[0, 1])
    return f"answers: correlation with the exact cache's logits {alike:.2f}"
