"""Activations that are computed anew in the backward pass, when hidden weights would be whole again."""

import torch
from torch import nn

_CHECKPOINTING = "gradient_checkpointing", "grad_checkpointing"
"""Where parts of transformers and of timm keep whether activations are computed anew in the backward pass."""


def require_no_checkpointing(module: nn.Module) -> None:
    """Raise `ValueError` where, with gradients, a part of the module says that it does so."""
    if not torch.is_grad_enabled():
        return
    for name, part in module.named_modules():
        for switch in _CHECKPOINTING:
            if getattr(part, switch, False) is True:
                raise ValueError(
                    f"{name or type(part).__name__!r} has {switch} = True, which computes activations anew in the "
                    "backward pass, where weights are whole again: allowed is False. Or use `with pruner.hidden():` "
                    "around loss and backward, and call the module itself there."
                )
