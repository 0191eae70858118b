"""Whether a module does in training what its class says: the closed forms of gradients stand in for that alone."""

from torch import nn


def hooked(module: nn.Module) -> bool:
    """Whether somebody hooked into its passes or the gradients of its parameters, or gave it a forward of its own."""
    passes = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    names = "_backward_hooks", "_post_accumulate_grad_hooks"
    gradients = [getattr(one, name, None) for one in module.parameters() for name in names]
    return any(passes) or any(gradients) or "forward" in vars(module)
