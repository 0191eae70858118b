"""Every kind of draw, for tests that compare them: over replicas, shards and devices."""

import torch

KINDS = {
    "normal": lambda draws: draws.normal(3, 5),
    "uniform": lambda draws: draws.uniform(3, 5),
    "coins": lambda draws: draws.coins(3, 5),
    "choice": lambda draws: draws.choice(9, 4),
    "double": lambda draws: draws.uniform(3, 5, dtype=torch.float64),
    "signs": lambda draws: draws.signs(3, 5, chance=0.4),
}
