"""Similarities whose value a pruned network gives and whose gradient the whole one (P, Algorithm 1 and equation 5).

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning Solution.
"""

from typing import Any, NamedTuple, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.numbers import require_tensor

_CURE = (
    "a pair of representations, with and without the pruned weights, was given where one tensor is wanted: only a loss "
    "of inner products such as InfoNCE takes it. For a head or any other loss, prune with gradient='straight-through' "
    "(and granularity='entry'), which gives one tensor."
)


class Masked(NamedTuple):
    """Representations of one batch by a network with and without its pruned weights.

    Attributes:
        pruned: with the pruned weights masked; a constant.
        dense: with all weights.

    Raises:
        TypeError, AttributeError: it was given to a head, or to anything else that takes one tensor; the message
            names the cure.
    """

    pruned: Float[Tensor, "*replica batch neuron"]
    dense: Float[Tensor, "*replica batch neuron"]

    @classmethod
    def __torch_function__(cls, *_: Any) -> NoReturn:
        raise TypeError(_CURE)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: {_CURE}" if hasattr(Tensor, name) else name)


Representations = Float[Tensor, "*replica batch neuron"] | Masked


def require_pairs(anchor: Representations, positive: Representations) -> None:
    """See that each anchor has a positive of its own; replicas may share theirs.

    Raises:
        TypeError: one is no tensor.
        ValueError: shapes differ.
    """
    one, other = (part.dense if isinstance(part, Masked) else part for part in (anchor, positive))
    require_tensor(one)
    require_tensor(other)
    if one.shape[-2:] != other.shape[-2:]:
        raise ValueError(
            f"anchor and positive have shapes {list(one.shape)} and {list(other.shape)}: expected one shape, as each "
            "row of one is the partner of the row in the same place of the other"
        )


def require_rows(name: str, rows: Representations) -> None:
    """See that what is called ``name`` has rows: a mean over none of them is NaN, without a word.

    Raises:
        TypeError: it is no tensor.
        ValueError: it has none, or is no matrix.
    """
    require_tensor(rows)
    shape = (rows.dense if isinstance(rows, Masked) else rows).shape
    if len(shape) < 2:
        raise ValueError(f"{name} has shape {list(shape)}: expected [batch, neuron]")
    if not torch.compiler.is_compiling() and not shape[-2]:
        raise ValueError(f"{name} has shape {list(shape)}: expected a row or more. Pass empty batches over")


def of_length_one(rows: Float[Tensor, "*row neuron"]) -> Float[Tensor, "*row neuron"]:
    """Rows over their lengths; a row of zeros stays one, and its gradient is as that of a row of length 1."""
    length = rows.norm(dim=-1, keepdim=True)
    return rows / length.where(length > 0, 1.0)


def stop_gradient(keys: Tensor) -> Tensor:
    """StopGrad: the keys as constants."""
    return keys.detach()


def products(
    anchor: Representations, keys: Float[Tensor, "*replica key neuron"] | Masked
) -> Float[Tensor, "*replica batch key"]:
    """Inner product of each anchor with each key; gradients flow through the anchors only.

    Of `Masked` representations the values are those of the pruned network and the gradients those of the whole one:
    a loss of them has the logits of the first, and every neuron goes on learning, pruned or not.
    """
    if isinstance(anchor, Masked) or isinstance(keys, Masked):
        (pruned, dense), (pruned_keys, dense_keys) = _masked(anchor), _masked(keys)
        return _of_value(products(dense, dense_keys), products(pruned, pruned_keys))
    return anchor @ stop_gradient(keys).mT


def paired(anchor: Representations, positive: Representations) -> Float[Tensor, "*replica batch"]:
    """Inner product of each anchor with its own positive; values and gradients as in `products`."""
    if isinstance(anchor, Masked) or isinstance(positive, Masked):
        (pruned, dense), (pruned_positive, dense_positive) = _masked(anchor), _masked(positive)
        return _of_value(paired(dense, dense_positive), paired(pruned, pruned_positive))
    return (anchor * stop_gradient(positive)).sum(-1)


def _masked(representations: Tensor | Masked) -> Masked:
    if isinstance(representations, Masked):
        return representations
    return Masked(representations.detach(), representations)  # of a network that nothing was pruned from


def _of_value(similarity: Tensor, value: Tensor) -> Tensor:
    """``value``, with the gradient of ``similarity``."""
    return similarity + (value - similarity).detach()
