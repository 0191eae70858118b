"""One row a sample of what a part of a model puts out, and what is refused as its axes are not the usual ones."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

_NAMED = ("last_hidden_state", "logits")
_ALONG = (nn.Conv1d, nn.ConvTranspose1d)
_IN_MORE = (nn.Conv2d, nn.ConvTranspose2d, nn.Conv3d, nn.ConvTranspose3d)
_OF_MAPS = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.LayerNorm)
_OF_STATES = (nn.Linear, nn.LayerNorm, nn.RMSNorm)
_STACKS = (nn.TransformerEncoder, nn.TransformerDecoder)
_OF_STACKS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def tensor_of(output: Any) -> Tensor:
    """The tensor in what a model puts out.

    Raises:
        ValueError: there is none where one would look for it.
    """
    if isinstance(output, Tensor):
        return output
    for name in _NAMED:
        held = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(held, Tensor):
            return held
    if isinstance(output, list | tuple) and output:
        return tensor_of(output[0])
    raise ValueError(
        f"an output is a {type(output).__name__} without a tensor: say with `reduce` how to make one of it"
    )


def one_row_a_sample(output: Any, batch: Any, part: nn.Module, at: str = "") -> Tensor:
    """Means over places of an image, and over tokens where the batch's attention mask has them; in float32 at least.

    Args:
        output: of ``part``.
        batch: what the model was given.
        part: tells by its layers where in maps of images the channels are.
        at: its name, for errors.

    Raises:
        ValueError: channels may be first or last, or the mask is not of these tokens.
    """
    found = tensor_of(output)
    found = found.to(torch.promote_types(found.dtype, torch.float32))
    if found.ndim == 4:
        return found.mean((1, 2) if _channels_last(part, at, found) else (2, 3))
    if found.ndim == 3:
        while isinstance(batch, list | tuple) and batch:  # what is read first of it, as in `run_model`
            batch = batch[0]
        mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
        if isinstance(mask, Tensor) and mask.shape == found.shape[:2]:
            weight = mask.to(found).unsqueeze(-1)
            return (found * weight).sum(1) / weight.sum(1).clamp_min(1)
        if isinstance(mask, Tensor) and mask.ndim == 2 and not mask.all():
            raise ValueError(
                f"at = {at!r} puts out {list(found.shape)}, and the attention mask has the shape {list(mask.shape)} "
                "and leaves some out: which of the places are padding is not known. Allowed is a mask of the shape "
                f"{list(found.shape[:2])}. Say with `reduce` how to make one row a sample, or leave padding out."
            )
        return found.mean(1)
    return found


def _channels_last(part: nn.Module, at: str, maps: Float[Tensor, "sample a b c"]) -> bool:
    """Whether maps of an image are [sample, row, column, channel]: the last layer that mixes channels tells."""
    last = next((layer for layer in reversed(list(part.modules())) if isinstance(layer, _OF_MAPS)), None)
    if isinstance(last, nn.Linear):
        width = last.out_features
    elif isinstance(last, nn.LayerNorm) and len(last.normalized_shape) == 1:
        (width,) = last.normalized_shape
    else:
        return False
    if width == maps.shape[1] == maps.shape[-1]:
        raise ValueError(
            f"at = {at!r} puts out {list(maps.shape)}, whose channels may be first or last: allowed without `reduce` "
            "are maps whose shape tells. Give reduce=lambda maps: maps.mean((2, 3)) for channels first, and "
            "maps.mean((1, 2)) for channels last."
        )
    return width == maps.shape[-1]


def refuse_maps(part: nn.Module, at: str, output: Any) -> None:
    """Refuse [sample, channel, place], as one-dimensional convolutions put it out: token states have channels last.

    The last layer that mixes channels says which it is, and where in the shape they are: a transformer may begin with
    convolutions, or turn what one puts out.
    """
    layers = [layer for layer in part.modules() if _width(layer)]
    channels = [_width(layer) for layer in layers if isinstance(layer, _ALONG)]
    if not channels or not isinstance(output, Tensor) or output.ndim != 3:
        return
    last, (_, middle, end) = layers[-1], output.shape
    if isinstance(last, _ALONG):
        maps = end != _width(last) or middle == end
    else:
        maps = end != _width(last) and middle in channels
    if maps:
        raise ValueError(
            f"at = {at!r} puts out {list(output.shape)}, [sample, channel, place] of a Conv1d: allowed without "
            "`reduce` is [sample, place, channel]. Give reduce=lambda maps: maps.mean(-1)."
        )


def refuse_other_axes(part: nn.Module, at: str, output: Any, run: Callable[[], object]) -> None:
    """Refuse states whose samples lie along the second axis, and [sample, channel, place] of maps that were flattened.

    It warns where the first two axes are as long as one another, and which is which cannot be told.

    Args:
        part: tells by the layers that run within.
        at: its name, for errors.
        output: what it puts out.
        run: runs the model again on what gave ``output``, if need be.
    """
    states = tensor_of(output)
    if states.ndim != 3:
        return
    shape = list(states.shape)
    maps, layer, axes = (None, part, shape[:2]) if _sequence_first(part) else _seen_within(part, run)
    if isinstance(output, Tensor) and maps is not None and maps.shape[1] == shape[1]:
        if torch.equal(maps.flatten(2).mT.to(output), output):  # as many channels as places
            return
        raise ValueError(
            f"at = {at!r} puts out {shape}, [sample, channel, place] of maps that were flattened: allowed without "
            "`reduce` is [sample, place, channel]. Give reduce=lambda maps: maps.mean(-1)."
        )
    if layer is None or axes != shape[:2]:
        return
    of = f"at = {at!r} puts out {shape}, and {type(layer).__name__} has batch_first=False: "
    if layer is part or axes[0] != axes[1]:
        mean = "states: states.mean(0)" if isinstance(output, Tensor) else "output: output[0].mean(0)"
        raise ValueError(
            f"{of}samples lie along the second axis. Allowed without `reduce` is [sample, place, channel]. Give "
            f"reduce=lambda {mean}, and held_out with samples first; turn these in `run`, if the model does not."
        )
    warnings.warn(
        f"{of}samples may lie along the second axis, and are taken to lie along the first. Say with `reduce` how to "
        "make one row a sample, or give batches of another size, which tell.",
        stacklevel=2,
    )


def _seen_within(part: nn.Module, run: Callable[[], object]) -> tuple[Tensor | None, nn.Module | None, list[int]]:
    """What layers within ``part`` put out.

    Returns:
        the last maps of several axes, None where states of tokens come after them; and the last layer that takes
        samples to lie along the second axis, or None, with the lengths of the first two axes of what it puts out.
    """
    maps, last, axes = None, None, list[int]()
    layers = [layer for layer in part.modules() if layer is not part]
    if not any(isinstance(layer, _IN_MORE) or _sequence_first(layer) for layer in layers):
        return maps, last, axes

    def see(layer: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal maps, last, axes
        found = output[0] if isinstance(output, tuple) and output else output
        if not isinstance(found, Tensor):
            return
        if found.ndim >= 4:
            maps = found.clone()  # what comes next may work in place
        elif found.ndim == 3 and isinstance(layer, _OF_STATES):
            maps = None
        if found.ndim == 3 and _sequence_first(layer):
            last, axes = layer, list(found.shape[:2])

    hooks = [layer.register_forward_hook(see) for layer in layers]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return maps, last, axes


def _sequence_first(layer: nn.Module) -> bool:
    """Whether a layer takes samples to lie along the second axis."""
    if isinstance(layer, _STACKS) and len(layer.layers):
        layer = layer.layers[0]
    if isinstance(layer, _OF_STACKS):
        layer = layer.self_attn
    return getattr(layer, "batch_first", True) is False


def _width(layer: nn.Module) -> int:
    """How many channels a layer that mixes them puts out; 0 for any other layer."""
    if isinstance(layer, _ALONG):
        return layer.out_channels
    if isinstance(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, nn.RNNBase):
        return (layer.proj_size or layer.hidden_size) * (1 + layer.bidirectional)
    return 0
