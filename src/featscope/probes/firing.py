"""When neurons fire, and on what."""

from math import nan

from jaxtyping import Bool, Float
from torch import Tensor

from featscope.numbers import require_tensor
from featscope.probes.shapes import require_matrix, require_partners

_ROWS = slice(-2, -1)


def firing_rate(activation: Float[Tensor, "*replica batch neuron"]) -> Float[Tensor, "*replica neuron"]:
    """Share of inputs on which each neuron's activation is not zero; NaN where one is NaN.

    Raises:
        ValueError: it is a vector.
    """
    require_matrix("activations", activation, "[batch, neuron]")
    return _known(activation != 0, activation).mean(-2)


def false_firing(
    activation: Float[Tensor, "*replica batch neuron"],
    codes: Float[Tensor, "*replica batch feature"],
    members: Bool[Tensor, "*replica neuron feature"],
) -> Float[Tensor, "*replica neuron"]:
    """Pr(none of a neuron's features is present | it fires); NaN for a neuron that never fires, or where one is NaN.

    Args:
        activation: activations on a batch.
        codes: the hidden signals of the batch.
        members: which features belong to which neuron.

    Raises:
        TypeError: one of them is no tensor.
        ValueError: there are not signals for each input, or members for each neuron and each feature.
    """
    absent = ~_present(activation, codes, members)
    fires = _known(activation != 0, activation)
    return (fires * absent).sum(-2) / fires.sum(-2)


def missed_firing(
    activation: Float[Tensor, "*replica batch neuron"],
    codes: Float[Tensor, "*replica batch feature"],
    members: Bool[Tensor, "*replica neuron feature"],
) -> Float[Tensor, "*replica neuron"]:
    """Pr(a neuron is silent | one of its features is present); arguments, errors and NaN as of `false_firing`."""
    present = _present(activation, codes, members).float()
    return (present * _known(activation == 0, activation)).sum(-2) / present.sum(-2)


def wrong_firing(
    activation: Float[Tensor, "*replica batch neuron"],
    codes: Float[Tensor, "*replica batch feature"],
    members: Bool[Tensor, "*replica neuron feature"],
) -> Float[Tensor, "*replica neuron"]:
    """Pr(a neuron fires xor one of its features is present | one of the two); all else as of `false_firing`.

    0 if it fires on its features and on nothing else, 1 if it never fires; a neuron that always does is wrong as often
    as its features are absent.
    """
    fires, present = activation != 0, _present(activation, codes, members)
    return _known(fires ^ present, activation).sum(-2) / (fires | present).float().sum(-2)


def _known(
    holds: Bool[Tensor, "*replica batch neuron"], activation: Float[Tensor, "*replica batch neuron"]
) -> Float[Tensor, "*replica batch neuron"]:
    """1 where something holds, else 0; NaN where the activation is, of which it is not known."""
    return holds.float().masked_fill(activation.isnan(), nan)


def _present(
    activation: Float[Tensor, "*replica batch neuron"],
    codes: Float[Tensor, "*replica batch feature"],
    members: Bool[Tensor, "*replica neuron feature"],
) -> Bool[Tensor, "*replica batch neuron"]:
    """Whether some feature of the neuron is in the input."""
    require_tensor(codes)
    require_tensor(members)
    if members.shape[-1] != codes.shape[-1]:
        allowed = f"{codes.shape[-1]}, those of codes"
        raise ValueError(f"members are of {members.shape[-1]} features: allowed is {allowed}")
    present = (codes != 0).float() @ members.float().mT > 0
    require_partners(activation, present)
    return present


def cosine_to_noise(
    of_input: Float[Tensor, "*replica batch neuron"], of_noise: Float[Tensor, "*replica batch neuron"]
) -> Float[Tensor, "*replica"]:
    """Mean cosine of f(x) and f(ξ), over inputs on which neither vanishes; NaN if there is none.

    Raises:
        ValueError: shapes differ.
    """
    require_partners(of_input, of_noise)
    scale = of_input.norm(dim=-1) * of_noise.norm(dim=-1)
    defined = scale > 0
    cosine = (of_input * of_noise).sum(-1) / scale.where(defined, scale.new_ones(()))
    return (cosine * defined).sum(-1) / defined.sum(-1)


def moved_by_noise(
    of_input: Float[Tensor, "*replica batch neuron"],
    of_signal: Float[Tensor, "*replica batch neuron"],
    codes: Float[Tensor, "*replica batch feature"],
) -> Float[Tensor, "*replica"]:
    """Root mean square of ||f(x) - f(Mz)|| over that of ||f(Mz)||, over inputs that hold a signal, z != 0.

    Raises:
        ValueError: shapes differ, or there is not a signal for each input.
    """
    require_partners(of_input, of_signal)
    require_partners(of_input, codes, _ROWS)
    present = (codes != 0).any(-1)
    moved, kept = (
        (norm.square() * present).sum(-1) / present.sum(-1)
        for norm in ((of_input - of_signal).norm(dim=-1), of_signal.norm(dim=-1))
    )
    return (moved / kept).sqrt()
