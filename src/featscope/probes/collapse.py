"""Whether representations have collapsed: to a point, or to few dimensions.

Everything is computed in float64 over the last two axes, samples and dimensions. A dimension counts as constant when
its deviation is no more than float32 rounding of its values. What is not finite leaves nothing to be said: the result
is NaN. A vector is refused: it has no samples.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.numbers import in_double, unit_vectors
from featscope.probes.shapes import require_matrix, require_partners

Embeddings = Float[Tensor, "*replica sample dimension"]

_ROUNDING = 10 * torch.finfo(torch.float32).eps
_ROWS = 1024  # of a matrix of distances or of correlations at once


def deviations(embeddings: Embeddings) -> Float[Tensor, "*replica dimension"]:
    """Standard deviation of each dimension over the samples (biased); exactly 0 where it is constant."""
    return _centred(embeddings).square().mean(-2).sqrt()


def constant_dimensions(embeddings: Embeddings) -> Bool[Tensor, "*replica dimension"]:
    """Dimensions with one value for all samples."""
    return deviations(embeddings) == 0


def standardised(embeddings: Embeddings) -> Float[Tensor, "*replica sample dimension"]:
    """Each dimension with mean 0 and variance 1 over the samples; 0 where it is constant."""
    centred = _centred(embeddings)
    scale = centred.square().mean(-2, keepdim=True).sqrt()
    return centred / scale.where(scale > 0, torch.ones_like(scale))


def singular_spectrum(embeddings: Embeddings) -> Float[Tensor, "*replica value"]:
    """Singular values of the centred embeddings over √samples, largest first.

    These are the standard deviations along the principal axes; their squares sum to the total variance.
    """
    centred = _centred(embeddings)
    known = centred.isfinite().flatten(-2).all(-1)[..., None]
    found = torch.linalg.svdvals(centred.where(known[..., None], 0.0)) / centred.shape[-2] ** 0.5
    return found.where(known, torch.nan)


def effective_rank(embeddings: Embeddings) -> Float[Tensor, "*replica"]:
    """exp(-Σ p_k log p_k), p_k = s_k/Σ s of the singular values of the centred embeddings (Roy & Vetterli 2007).

    Between 1 (all samples on a line) and the number of dimensions (equal variance in all directions); 0 if all samples
    are equal. It depends on the scales of the dimensions: one that is much larger than the others is almost alone. The
    rank of `standardised` embeddings does not.
    """
    spectrum = singular_spectrum(embeddings)
    total = spectrum.sum(-1, keepdim=True)
    share = spectrum / total.where(total > 0, torch.ones_like(total))
    entropy = -torch.special.xlogy(share, share).sum(-1)
    return entropy.exp() * (total[..., 0] > 0)


def correlation_matrix(embeddings: Embeddings) -> Float[Tensor, "*replica dimension other"]:
    """Pearson correlations of the dimensions over the samples; 0 with a constant dimension, also its own."""
    z = standardised(embeddings)
    return z.mT @ z / z.shape[-2]


def off_diagonal(correlations: Float[Tensor, "dimension other"]) -> Float[Tensor, " pair"]:
    """Of a matrix of correlations, those of two dimensions that vary: one that does not has none with itself."""
    varies = ~(correlations.diagonal() <= 0.5)  # or is not known
    matrix = correlations[varies][:, varies]
    return matrix[torch.ones_like(matrix, dtype=torch.bool).triu(1)]


def in_order(correlations: Float[Tensor, "dimension other"]) -> Float[Tensor, "dimension other"]:
    """A matrix of correlations to look at: dimensions by their part in its largest eigenvector; as it is with NaN."""
    if not correlations.isfinite().all():
        return correlations
    order = torch.linalg.eigh(correlations).eigenvectors[:, -1].argsort()
    return correlations[order][:, order]


def mean_correlation(embeddings: Float[Tensor, "sample dimension"]) -> Float[Tensor, ""]:
    """Mean |correlation| over pairs of dimensions that vary: 1 if all say the same; NaN if fewer than two vary.

    Raises:
        ValueError: embeddings are no matrix: in each replica other dimensions may be constant, and are left out.
    """
    if embeddings.ndim != 2:
        raise ValueError(f"embeddings have shape {tuple(embeddings.shape)}; allowed is [sample, dimension]")
    z = standardised(embeddings)
    z = z[:, ~(z.square().mean(0) <= 0.5)]  # those that vary, or are not known
    dimensions, total = z.shape[1], z.new_zeros(())
    for first in range(0, dimensions, _ROWS):
        rows = z[:, first : first + _ROWS].mT @ z[:, first:] / len(z)
        total += rows[torch.ones_like(rows, dtype=torch.bool).triu(1)].abs().sum()
    return total / (dimensions * (dimensions - 1) / 2)


def spread(embeddings: Embeddings) -> Float[Tensor, "*replica"]:
    """Variance on the unit sphere, 1 - ||mean of z/||z|| ||²: 0 if all point one way, 1 if directions cancel.

    Samples that are 0 point nowhere and do not count; 0 if there are no others.
    """
    require_matrix("embeddings", embeddings)
    z = unit_vectors(embeddings)
    pointing = (z != 0).any(-1).sum(-1, keepdim=True)
    return (1 - (z.sum(-2) / pointing.clamp_min(1)).square().sum(-1)).clamp_min(0) * (pointing[..., 0] > 0)


def pair_alignment(one: Embeddings, other: Embeddings, power: float = 2.0) -> Float[Tensor, "*replica"]:
    """E ||z - z'||^power over positive pairs on the unit sphere (Wang & Isola 2020, Section 4.1); 0 is perfect.

    Raises:
        ValueError: there is not one of the other for each; a single row would be compared with all.
    """
    require_partners(one, other)
    return (unit_vectors(one) - unit_vectors(other)).norm(dim=-1).pow(power).mean(-1)


def uniformity(embeddings: Embeddings, t: float = 2.0) -> Float[Tensor, "*replica"]:
    """log E exp(-t ||z - z'||²) over pairs of distinct samples on the unit sphere (Wang & Isola 2020, Section 4.1).

    0 if all samples are in one place, lower the more evenly they are spread; NaN for a single sample.
    """
    require_matrix("embeddings", embeddings)
    z = unit_vectors(embeddings)
    samples = z.shape[-2]
    squared, place = z.square().sum(-1), torch.arange(samples, device=z.device)
    total = torch.zeros(z.shape[:-2], dtype=z.dtype, device=z.device)
    for first in range(0, samples, _ROWS):
        rows = slice(first, first + _ROWS)
        distance = squared[..., rows, None] + squared[..., None, :] - 2 * z[..., rows, :] @ z.mT
        itself = place[rows, None] == place  # taken off the sum it would leave rounding
        total += (-t * distance.clamp_min(0)).exp().masked_fill(itself, 0.0).sum((-2, -1))
    pairs = torch.full_like(total, samples * (samples - 1))
    return (total / pairs).log()


def _centred(embeddings: Embeddings) -> Float[Tensor, "*replica sample dimension"]:
    require_matrix("embeddings", embeddings)
    x = in_double(embeddings)
    centred = x - x.mean(-2, keepdim=True)
    size = x.square().mean(-2, keepdim=True).sqrt()
    constant = centred.square().mean(-2, keepdim=True).sqrt() <= _ROUNDING * size
    return centred.masked_fill(constant, 0.0)


@dataclass(frozen=True)
class Collapse:
    """What `collapse_of` and `measure_collapse` find; each field is the function of that name in this module.

    Attributes:
        samples, dimensions: size of what was measured.
        constant: how many dimensions are constant.
        effective_rank: of the centred embeddings.
        mean_correlation: mean |correlation| of pairs of dimensions that vary; NaN if there are none.
        spread: variance of the directions.
        uniformity: log E exp(-2 ||z - z'||²).
        alignment: mean squared distance of positive pairs on the sphere; None where no pairs were given.
        spectrum: singular values over √samples, largest first.
        deviations: standard deviation of each dimension.
        correlation: correlation matrix of the dimensions.
    """

    samples: int
    dimensions: int
    constant: int
    effective_rank: float
    mean_correlation: float
    spread: float
    uniformity: float
    alignment: float | None
    spectrum: Float[Tensor, " value"]
    deviations: Float[Tensor, " dimension"]
    correlation: Float[Tensor, "dimension other"]

    def __str__(self) -> str:
        pairs = "" if self.alignment is None else f", alignment {self.alignment:.3g}"
        return (
            f"effective rank {self.effective_rank:.2f} of {self.dimensions} dimensions ({self.constant} constant), "
            f"mean |correlation| {self.mean_correlation:.3f}, spread {self.spread:.3g}, uniformity "
            f"{self.uniformity:.3g}{pairs}; {self.samples} samples"
        )


def collapse_of(embeddings: Tensor, positives: Tensor | None = None) -> Collapse:
    """All measures of collapse at once.

    Args:
        embeddings: ``[sample, dimension]``.
        positives: embeddings of the other views of the same samples, for the alignment.

    Raises:
        ValueError: not a matrix, fewer than two samples, positives of another shape, or values that are not finite.
    """
    if embeddings.ndim != 2 or len(embeddings) < 2:
        raise ValueError(f"embeddings have shape {tuple(embeddings.shape)}; allowed is [sample >= 2, dimension]")
    if positives is not None and positives.shape != embeddings.shape:
        allowed = f"that of embeddings, {tuple(embeddings.shape)}, as each row is another view of the row there"
        raise ValueError(f"positives have shape {tuple(positives.shape)}; allowed is {allowed}")
    for name, values in (("embeddings", embeddings), ("positives", positives)):
        if values is not None and not torch.isfinite(values).all():
            raise ValueError(f"{name} hold values that are not finite; look for the first step at which they do")
    x = embeddings.detach()
    return Collapse(
        samples=x.shape[0],
        dimensions=x.shape[1],
        constant=int(constant_dimensions(x).sum()),
        effective_rank=float(effective_rank(x)),
        mean_correlation=float(mean_correlation(x)),
        spread=float(spread(x)),
        uniformity=float(uniformity(x)),
        alignment=None if positives is None else float(pair_alignment(x, positives.detach())),
        spectrum=singular_spectrum(x),
        deviations=deviations(x),
        correlation=correlation_matrix(x),
    )
