"""The non-contrastive learner with infinite batches: a closed system of order parameters (Wen & Li 2022, App. A).

With Gaussian noise the loss of cubic neurons on patches depends on the weights w_j only through

    B_jl = <w_j, v_l>,   R_jk = <Π w_j, Π w_k>  (Π projects off the features),   E  (the head),

and so does what gradient flow does to them. Time is in units of 1/η. The paper has the case of two neurons, as
(A.1) and (A.2), whose constants are mended here: factors 3 and 1/2, and the number of noise patches in a view.
"""

from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Inexact, Int
from scipy.special import gammaincinv
from torch import Tensor, nn

from featscope.streams import Draws

PURE = 0.3  # the smaller |B| over the larger one, below which a neuron has one feature
CONSTANTS = ("same", "own", "noise_patches", "noise", "rate")


@dataclass(frozen=True)
class OrderParameters:
    """The state of trajectories, one number a trajectory in the last axis; complex where a solver asks for derivatives.

    Attributes:
        b: B_jl.
        r: R_jk, symmetric.
        e: E - I, with zeros on its diagonal.
    """

    b: Inexact[Tensor, "neuron 2 trajectory"]
    r: Inexact[Tensor, "neuron neuron trajectory"]
    e: Inexact[Tensor, "neuron neuron trajectory"]

    def pack(self) -> Inexact[Tensor, "state trajectory"]:
        """All independent numbers in one axis: B, the upper triangle of R, the off-diagonal of E."""
        (i, j), (p, q) = _triangle(len(self.b)), _off_diagonal(len(self.b))
        return torch.cat([self.b.flatten(0, 1), self.r[i, j], self.e[p, q]])

    @classmethod
    def unpack(cls, y: Inexact[Tensor, "state trajectory"], neurons: int) -> "OrderParameters":
        """The inverse of `pack`."""
        upper = neurons * (neurons + 1) // 2
        b, r, e = y.split([2 * neurons, upper, neurons * (neurons - 1)])
        return cls(b.unflatten(0, (neurons, 2)), r[_places(neurons)], _spread(e, neurons))

    @property
    def norms(self) -> Inexact[Tensor, "neuron trajectory"]:
        """R_jj, squared norms off the features."""
        return self.r.diagonal(dim1=0, dim2=1).mT

    @property
    def features(self) -> tuple[Int[Tensor, "neuron trajectory"], Bool[Tensor, "neuron trajectory"]]:
        """The feature of each neuron's larger overlap (0: strong, 1: weak), and whether the other one is small."""
        size = self.b.abs()
        return size.argmax(1), size.amin(1) < PURE * size.amax(1)

    def by_role(
        self, fast: Int[Tensor, " trajectory"]
    ) -> tuple[Float[Tensor, "2 2 trajectory"], Float[Tensor, "2 trajectory"], Float[Tensor, "2 trajectory"]]:
        """B with the ``fast`` one of two neurons first, (R_1, R_2), and (E_12, E_21)."""
        order = torch.stack([fast, 1 - fast])
        b = self.b.gather(0, order[:, None].expand_as(self.b))
        return b, self.norms.gather(0, order), torch.stack([self.e[0, 1], self.e[1, 0]]).gather(0, order)


