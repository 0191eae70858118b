"""Table 2 of the paper, as printed (the text of the paper calls it Table 4).

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning Solution.
It says neither which network it trained and how long, nor how much it pruned, nor what the ± are and from how many
runs.
"""

import numpy as np

_NAN = float("nan")

TABLE_2 = {
    "CIFAR10-LT, ρ 10": (((79.25, 1.03), (84.92, 0.67)), ((3.42, 1.02), (2.99, 0.92))),
    "CIFAR10-LT, ρ 50": (((75.58, 0.84), (83.60, 1.02)), ((3.92, 1.21), (3.35, 0.76))),
    "CIFAR10-LT, ρ 100": (((74.24, 0.82), (81.31, 0.94)), ((5.69, 1.35), (5.62, 0.99))),
    "CIFAR100-LT, ρ 10": (((51.21, 1.21), (56.33, 1.51)), ((2.45, 0.57), (1.37, 0.46))),
    "CIFAR100-LT, ρ 50": (((49.32, 0.45), (56.12, 0.32)), ((4.95, 1.02), (2.57, 0.92))),
    "CIFAR100-LT, ρ 100": (((47.12, 0.51), (54.93, 0.50)), ((7.11, 0.45), (4.38, 0.22))),
    "ImageNet-LT, ρ 256": (((63.21, _NAN), (65.12, _NAN)), ((8.47, _NAN), (7.21, _NAN))),
}
"""Data set -> accuracy of a linear probe, and Δ_20; each without and with pruning, each with what stands behind its ±,
in per cent."""
ACCURACY, GAP = np.moveaxis(np.array(list(TABLE_2.values())), 1, 0)  # [row, without or with pruning, value or ±]
GAINS = ACCURACY[:, 1, 0] - ACCURACY[:, 0, 0]
"""What pruning adds to the accuracy, in points."""
