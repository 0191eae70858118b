"""Checks of the shapes that probes are given: of others they would give a number, or an error of torch's."""

from torch import Tensor

from featscope.numbers import require_tensor


def require_matrix(name: str, values: Tensor, allowed: str = "[sample, dimension]") -> None:
    """Raise `ValueError` unless ``values`` have the two last axes that are ``allowed``.

    Raises:
        TypeError: they are no tensor.
    """
    require_tensor(values)
    if values.ndim < 2:
        raise ValueError(f"{name} have shape {tuple(values.shape)}; allowed is {allowed}")


def require_partners(one: Tensor, other: Tensor, axes: slice = slice(-2, None)) -> None:
    """Raise `ValueError` unless there is a row of one for each of the other: a single row would be compared with all.

    Args:
        one: rows.
        other: theirs.
        axes: those in which both are alike.

    Raises:
        TypeError: one of them is no tensor.
    """
    require_tensor(one)
    require_tensor(other)
    if one.shape[axes] != other.shape[axes]:
        allowed = "is one shape" if axes.stop is None else "are as many rows"
        raise ValueError(f"pairs have shapes {tuple(one.shape)} and {tuple(other.shape)}; allowed {allowed}")