@dataclass(frozen=True)
class Population:
    """Loss and gradient flow in the limit of infinite batches, for trajectories with their own constants.

    Attributes:
        same: c0_l = E[k_l k'_l α_l⁶], k_l and k'_l the feature patches of either view (0 if it lacks feature l);
            the paper's C0 α_l⁶.
        own: c1_l = E[k_l² α_l⁶]; C1 α_l⁶.
        noise_patches: C2, mean number of noise patches in a view.
        noise: s⁶, the sixth power of the standard deviation of a noise coordinate.
        rate: η_E/η; 0 freezes the head.
        normalization: "batch" or "none", of both networks' outputs. With "none" weights grow without bound, and
            time is slowed down by (1 + Σ B²)³: paths are the same, times are not.
        stop_gradient: whether targets are constants.
        tied: whether the head is kept symmetric.
    """

    same: Float[Tensor, "2 trajectory"]
    own: Float[Tensor, "2 trajectory"]
    noise_patches: Float[Tensor, " trajectory"]
    noise: Float[Tensor, " trajectory"]
    rate: Float[Tensor, " trajectory"]
    normalization: Literal["batch", "none"] = "batch"
    stop_gradient: bool = True
    tied: bool = False

    @classmethod
    def alike(
        cls,
        trajectories: int,
        same: tuple[float, float],
        own: tuple[float, float],
        noise_patches: float,
        noise_std: float,
        rate: float,
        *,
        device: torch.device | None = None,
        **kind: Any,
    ) -> "Population":
        """The same constants for all of some trajectories.

        Args:
            trajectories: how many.
            same: c0_1 and c0_2.
            own: c1_1 and c1_2.
            noise_patches: C2.
            noise_std: s.
            rate: η_E/η.
            device: where they are.
            **kind: ``normalization``, ``stop_gradient`` and ``tied``.
        """
        one = torch.ones(trajectories, dtype=torch.float64, device=device)
        c0, c1 = (one.new_tensor(values)[:, None] * one for values in (same, own))
        return cls(c0, c1, noise_patches * one, noise_std**6 * one, rate * one, **kind)

    def noise_products(self, r: Inexact[Tensor, "neuron neuron trajectory"]) -> Tensor:
        """M_jk = E <w_j, ξ>³ <w_k, ξ>³ = s⁶ (9 R_jj R_kk R_jk + 6 R_jk³) of one noise patch."""
        diagonal = r.diagonal(dim1=0, dim2=1).mT
        return self.noise * (9 * diagonal[:, None] * diagonal * r + 6 * r**3)

    def loss(self, y: OrderParameters) -> Float[Tensor, " trajectory"]:
        """m - Σ_j corr(F_j, G_j), in the scale of (A.1); without normalisation minus Σ_j E[F_j G_j]."""
        moments = self._moments(y)
        if self.normalization == "none":
            return -moments.product.sum(0)
        return len(y.b) - (moments.product * (moments.predicted * moments.target).rsqrt()).sum(0)

    def correlation(self, y: OrderParameters) -> Float[Tensor, "neuron neuron trajectory"]:
        """Corr(f_j, f_k) of the neurons' outputs over views."""
        cubes = y.b**3
        moments = (self.own * cubes[:, None] * cubes).sum(2) + self.noise_patches * self.noise_products(y.r)
        square = moments.diagonal(dim1=0, dim2=1).mT
        return moments * (square[:, None] * square).rsqrt()

    def velocity(
        self, packed: Inexact[Tensor, "state trajectory"], neurons: int
    ) -> Inexact[Tensor, "state trajectory"]:
        """dy/dt under gradient flow on the weights, and ``rate`` times that on the head."""
        y = OrderParameters.unpack(packed, neurons)
        of = self._moments(y)
        if self.normalization == "none":
            by_product = torch.ones_like(of.product)
            by_predicted = by_target = torch.zeros_like(of.product)
        else:
            by_product = (of.predicted * of.target).rsqrt()
            by_predicted = -of.product * by_product / (2 * of.predicted)
            by_target = -of.product * by_product / (2 * of.target)
        # What each part of F and G does to Σ_j corr_j: first signals, then the noise products M.
        to_signal = by_product[:, None] * self.same * of.cubes + 2 * by_predicted[:, None] * self.own * of.signal
        to_cubes = products(of.head.transpose(0, 1), to_signal)
        noise = by_predicted * self.noise_patches
        to_products = products(of.head.transpose(0, 1), noise[:, None] * of.head)
        if not self.stop_gradient:
            target = 2 * by_target[:, None] * self.own * of.cubes
            to_cubes = to_cubes + by_product[:, None] * self.same * of.signal + target
            to_products = to_products + _diagonal(by_target * self.noise_patches)
        db = 3 * y.b**2 * to_cubes
        de = products(to_signal, of.cubes.transpose(0, 1)) + 2 * noise[:, None] * products(of.head, of.noise)
        if self.tied:
            de = (de + de.transpose(0, 1)) / 2
        dr = products(self._pull(y.r, to_products), y.r)
        moved = OrderParameters(db, dr + dr.transpose(0, 1), self.rate * de).pack()
        if self.normalization == "none":  # weights grow beyond bounds in finite time: let time pass slower for them
            moved = moved / (1 + (y.b**2).sum((0, 1))) ** 3
        return moved

    def _pull(self, r: Tensor, to_products: Tensor) -> Tensor:
        """S such that u_j = Π w_j moves by Σ_k S_jk u_k, up the slope of Σ_jk to_products_jk M_jk."""
        norms = r.diagonal(dim1=0, dim2=1).mT
        by_product = 18 * to_products * (norms[:, None] * norms + 2 * r**2)
        by_norm = 36 * (to_products * norms * r).sum(1)
        return self.noise * (by_product + _diagonal(by_norm))

    def _moments(self, y: OrderParameters) -> "_Moments":
        cubes, noise = y.b**3, self.noise_products(y.r)
        head = y.e + _diagonal(torch.ones_like(y.b[:, 0]))
        signal = products(head, cubes)
        product = (self.same * cubes * signal).sum(1)
        predicted = (self.own * signal**2).sum(1) + self.noise_patches * (head * products(head, noise)).sum(1)
        target = (self.own * cubes**2).sum(1) + self.noise_patches * noise.diagonal(dim1=0, dim2=1).mT
        return _Moments(cubes, signal, head, noise, product, predicted, target)


