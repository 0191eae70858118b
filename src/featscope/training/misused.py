"""What is told where pruning would leave out weights, or training would, without a word."""

from collections.abc import Mapping

from torch import Tensor, nn

IN_A_PART = (
    "{!r} is a Pruner, which has no parameters: an optimizer and a checkpoint of what holds it lack the weights of the "
    "{} within, unless that is a part, too. Make it one, before the Pruner; or let it stand in the Pruner's place, and "
    "put `with pruner.hidden():` around loss and backward; or give an optimizer its parameters, and save it beside."
)
LEFT_WHOLE = (
    "{} of {} make their weight of other parameters, as by weight_norm, and are left whole: to prune them, take that "
    "off first, by torch.nn.utils.parametrize.remove_parametrizations or, of the older form, remove_weight_norm"
)
_WRITTEN = (
    "{!r} was changed while weights were hidden, and what was changed is lost, as all weights are put back: allowed is "
    "to step the optimizer after `show`, or below `with pruner.hidden():`"
)


def why_lost(module: nn.Module, versions: Mapping[str, int], whole: Mapping[str, Tensor]) -> str:
    """What to say where hidden weights were written into, as by an optimizer; "" where they were not.

    Args:
        module: has the weights, some of them hidden.
        versions: of the weights by their names, as torch counts writes into them, since they were hidden.
        whole: the weights as they were before, by name.
    """
    for name, version in versions.items():
        weight, layer = module.get_parameter(name), module.get_submodule(name.rpartition(".")[0])
        if getattr(layer, "max_norm", None) is not None:  # an embedding, which shortens rows where it looks them up
            continue
        if weight._version != version and bool(((weight != whole[name]) & (weight != 0)).any()):
            return _WRITTEN.format(name)
    return ""
