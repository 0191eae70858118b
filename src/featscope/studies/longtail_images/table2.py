"""Table 2 of P, as printed (the text of P calls it Table 4).

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning Solution.
It says neither which network it trained and how long, nor how much it pruned, nor what the ± are and from how many
runs.
"""

from dataclasses import dataclass

Number = tuple[float, float]
"""A value and what stands behind its ±, in per cent; NaN where nothing does."""

_NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        data: the data set and its imbalance ρ.
        accuracy: of a linear probe, without and with pruning.
        gap: Δ_20, without and with pruning.
    """

    data: str
    accuracy: tuple[Number, Number]
    gap: tuple[Number, Number]


TABLE_2 = (
    Row("CIFAR10-LT, ρ 10", ((79.25, 1.03), (84.92, 0.67)), ((3.42, 1.02), (2.99, 0.92))),
    Row("CIFAR10-LT, ρ 50", ((75.58, 0.84), (83.60, 1.02)), ((3.92, 1.21), (3.35, 0.76))),
    Row("CIFAR10-LT, ρ 100", ((74.24, 0.82), (81.31, 0.94)), ((5.69, 1.35), (5.62, 0.99))),
    Row("CIFAR100-LT, ρ 10", ((51.21, 1.21), (56.33, 1.51)), ((2.45, 0.57), (1.37, 0.46))),
    Row("CIFAR100-LT, ρ 50", ((49.32, 0.45), (56.12, 0.32)), ((4.95, 1.02), (2.57, 0.92))),
    Row("CIFAR100-LT, ρ 100", ((47.12, 0.51), (54.93, 0.50)), ((7.11, 0.45), (4.38, 0.22))),
    Row("ImageNet-LT, ρ 256", ((63.21, _NAN), (65.12, _NAN)), ((8.47, _NAN), (7.21, _NAN))),
)