class PopulationNetwork(nn.Module):
    """Networks in the limit of infinite batches, from many starts a replica; the `Dynamics` of a `Flow`.

    Args:
        start: order parameters at the start, packed.
        neurons: m.
        of: constants of each replica, which are those of all its starts.

    Attributes:
        frozen: trajectories whose head stays as it is; none at first.
    """

    frozen: Bool[Tensor, "replica start"]

    def __init__(self, start: Float[Tensor, "replica start number"], neurons: int, of: Population) -> None:
        super().__init__()
        self.neurons, self.normalization, self.stop_gradient = neurons, of.normalization, of.stop_gradient
        self.tied = of.tied
        self.state = nn.Parameter(start)
        self.register_buffer("frozen", torch.zeros(start.shape[:2], dtype=torch.bool, device=start.device))
        for name in CONSTANTS:
            self.register_buffer(name, getattr(of, name).movedim(-1, 0).contiguous())

    @property
    def order_parameters(self) -> OrderParameters:
        """B, R and E now; trajectory = replica · starts + start."""
        return OrderParameters.unpack(self.state.detach().flatten(0, 1).mT, self.neurons)

    def population(self) -> Population:
        """The constants of all trajectories."""
        return self._of(self.constants())

    def constants(self) -> Float[Tensor, "7 trajectory"]:
        """See `Dynamics`; in the order of `CONSTANTS`, two of each feature first; frozen heads have rate 0."""
        rows = [self.get_buffer(name).unflatten(0, (len(self.state), -1)).flatten(1).mT for name in CONSTANTS]
        constants = torch.cat(rows).repeat_interleave(self.state.shape[1], 1)
        constants[-1] *= ~self.frozen.flatten()
        return constants

    def velocity(
        self, y: Inexact[Tensor, "number trajectory"], constants: Float[Tensor, "7 trajectory"]
    ) -> Inexact[Tensor, "number trajectory"]:
        """See `Dynamics`."""
        return self._of(constants).velocity(y, self.neurons)

    def _of(self, constants: Float[Tensor, "7 trajectory"]) -> Population:
        same, own, (noise_patches, noise, rate) = constants.split([2, 2, 3])
        return Population(same, own, noise_patches, noise, rate, self.normalization, self.stop_gradient, self.tied)

    def loss(self) -> Float[Tensor, "replica start"]:
        """See `Dynamics`."""
        return self.population().loss(self.order_parameters).view(self.state.shape[:2])


def random_start(draws: Draws, starts: int, input_dim: int, neurons: int) -> Float[Tensor, "replica start number"]:
    """Order parameters of weights w_j ~ N(0, I/d) with E = I, whatever d is.

    R is Wishart with d - 2 degrees of freedom, drawn by Bartlett's decomposition.
    """
    overlaps = draws.normal(starts, neurons, 2, dtype=torch.float64)
    below = draws.normal(starts, neurons, neurons, dtype=torch.float64).tril(-1)
    freedom = input_dim - 2 - torch.arange(neurons, dtype=torch.float64)
    chances = draws.uniform(starts, neurons, dtype=torch.float64)
    squares = torch.from_numpy(2 * gammaincinv(freedom.numpy() / 2, chances.cpu().numpy())).to(draws.device)
    factor = below + torch.diag_embed(squares.sqrt())
    gram = factor @ factor.mT
    return packed_weights(overlaps / sqrt(input_dim), gram / input_dim)


def of_weights(
    weight: Float[Tensor, "*#batch neuron input"], features: Float[Tensor, "*#batch input 2"]
) -> tuple[Float[Tensor, "*#batch neuron 2"], Float[Tensor, "*#batch neuron neuron"]]:
    """B and R: overlaps with the features, and inner products of what is off them.

    Args:
        weight: w_j, in rows.
        features: v_l, orthonormal, in columns.
    """
    overlaps = weight @ features
    return overlaps, weight @ weight.mT - overlaps @ overlaps.mT


def packed_weights(
    overlaps: Float[Tensor, "*batch neuron 2"], gram: Float[Tensor, "*batch neuron neuron"]
) -> Float[Tensor, "*batch number"]:
    """`OrderParameters.pack` with E = I.

    Args:
        overlaps: B_jl.
        gram: R_jk.
    """
    leading, m = overlaps.shape[:-2], overlaps.shape[-2]
    b, r = (x.reshape(-1, m, x.shape[-1]).permute(1, 2, 0).double() for x in (overlaps, gram))
    return OrderParameters(b, r, torch.zeros_like(r)).pack().mT.reshape(*leading, -1).contiguous()


class _Moments(NamedTuple):
    """B_jl³, that of the predictions, E, M, E[F_j G_j], E[F_j²] and E[G_j²]."""

    cubes: Tensor
    signal: Tensor
    head: Tensor
    noise: Tensor
    product: Tensor
    predicted: Tensor
    target: Tensor


def products(
    a: Inexact[Tensor, "i j trajectory"], b: Inexact[Tensor, "j k trajectory"]
) -> Inexact[Tensor, "i k trajectory"]:
    """Products of small matrices, trajectory by trajectory."""
    return (a[:, :, None] * b).sum(1)


def _diagonal(values: Inexact[Tensor, "neuron trajectory"]) -> Inexact[Tensor, "neuron neuron trajectory"]:
    return torch.diag_embed(values.mT).permute(1, 2, 0)


@cache
def _triangle(m: int) -> tuple[Tensor, Tensor]:
    i, j = torch.triu_indices(m, m)
    return i, j


@cache
def _off_diagonal(m: int) -> tuple[Tensor, Tensor]:
    p, q = (~torch.eye(m, dtype=torch.bool)).nonzero().T
    return p, q


@cache
def _places(m: int) -> Tensor:
    """Where R_jk stands in the upper triangle."""
    places = torch.zeros(m, m, dtype=torch.long)
    i, j = _triangle(m)
    places[i, j] = places[j, i] = torch.arange(len(i))
    return places


@cache
def _spots(m: int) -> Tensor:
    """Where E_jk stands among the off-diagonal entries; E_jj after the last."""
    spots = torch.full((m, m), m * (m - 1), dtype=torch.long)
    spots[_off_diagonal(m)] = torch.arange(m * (m - 1))
    return spots


def _spread(e: Inexact[Tensor, "entry trajectory"], m: int) -> Inexact[Tensor, "neuron neuron trajectory"]:
    """The off-diagonal entries at their places, zeros on the diagonal."""
    return torch.cat([e, e.new_zeros(1, e.shape[-1])])[_spots(m)]
